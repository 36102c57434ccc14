"""Compilation of what a learner calls, before it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from armrace.forensics import watch
from armrace.kernels.compiling import fingerprint, is_stored
from armrace.kernels.dispatch import implementations
from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import is_restrictable
from armrace.kernels.live_calls import live_entries
from armrace.kernels.packed_events import read_events
from armrace.online.learner import Learner
from armrace.policies import Policy

__all__ = ["compile_learner", "compile_reader", "learner_is_stored"]

_NO_STEPS = np.empty(0, dtype=np.int64)


def compile_learner(learner: Learner, batches: bool = True, replays: bool = False) -> None:
    """Compile, or load, what a learner calls, by calling it once.

    Args:
        learner: a new learner, which makes decisions here.
        batches: whether many decisions or rewards at once are needed.
        replays: whether long logs will be applied, as a service does.
    """
    learner.distribution()
    learner.learn(learner.decide(), 1.0)
    learner.drop(learner.assign(learner.choose()))
    if is_restrictable(learner.policy.start(len(learner.arms), learner.horizon)):
        learner.choose(eligible=learner.arms[:1])
    if batches:
        learner.learn_many(learner.decide_many(1), [1.0])
    if replays:
        learner.replay_many(np.empty(0, dtype=DECISION), _NO_STEPS, np.empty(0))


def learner_is_stored(policy: Policy, arms: int, horizon: int, replays: bool = False) -> bool:
    """Whether machine code of all that :func:`compile_learner` calls is on disk.

    Args:
        policy: the policy of the learner.
        arms: its number of arms.
        horizon: its horizon.
        replays: whether long logs will be applied.
    """
    state = policy.start(arms, horizon)
    entries = live_entries(fingerprint(implementations(watch(state, arms, horizon))))
    needed: dict[str, Any] = entries._asdict()
    if not is_restrictable(state):
        del needed["choose_among"]
    if not replays:
        del needed["replay"]
    return all(map(is_stored, needed.values()))


def compile_reader() -> None:
    """Compile, or load, what reads the events of a service's log."""
    read_events(b"", _NO_STEPS)
