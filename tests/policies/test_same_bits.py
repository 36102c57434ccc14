"""What a log of visitors is replayed with needs no function of a machine's own library."""

import inspect
import math
from collections.abc import Iterator
from decimal import Decimal
from types import CodeType, FunctionType

import numpy as np
import pytest

from armrace.kernels.dispatch import implementations
from armrace.kernels.generics import ContextShape
from armrace.policies import POLICIES
from armrace.policies.common.constants import rounded_log

CONTEXTUAL = [name for name, policy in POLICIES.items() if policy.takes_contexts]
ROUNDED = {"sqrt", "ceil", "floor", "inf", "isnan", "nan", "pi"}
"""What IEEE 754 rounds correctly everywhere, and constants."""


def named(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from named(constant)


def library_calls(function: FunctionType, seen: set[FunctionType]) -> set[str]:
    """The functions of the standard library's mathematics that a function reaches."""
    function = inspect.unwrap(function)
    if function in seen or not isinstance(function, FunctionType):
        return set()
    seen.add(function)
    found: set[str] = set()
    names = list(named(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if value is math or value is np:
            found |= {each for each in names if hasattr(math, each)} - ROUNDED
        elif isinstance(value, FunctionType) and value.__module__.startswith("armrace"):
            found |= library_calls(value, seen)
    return found


@pytest.mark.parametrize("name", CONTEXTUAL)
def test_a_replay_of_visitors_uses_roots_alone(name: str) -> None:
    """Start, assignment and learning; draws and shown probabilities are not replayed."""
    policy, seen = POLICIES.make(name), set()
    state = policy.start(3, 1000, ContextShape(3, 2))
    drawing = "distribution", "choose", "among"
    functions = [
        each for each in implementations(state) if not any(w in each.__name__ for w in drawing)
    ]
    functions.append(type(policy).start)
    found = set().union(*(library_calls(each, seen) for each in functions))
    assert len(seen) > 3
    assert found == set()


@pytest.mark.parametrize("number", [2, 1000, 99_991, 10**9, 2.5, 100_001 / 0.05])
def test_logarithms_are_the_nearest_doubles(number: float) -> None:
    """Judged by the exponential of 60 digits, which increases."""
    found = rounded_log(number)
    below, above = (
        (Decimal(found) + Decimal(math.nextafter(found, end))) / 2 for end in (-math.inf, math.inf)
    )
    assert below.exp() < Decimal(number) < above.exp()
