"""Compiling ahead: what is compiled is what is looked for on disk, and nothing is left out."""

import pytest

from armrace.kernels import live
from armrace.kernels.live import LiveCalls
from armrace.learner import Learner, learner
from armrace.learner.learner import compile_learner
from armrace.policies import Ucb1

ENTRIES = {f"live_{name}" for name in LiveCalls._fields}


@pytest.mark.parametrize(
    ("asked", "left_out"),
    [
        ({}, set()),
        ({"batches": False}, {"live_decide_many", "live_learn_many"}),
    ],
    ids=["usually", "without batches"],
)
def test_a_learner_is_compiled_by_calling_all_of_it(monkeypatch, asked, left_out):
    found, compile_one = set(), live._entry_point

    def note(function, types):
        found.add(function.py_func.__name__)
        return compile_one(function, types)

    monkeypatch.setattr(live, "_entry_point", note)
    live.make_live_calls.cache_clear()
    compile_learner(Learner(Ucb1(), 2, 100), **asked)
    assert found == ENTRIES - left_out


@pytest.mark.parametrize("missing", sorted(ENTRIES))
def test_a_learner_is_on_disk_only_if_all_of_it_is(monkeypatch, missing):
    monkeypatch.setattr(learner, "is_stored", lambda e: e.py_func.__name__ != missing)
    assert not learner.learner_is_stored(Ucb1(), 2, 100)
