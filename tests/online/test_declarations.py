"""What states declare of their arrays, and what is taken for granted where they do not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from armrace.forensics import watch
from armrace.kernels import declarations
from armrace.kernels.declarations import (
    AMOUNT,
    ARM,
    ARM_OR_NONE,
    CONSTANT,
    COUNT,
    FINITE,
    LAYER_OR_NONE,
    PROBABILITIES,
    REWARD_COUNT,
    UNIT,
    Room,
    SumOf,
    declare,
    relation,
    unsound_array,
)
from armrace.policies import POLICIES

ROOM = Room(arms=3, layers=2, decisions=10, rewards=8)


class Bare(NamedTuple):
    """A state of somebody who declares nothing."""

    number: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]
    flag: npt.NDArray[np.bool_]
    rate: float
    scratch: npt.NDArray[np.float64]


def bare(number=0.0, count=0, flag=0):
    flags = np.array([flag], dtype=np.uint8).view(np.bool_)
    return Bare(np.array([number]), np.array([count]), flags, 0.5, np.array([np.nan]))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"number": np.inf, "count": -1, "flag": 1}, None),
        ({"count": 2**62}, None),
        ({"number": np.nan}, "number"),
        ({"count": -2}, "count"),
        ({"count": 2**62 + 1}, "count"),
        ({"flag": 2}, "flag"),
        ({"flag": 255}, "flag"),
    ],
)
def test_without_declarations_there_are_defaults(given, found):
    assert unsound_array(bare(**given), bare(), ROOM) == found


@pytest.mark.parametrize(
    ("declaration", "sound", "unsound"),
    [
        (COUNT, [0, 10], [-1, 11]),
        (REWARD_COUNT, [0, 8], [-1, 9]),
        (ARM, [0, 2], [-1, 3]),
        (ARM_OR_NONE, [-1, 2], [-2, 3]),
        (LAYER_OR_NONE, [-1, 1], [-2, 2]),
        (UNIT, [0.0, 1.0], [-1e-9, 1.1, np.nan, np.inf]),
        (AMOUNT, [0.0, 1e200], [-1e-9, 1e300, np.nan, np.inf]),
        (FINITE, [-1e308, 1e308], [np.nan, np.inf, -np.inf]),
        (CONSTANT, [0.25], [0.5, np.nan]),
        (PROBABILITIES, [1.0], [0.9, 1.1, np.nan]),
        (SumOf("counts"), [0.0, 2.0], [-1e-9, 2.1, np.nan]),
    ],
)
def test_a_declaration_admits_its_range(declaration, sound, unsound):
    owner = NamedTuple("Owner", [("counts", object)])(np.array([2]))
    for values, admitted in ((sound, True), (unsound, False)):
        for value in values:
            array = np.array([value])
            assert declaration.admits(array, np.array([0.25]), owner, ROOM) == admitted, value


def test_relations_and_members_of_members_are_checked():
    @declare(records={"place": ARM})
    class Outer(NamedTuple):
        records: np.ndarray
        inner: Bare

    @relation(Outer)
    def find_contradictions_in_outer(state, fresh, room):
        if state.inner.count[0] != state.records["place"].sum():
            yield "inner.count"

    def outer(place, **given):
        return Outer(np.array([(place,)], dtype=[("place", np.int64)]), bare(**given))

    fresh = outer(0)
    assert unsound_array(outer(2, count=2), fresh, ROOM) is None
    assert unsound_array(outer(3, count=3), fresh, ROOM) == "records.place"
    assert unsound_array(outer(2, number=np.nan), fresh, ROOM) == "inner.number"
    assert unsound_array(outer(2, count=1), fresh, ROOM) == "inner.count"


def undeclared(state):
    """The arrays of numbers of a state that nothing is declared of."""
    declared = declarations._DECLARATIONS.get(type(state), {})
    for name, member in zip(state._fields, state, strict=True):
        if name == "scratch" or not hasattr(member, "__len__"):
            continue
        if hasattr(member, "_fields"):
            yield from undeclared(member)
        elif member.dtype.names is not None:
            numbers = {field for field in member.dtype.names if member.dtype[field] != np.bool_}
            yield from numbers - declared.get(name, {}).keys()
        elif member.dtype != np.bool_ and name not in declared:
            yield f"{type(state).__name__}.{name}"


@pytest.mark.parametrize("name", POLICIES)
def test_every_array_of_the_catalogue_is_declared(name):
    policy = POLICIES.make(name)
    assert list(undeclared(watch(policy.start(3, 100), 3, 100))) == []
