"""Which states compiled code must not see, as a snapshot may hold them."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from armrace.kernels.states import index_limits, unsafe_array


class Inner(NamedTuple):
    number: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    count: npt.NDArray[np.int64]
    round: npt.NDArray[np.int64]
    flag: npt.NDArray[np.bool_]
    rate: float
    scratch: npt.NDArray[np.float64]


class Outer(NamedTuple):
    inner: Inner
    records: np.ndarray


@index_limits(Outer)
def limit_indices_of_outer(state):
    yield state.records["arm"], 3


def state(number=0.0, end=-np.inf, count=0, round=-1, flag=0, arm=-1):
    flags = np.array([flag], dtype=np.uint8).view(np.bool_)
    numbers = (np.array([each]) for each in (number, end, count, round))
    inner = Inner(*numbers, flags, 0.5, np.array([np.nan]))
    return Outer(inner, np.array([(arm, 0.0)], dtype=[("arm", np.int64), ("sum", np.float64)]))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"number": 1e300, "end": np.inf, "count": 2**62, "round": 5, "flag": 1, "arm": 2}, None),
        ({"number": np.nan}, "inner.number"),
        ({"number": np.inf}, "inner.number"),
        ({"end": np.nan}, "inner.end"),
        ({"count": -1}, "inner.count"),
        ({"count": 2**62 + 1}, "inner.count"),
        ({"round": -2}, "inner.round"),
        ({"flag": 2}, "inner.flag"),
        ({"flag": 255}, "inner.flag"),
        ({"arm": 3}, "records.arm"),
        ({"arm": -2}, "records.arm"),
    ],
)
def test_a_state_is_compared_with_a_fresh_one(given, found):
    assert unsafe_array(state(**given), state()) == found
