"""Compilation ahead of use, so that no request waits for a compiler."""

from __future__ import annotations

from armrace.kernels.generics import is_restrictable
from armrace.online import Assigned, Learner
from armrace.service.settings import FIRST_HORIZON, Settings

__all__ = ["warm"]


def warm(settings: Settings) -> None:
    """Compile, or load, everything that an experiment of these settings calls."""
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
