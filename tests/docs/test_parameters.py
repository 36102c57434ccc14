"""Every public function describes its parameters, in the form that CONTRIBUTING asks for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

import armrace
import armrace.extending

ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
UNDESCRIBED = {"admits", "from_outcomes"}
"""Methods that only the library calls."""


def described(function: Any) -> set[str]:
    section = ARGUMENTS.search(f"{inspect.getdoc(function)}\n")
    return set() if section is None else set(re.findall(r"^    (\w+):", section[1], re.MULTILINE))


def functions() -> Iterator[Any]:
    """All public functions and methods of what a user imports; the service has tests of its own."""
    for module in (armrace, armrace.extending):
        for thing in (getattr(module, name) for name in module.__all__):
            home = getattr(thing, "__module__", None) or ""
            if not home.startswith("armrace.") or home.startswith("armrace.service"):
                continue
            if inspect.isfunction(thing):
                yield thing
            elif inspect.isclass(thing):
                yield from methods(thing)


def methods(owner: type) -> Iterator[Any]:
    for base in owner.__mro__:
        if base.__module__.startswith("armrace."):
            for name, member in vars(base).items():
                plain = member.__func__ if isinstance(member, classmethod) else member
                private = name.startswith("_") or name in UNDESCRIBED
                if inspect.isfunction(plain) and not private and plain.__doc__:
                    yield plain


@pytest.mark.parametrize(
    "function",
    sorted(set(functions()), key=lambda each: each.__qualname__),
    ids=lambda each: each.__qualname__,
)
def test_a_public_function_describes_its_parameters(function: Any) -> None:
    parameters = set(inspect.signature(function).parameters) - {"self", "cls"}
    assert described(function) >= parameters
