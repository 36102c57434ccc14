"""Compilation ahead of use, so that no request waits for a compiler."""

from __future__ import annotations

import numpy as np

from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import is_restrictable
from armrace.kernels.packed_events import read_events
from armrace.online import Assigned, Learner
from armrace.service.settings import FIRST_HORIZON, Settings

__all__ = ["warm", "warm_for_serving"]


def warm_for_serving(settings: Settings) -> None:
    """As :func:`warm`, and what reads and folds a long log: rulings, and other servers' events."""
    nothing = np.empty(0, dtype=np.int64)
    read_events(b"", nothing)
    warm(settings).replay_many(np.empty(0, dtype=DECISION), nothing, np.empty(0))


def warm(settings: Settings) -> Learner:
    """Compile, or load, what every experiment of these settings calls; return its learner."""
    policy = settings.make_policy()
    arms = [0, 1]
    learner = Learner(policy, arms, settings.horizon or FIRST_HORIZON, log=False)
    learner.distribution()
    for number in range(2):
        made = learner.apply(Assigned(number, learner.choose(), learner.taken))
        assert made is not None
        if number:
            learner.drop(made)
        else:
            learner.learn(made, 1.0)
    if is_restrictable(policy.start(len(arms), learner.horizon)):
        learner.choose(eligible=[0])
    return learner
