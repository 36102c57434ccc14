"""Simulations of the learner that an attack makes before the first round."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.kernels import engine, laws
from armrace.kernels.attack_pointers import LiveAttack
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import call_entry
from armrace.kernels.ledger import make_ledger, make_record
from armrace.kernels.reward_pointers import LiveRewards
from armrace.randomness import MAXIMAL_SEED, Purpose, reward_place, stream_for
from armrace.specification import Specification, with_nested

_SEED = MAXIMAL_SEED + 1
"""No experiment can have this seed, so a rehearsal does not see any experiment's random numbers."""


class Rehearsed:
    """A policy as the key of a cache, also if its parameters are lists or arrays."""

    def __init__(self, policy: Specification) -> None:
        self.policy = policy
        # With the classes, since a class that is defined again has the name of the former.
        classes = tuple(type(each) for each in with_nested(policy))
        self._key = classes, msgspec.json.encode(policy.to_builtins(), order="sorted")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rehearsed) and self._key == other._key


def plays_in_rehearsal(
    policy: Any,
    horizon: int,
    means: tuple[float, ...],
    attack: Any,
    budget: float,
    checkpoints: tuple[int, ...],
    run: int,
    luck: int | None = None,
) -> npt.NDArray[np.int64]:
    """Simulate a learner on Bernoulli arms, up to the last checkpoint."""
    arms, layers = len(means), policy.layer_count(len(means), horizon)
    law = laws.make_law(laws.BERNOULLI, arms, means)
    law.place[:] = reward_place(_SEED, run)
    state = policy.start(arms, horizon)
    record = make_record(np.array(checkpoints, dtype=np.int64), arms, layers)
    # Rewards are 0 or 1, so that every change costs 1; without a budget the attack is never called.
    smallest_cost = 1.0 if budget > 0.0 else math.inf
    live_attack = LiveAttack(
        attack, stream_for(_SEED, Purpose.ADVERSARY, run), False, smallest_cost
    )
    ledger, workspace = make_ledger(arms, layers, budget), engine.make_workspace(arms)
    live = LiveRewards(law, workspace.drawn, ledger.clean_totals)
    call_entry(
        engine.make_runner(fingerprint(implementations(state))),
        state,
        live_attack.attack,
        live.rewards,
        stream_for(_SEED, Purpose.LEARNER, run if luck is None else luck),
        ledger,
        record,
        workspace,
    )
    return record.pulls
