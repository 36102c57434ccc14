"""Compilation of what a learner calls, before it is used."""

from __future__ import annotations

from typing import Any

from armrace.forensics import watch
from armrace.kernels.compiling import is_stored
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import is_restrictable
from armrace.kernels.live_calls import live_entries
from armrace.online.learner import Learner
from armrace.policies import Policy


def compile_learner(learner: Learner, batches: bool = True) -> None:
    """Compile, or load, what a learner calls, by calling it once."""
    learner.distribution()
    learner.learn(learner.decide(), 1.0)
    learner.drop(learner.assign(learner.choose()))
    if is_restrictable(learner.policy.start(len(learner.arms), learner.horizon)):
        learner.choose(eligible=learner.arms[:1])
    if batches:
        learner.learn_many(learner.decide_many(1), [1.0])


def learner_is_stored(policy: Policy, arms: int, horizon: int) -> bool:
    """Whether machine code of all that :func:`compile_learner` calls is on disk."""
    state = policy.start(arms, horizon)
    entries = live_entries(fingerprint(implementations(watch(state, arms, horizon))))
    needed: dict[str, Any] = entries._asdict()
    if not is_restrictable(state):
        del needed["choose_among"]
    return all(map(is_stored, needed.values()))
