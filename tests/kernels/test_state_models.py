"""States are passed whole and uncounted; tuples of other people's programs are left alone."""

import gc
import sys
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.datamodel.registry import default_manager

from armrace.kernels.compiling import entry, outlined
from armrace.kernels.fingerprints import SCRIPT
from armrace.kernels.state_models import pass_whole
from armrace.kernels.unowned_arrays import borrow


class Mixed(NamedTuple):
    counts: np.ndarray
    total: float


class Uniform(NamedTuple):
    one: np.ndarray
    other: np.ndarray


class Foreign(NamedTuple):
    counts: np.ndarray
    total: float


pass_whole(Mixed)
pass_whole(Uniform)


def _model(state):
    return default_manager.lookup(numba.typeof(state))


@pytest.mark.parametrize("state", [Mixed(np.zeros(3), 1.0), Uniform(np.zeros(3), np.ones(3))])
def test_a_state_is_one_argument(state):
    model = _model(state)
    assert model.get_argument_type() == model.get_value_type()


def test_a_tuple_of_another_program_is_passed_as_numba_passes_it():
    assert isinstance(_model(Foreign(np.zeros(3), 1.0)).get_argument_type(), tuple)


@outlined
def _add(state, step):
    for position in range(state[0].size):
        state[0][position] += step


@pytest.mark.parametrize("state", [Mixed(np.zeros(3), 1.0), Uniform(np.zeros(3), np.ones(3))])
def test_calls_leave_no_reference_behind(state):
    @entry(SCRIPT)  # not kept on disk: compiled as the code is now
    def add_twice(state, step):
        borrowed = borrow(state)
        _add(borrowed, step)
        _add(state, step)

    add_twice(state, 1.0)
    before = [sys.getrefcount(member) for member in state]
    for _ in range(1000):
        add_twice(state, 1.0)
    assert [sys.getrefcount(member) for member in state] == before
    assert state[0].tolist() == [2002.0] * 3


def test_the_garbage_collector_works_again_after_a_compilation():
    @entry(SCRIPT)  # not kept on disk: compiled as the code is now
    def double(x):
        return 2 * x

    assert double(2) == 4
    assert gc.isenabled()
    gc.disable()
    try:
        assert double(2.0) == 4.0
        assert not gc.isenabled()
    finally:
        gc.enable()
