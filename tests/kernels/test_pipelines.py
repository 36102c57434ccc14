"""Callees stay intermediate code, and entries still find all of them."""

import gc

import numba
import numpy as np
import pytest

from armrace.kernels.compiling import entry, inlined, outlined
from armrace.kernels.fingerprints import SCRIPT


@inlined
def _leaf(x):
    return x + 1.0


@outlined
def _twice_the_leaf(x):
    return 2.0 * _leaf(x)


@inlined
def _leaf_less_three(x):
    return _leaf(x) - 3.0


@inlined
def _refuse_negative(x):
    if x < 0.0:
        raise ValueError("x must not be negative")
    return x


def test_a_function_is_linked_although_its_first_caller_is_never_called():
    @entry("test_pipelines")
    def find_leaf(x):
        found = _twice_the_leaf(x)
        times = 0
        if times > 1:  # optimised away, together with the call and the first mention of the leaf
            found += _leaf_less_three(x)
        return found

    assert find_leaf(4.0) == 10.0


def test_functions_that_others_compile_can_call_ours():
    @numba.njit
    def theirs(x):
        return _twice_the_leaf(x) + _leaf_less_three(x)

    @entry("test_pipelines")
    def call_theirs(x):
        return theirs(x) + _leaf(x)

    assert theirs(4.0) == 12.0
    assert call_theirs(4.0) == 17.0


def test_a_callee_can_raise_and_can_use_arrays_of_its_own():
    @inlined
    def largest_of_squares(values):
        squares = values * values
        return _refuse_negative(squares.max() - 2.0)

    @entry("test_pipelines")
    def raise_or_return(values):
        return largest_of_squares(values)

    assert raise_or_return(np.array([1.0, 3.0, 2.0])) == 7.0
    with pytest.raises(ValueError, match="x must not be negative"):
        raise_or_return(np.array([1.0, -1.0]))


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
