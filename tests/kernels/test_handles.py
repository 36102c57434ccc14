"""States in memory: what may be in one, what compiled code reads, and who counts references."""

import sys
from typing import Any, NamedTuple

import numba
import numpy as np

from armrace.kernels.compiling import entry, outlined
from armrace.kernels.fingerprints import SCRIPT, fingerprint
from armrace.kernels.handles import Handle, call_entry
from processes import python

STATE_WITH_A_TEXT = """
from typing import NamedTuple

import armrace
from armrace.adversaries import Adversary
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import corrupt

class TextState(NamedTuple):
    text: str

class Texting(Adversary, frozen=True, tag="texting"):
    def start(self, setting):
        return TextState("a text of some length " * 3)

@implement(corrupt, TextState)
def corrupt_by_text(state, round, weights, rewards, left, stream):
    if len(state.text) > 3:
        rewards[0] = 0.0

for _ in range(20):
    try:
        armrace.simulate("ucb1", [0.5, 0.4], Texting(), 1.0, horizon=100, replications=4)
    except Exception as error:
        print(type(error).__name__)
        break
else:
    print("ran")
"""


def test_a_state_with_what_has_an_owner_is_refused_or_runs_but_never_breaks_memory(tmp_path):
    run = python("-c", STATE_WITH_A_TEXT, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-300:]
    assert run.stdout.strip()


class Pair(NamedTuple):
    """Two arrays of one type, which compiled code keeps as an array and not as a struct."""

    one: np.ndarray
    other: np.ndarray


class Mixed(NamedTuple):
    """Members of several sizes, so that some places are aligned."""

    flag: bool
    pair: Pair
    small: np.float32
    wide: np.ndarray
    number: int
    records: np.ndarray
    plain: tuple
    last: bool


def test_compiled_code_reads_what_a_handle_stored():
    records = np.zeros(3, dtype=[("a", np.int64), ("b", np.float32)])
    records["a"], records["b"] = [5, 6, 7], [0.5, 0.25, 0.125]
    wide = np.arange(24.0).reshape(2, 3, 4)[:, ::2, 1:]
    pair = Pair(np.array([1.5, 2.5]), np.array([3.5]))
    state = Mixed(True, pair, np.float32(0.75), wide, -9, records, (4, np.ones(2), pair), False)
    handle = Handle(state)

    @entry(fingerprint([]))
    def read(found):
        found.pair.one[0] = 10.0
        total = found.wide.sum() + found.wide[1, 1, 2] + found.pair.one[1] + found.pair.other[0]
        total += found.plain[0] + found.plain[1].sum() + found.plain[2].one[0]
        return (found.flag, found.last, found.small, found.number, found.records[2].a,
                found.records[1].b, found.wide.shape, total)  # fmt: skip

    expected = wide.sum() + wide[1, 1, 2] + 2.5 + 3.5 + 4 + 2.0 + 10.0
    assert read(handle) == (True, False, 0.75, -9, 7, 0.25, (2, 2, 3), expected)
    assert pair.one[0] == 10.0


def test_the_type_of_a_handle_is_that_of_its_state_whatever_was_seen_before():
    class Seen(NamedTuple):
        numbers: Any
        count: int

    read_only = np.zeros(2)
    read_only.flags.writeable = False
    for numbers in (
        np.zeros(2),
        np.zeros(2, dtype=np.int64),
        np.zeros((2, 2)),
        np.zeros((2, 2), order="F"),
        np.zeros(4)[::2],
        read_only,
    ):
        state = Seen(numbers, 1)
        kind = Handle(state)._numba_type_
        assert kind.state == numba.typeof(state)
        assert Handle(Seen(numbers, 2))._numba_type_ is kind


@outlined
def _add(state, step):
    for position in range(state[0].size):
        state[0][position] += step


def test_states_can_be_read_by_position_and_unpacked_and_leave_no_reference_behind():
    @entry(SCRIPT)  # not kept on disk: compiled as the code is now
    def add_twice(state, step):
        one, other = state
        _add(state, step)
        one[0] += step  # what was loaded before a change still sees the change
        return one[0] + other[-1] + len(state)

    pair = Pair(np.zeros(3), np.ones(2))
    assert call_entry(add_twice, pair, 1.0) == 2.0 + 1.0 + 2
    handle = Handle(pair)
    before = [sys.getrefcount(member) for member in pair]
    for _ in range(1000):
        add_twice(handle, 1.0)
    assert [sys.getrefcount(member) for member in pair] == before
    assert pair.one.tolist() == [2002.0, 1001.0, 1001.0]


def test_a_handle_holds_the_address_that_numpy_gives():
    numbers = np.arange(8.0)[2:]
    pair = Pair(numbers, np.zeros((3, 0)))
    handle = Handle(pair)
    words = np.frombuffer(handle.memory, dtype=np.int64)
    assert int(handle) == words.ctypes.data
    assert words[:3].tolist() == [numbers.ctypes.data, 6, 8]
    assert words[3:].tolist() == [pair.other.ctypes.data, 3, 0, *pair.other.strides]
