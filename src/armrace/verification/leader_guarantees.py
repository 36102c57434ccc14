"""What is prescribed for regularised leaders, and what their theorems promise.

A leader is checked against the definition and the theorem of its class, so that a user's policy
that derives from one of these is held to the same promises; the first class that matches counts.
A new leader needs a line in ``LEADERS``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.policies import Exp3, LbInf, OptimisticLogBarrier, Policy, TsallisInf
from armrace.theory.barriers import BarrierProof, lb_inf_proof
from armrace.verification.guarantees import label_of
from armrace.verification.leader_paths import MEANS, Reader, Reading
from armrace.verification.prescribed_leaders import (
    PrescribedExp3,
    PrescribedLbInf,
    PrescribedLeader,
    PrescribedOptimisticLogBarrier,
    PrescribedTsallisInf,
)
from armrace.verification.regularisers import BARRIER, ENTROPY, TSALLIS, Regulariser

Floats = npt.NDArray[np.float64]


class LeaderGuarantee(NamedTuple):
    """What is prescribed for a leader and promised by its theorem."""

    prescribed: Callable[[Any, int, int], PrescribedLeader]
    """From policy, arms and horizon, a second implementation."""
    regulariser: Regulariser
    read: Reader
    pseudo_regret: Callable[[Any, Sequence[float], int, float], float | None]
    """From policy, means, horizon and corruption, a bound on its expectation; None for none."""
    regret: Callable[[Any, int, int], float | None]
    """From policy, arms and horizon, a bound on the expected regret for any rewards."""
    theorem: str
    barrier: Callable[[Any, int], BarrierProof] | None = None
    """From policy and horizon, the constants of the barrier's proof on paths, if it applies."""


class LeaderSubject(NamedTuple):
    """A leader to be checked, what is promised for it, and its label."""

    label: str
    policy: Policy
    guarantee: LeaderGuarantee


def _read_optimistic(state: Any) -> Reading:
    return Reading(
        estimated=state.estimates.losses,
        predictions=state.estimates.predictions,
        optimism=state.optimism * np.sqrt(state.variances),
        scales=state.first_scale + np.sqrt(state.growth * np.asarray(state.variations)),
        spreads=np.maximum(state.spreads.own, state.spreads.pooled),
    )


def _read_lb_inf(state: Any) -> Reading:
    estimates, nothing = state.estimates, np.zeros(state.scales.size)
    return Reading(estimates.losses, estimates.predictions, nothing, state.scales, nothing)


def _read_tsallis_inf(state: Any) -> Reading:
    losses = state.estimates.losses
    rate = state.rate_scale / math.sqrt(state.counts.rounds[0] + 1)
    return _unpredicted(losses, rate)


def _read_exp3(state: Any) -> Reading:
    return _unpredicted(state.losses, state.learning_rate[0])


def _unpredicted(losses: Floats, rate: float) -> Reading:
    """Return the problem of a leader that predicts nothing and has one learning rate."""
    nothing = np.zeros(losses.size)
    return Reading(losses, nothing, nothing, np.full(losses.size, 1 / rate), nothing)


def _published(policy: Any, means: Sequence[float], horizon: int, spent: float) -> float | None:
    """Return what the policy's own ``guarantee_at`` says about the expectation."""
    found = policy.guarantee_at(means, horizon, spent)
    return None if found is None or found.failure > 0 else float(found.pseudo_regret)


def _optimistic_regret(policy: Any, arms: int, horizon: int) -> float | None:
    proof = _optimistic_proof(policy, horizon, arms)
    return proof.any_rewards_regret() if proof.covers else None


def _optimistic_proof(policy: Any, horizon: int, arms: int = len(MEANS)) -> BarrierProof:
    growth = policy.scale_growth / math.log(horizon)
    return BarrierProof(arms, horizon, policy.first_scale, growth, policy.optimism)


def _lb_inf_proof(policy: Any, horizon: int, arms: int = len(MEANS)) -> BarrierProof:
    return lb_inf_proof(arms, horizon, policy.prediction_rate > 0)


LEADERS: Mapping[type[Policy], LeaderGuarantee] = {
    OptimisticLogBarrier: LeaderGuarantee(
        prescribed=PrescribedOptimisticLogBarrier,
        regulariser=BARRIER,
        read=_read_optimistic,
        pseudo_regret=_published,
        regret=_optimistic_regret,
        theorem="Barrier theorem",
        barrier=_optimistic_proof,
    ),
    LbInf: LeaderGuarantee(
        prescribed=PrescribedLbInf,
        regulariser=BARRIER,
        read=_read_lb_inf,
        pseudo_regret=_published,
        regret=lambda policy, arms, horizon: _lb_inf_proof(
            policy, horizon, arms
        ).any_rewards_regret(),
        theorem="Barrier theorem",
        barrier=_lb_inf_proof,
    ),
    TsallisInf: LeaderGuarantee(
        prescribed=PrescribedTsallisInf,
        regulariser=TSALLIS,
        read=_read_tsallis_inf,
        pseudo_regret=_published,
        regret=lambda policy, arms, horizon: theory.tsallis_inf_any_rewards_regret(
            arms, horizon, policy.estimator == "rv"
        ),
        theorem="Zimmert and Seldin (2021)",
    ),
    Exp3: LeaderGuarantee(
        prescribed=PrescribedExp3,
        regulariser=ENTROPY,
        read=_read_exp3,
        pseudo_regret=_published,
        regret=lambda policy, arms, horizon: theory.exp3_any_rewards_regret(
            arms, horizon, policy.learning_rate
        ),
        theorem="Bubeck and Cesa-Bianchi (2012), Theorem 3.1",
    ),
}


CHECKED_LEADERS: tuple[str | Mapping[str, Any], ...] = (
    "optimistic-log-barrier",
    "lb-inf",
    "tsallis-inf",
    "exp3",
)
"""The leaders that are checked unless others are asked for, the recommended policy first."""

CHECKED_LEADERS_AT_LENGTH: tuple[str | Mapping[str, Any], ...] = (
    *CHECKED_LEADERS,
    {"name": "optimistic-log-barrier", "optimism": 0.0},
    {"name": "optimistic-log-barrier", "optimism": 1.0},
    {"name": "lb-inf", "prediction_rate": 0.0},
    {"name": "tsallis-inf", "estimator": "iw"},
)
"""With them in the full form, every estimator that has a theorem."""


def find_leader(policy: Policy) -> LeaderSubject | None:
    """Return a leader as a subject; None for a policy that derives from no leader of the table."""
    for kind, guarantee in LEADERS.items():
        if isinstance(policy, kind):
            return LeaderSubject(label_of(policy), policy, guarantee)
    return None
