"""Compiled code reads decisions that Python passes and makes those that Python gets."""

import gc
import math
import sys
from typing import NamedTuple

import numpy as np
import pytest
from numba.core import types

from armrace.kernels.compiling import entry
from armrace.kernels.decision_objects import (
    FIRST_LABEL,
    GIVEN_DECISION,
    GIVEN_REWARD,
    NO_ROOM,
    find_objects,
    is_label,
    make_decision,
)
from armrace.kernels.event_log import read_ticket
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import Ticket, make_ticket


class Made(NamedTuple):
    """A decision."""

    number: int
    arm: object
    ticket: Ticket


NAMES = ["red", "".join(["blu", "e"]), 10**12]
OBJECTS = find_objects(Made, NAMES)
TICKET = Ticket(1, -1, 0.25, 7, -1e50, 3, math.inf, -2)


@entry(fingerprint([]), holds_lock=True)
def _copy(objects, given):
    if not given.is_plain:
        return make_decision(0, 0, NO_ROOM, 0, make_ticket(0))
    classes, label = objects[:FIRST_LABEL], objects[FIRST_LABEL + given.arm]
    return make_decision(classes[0], classes[1], given.number, label, read_ticket(given))


@entry(fingerprint([]), holds_lock=True)
def _is_named(objects, given, arm):
    return is_label(given.label, objects[FIRST_LABEL + arm])


@entry(fingerprint([]), holds_lock=True)
def _value(given):
    return given.value


def entry_point(function, *kinds):
    function.compile(kinds)
    return function.overloads[kinds].entry_point


ADDRESSES = types.Array(types.int64, 1, "C")
copy = entry_point(_copy, ADDRESSES, GIVEN_DECISION)
is_named = entry_point(_is_named, ADDRESSES, GIVEN_DECISION, types.int64)
value = entry_point(_value, GIVEN_REWARD)


def test_a_decision_comes_back_as_it_was():
    decision = Made(2**63 - 1, NAMES[1], TICKET)
    made = copy(OBJECTS, decision)
    assert made == decision
    assert type(made) is Made
    assert type(made.ticket) is Ticket
    assert made.arm is NAMES[1]
    assert hash(made) == hash(decision)
    assert list(map(type, made.ticket)) == list(map(type, TICKET))


class Fraud:
    """Counts as a number, and would run code if it were read as one."""

    def __repr__(self) -> str:  # without an address, since it is part of the names of tests
        return "Fraud()"

    def __index__(self):
        raise AssertionError

    __float__ = __index__


@pytest.mark.parametrize(
    "decision",
    [
        None,
        [1, "red", TICKET],
        (1, "red"),
        (1, "red", TICKET, 0),
        (1, "red", list(TICKET)),
        (1, "red", TICKET[:6]),
        (2**63, "red", TICKET),
        (True, "red", TICKET),
        (np.int64(1), "red", TICKET),
        (Fraud(), "red", TICKET),
        (1, "red", TICKET._replace(arm=1.0)),
        (1, "red", TICKET._replace(phase=-(2**63) - 1)),
        (1, "red", TICKET._replace(probability=1)),
        (1, "red", TICKET._replace(memo=np.float64(0.5))),
        (1, "red", TICKET._replace(inner_probability=Fraud())),
        (1, "red", TICKET._replace(inner_layer=None)),
        (1, "red", TICKET._replace(inner_arm=1.0)),
    ],
    ids=repr,
)
def test_other_objects_are_not_plain_and_leave_no_error_behind(decision):
    assert copy(OBJECTS, decision) is None


@pytest.mark.parametrize(
    ("label", "arm", "expected"),
    [
        ("red", 0, True),
        ("".join(["b", "lue"]), 1, True),
        (10**6 * 10**6, 2, True),
        ("red", 1, False),
        ("10", 2, False),
        (1e12, 2, False),
        (np.str_("red"), 0, False),  # Python compares names of other types
        (Fraud(), 0, False),
    ],
    ids=repr,
)
def test_names_are_compared_by_value(label, arm, expected):
    assert is_named(OBJECTS, Made(0, label, TICKET), arm) is expected


@pytest.mark.parametrize("reward", [0.25, -3.5, math.inf, 0, 1, True, 12345678901234567890])
def test_plain_rewards_are_read(reward):
    assert value(reward) == float(reward)


@pytest.mark.parametrize("reward", ["1", None, np.float32(0.5), Fraud(), [], 0.5j], ids=repr)
def test_other_rewards_are_not_a_number(reward):
    assert math.isnan(value(reward))


def test_a_reward_beyond_all_floats_is_out_of_range_and_no_error():
    assert not 0.0 <= value(10**400) <= 1.0


def test_no_reference_is_lost_or_kept():
    decision = Made(10**9, NAMES[2], TICKET)
    shared = [NAMES[2], Made, Ticket, decision, TICKET, None]

    def play():
        for _ in range(1000):
            copy(OBJECTS, decision)
            copy(OBJECTS, None)
            copy(OBJECTS, (2**70, "red", TICKET))
            is_named(OBJECTS, decision, 0)
            value(0.5)
            value("1")

    def differences():
        gc.collect()
        before, blocks = [sys.getrefcount(each) for each in shared], sys.getallocatedblocks()
        play()
        gc.collect()
        after = [sys.getrefcount(each) for each in shared]
        changes = [abs(one - other) for one, other in zip(before, after, strict=True)]
        return [*changes, abs(sys.getallocatedblocks() - blocks)]

    play()
    # Some references and blocks come and go with the interpreter's own caches and with threads of
    # other tests, not in each of several tries; a lost one is lost 1000 times in every try.
    assert any(max(differences()) < 100 for _ in range(5))
