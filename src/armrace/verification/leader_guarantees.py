"""What is prescribed for regularised leaders, and what their theorems promise.

A leader is checked against the definition and the theorem of its class, so that a policy of a user
that derives from one of these is held to the same promises; the first class that matches counts.
A new leader needs a line in ``LEADERS``.

The definitions are a second implementation, in plain Python, from the definition and the parameters
of the policy alone; they solve for the probabilities by bisection. ``learn`` divides by the
probabilities that it is given, which may be those that the policy has published: so differences by
rounding do not grow from round to round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.policies import Exp3, LbInf, OptimisticLogBarrier, Policy, TsallisInf
from armrace.statistics.proportions import bisect
from armrace.theory.barriers import BarrierProof, lb_inf_proof
from armrace.verification.guarantees import label_of
from armrace.verification.leader_proofs import (
    BARRIER,
    ENTROPY,
    MEANS,
    TSALLIS,
    LeaderProblem,
    Reader,
    Regulariser,
)

Floats = npt.NDArray[np.float64]

_HALVINGS = 70


class PrescribedLeader(Protocol):
    """A leader that can be replayed."""

    def weights(self) -> Floats:
        """Return the probabilities of the next decision."""

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        """Learn a reward."""


def _solve(weights_at: Callable[[float], Floats], least: float, most: float) -> Floats:
    """Return the weights that sum to 1 at a distance between two bounds; they fall with it."""
    _, most = bisect(lambda at: bool(weights_at(at).sum() > 1), least, most, _HALVINGS)
    return weights_at(most)


class PrescribedOptimisticLogBarrier:
    """The optimistic log barrier, from all losses and errors so far."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.policy, self.log_horizon = policy, math.log(max(horizon, 2))
        self.estimated, self.variations, self.variances = (np.zeros(arms) for _ in range(3))
        self.plays, self.lost, self.squares = (np.zeros(arms) for _ in range(3))

    def weights(self) -> Floats:
        deviations = np.sqrt(self.variances)
        expected = self.estimated + self._predictions() - self.policy.optimism * deviations
        growth = self.policy.scale_growth * self.variations / self.log_horizon
        scales = self.policy.first_scale + np.sqrt(growth)
        above = expected - expected.min()
        return _solve(lambda distance: scales / (above + distance), 0.0, scales.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        predictions = self._predictions()
        played, error = np.arange(weights.size) == arm, 1 - reward - predictions[arm]
        # A first error of 1/2 counts for each arm and for all arms together.
        own = (0.25 + self.squares) / (1 + self.plays)
        pooled = (0.25 + self.squares.sum()) / (1 + self.plays.sum())
        self.variances += np.maximum(own, pooled) * (1 - weights) / weights
        self.estimated += predictions + played * error / weights
        self.variations += error**2 * np.where(played, 1 - weights, weights) ** 2
        self.plays += played
        self.lost += played * (1 - reward)
        self.squares += played * error**2

    def _predictions(self) -> Floats:
        return np.asarray((0.5 + self.lost) / (1 + self.plays))


class PrescribedLbInf:
    """LB-INF as Ito (2021) prints it."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.rate, self.log_horizon = policy.prediction_rate, math.log(max(horizon, 2))
        self.estimated, self.predictions = np.zeros(arms), np.full(arms, 0.5)
        self.scales = np.full(arms, 2.0)

    def weights(self) -> Floats:
        expected = self.estimated + self.predictions
        above = expected - expected.min()
        return _solve(lambda distance: self.scales / (above + distance), 0.0, self.scales.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        played, error = np.arange(weights.size) == arm, 1 - reward - self.predictions[arm]
        self.estimated += self.predictions + played * error / weights
        variation = error**2 * np.where(played, 1 - weights, weights) ** 2
        self.scales += variation / (2 * self.scales * self.log_horizon)
        self.predictions[arm] += self.rate * error


class PrescribedTsallisInf:
    """Tsallis-INF as Zimmert and Seldin (2021) print it."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        self.estimated, self.reduced, self.number = np.zeros(arms), policy.estimator == "rv", 1

    @property
    def rate(self) -> float:
        """The learning rate of the round."""
        return (4 if self.reduced else 2) / math.sqrt(self.number)

    def weights(self) -> Floats:
        above, rate = self.estimated - self.estimated.min(), self.rate
        most = 2 * math.sqrt(above.size) / rate
        return _solve(lambda distance: 4 / (rate * (above + distance)) ** 2, 1 / rate, most)

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        played = np.arange(weights.size) == arm
        baselines = 0.5 * (weights >= self.rate**2) if self.reduced else np.zeros(weights.size)
        self.estimated += played * (1 - reward - baselines) / weights + baselines
        self.number += 1


class PrescribedExp3:
    """EXP3 with losses, as in Theorem 3.1 of Bubeck and Cesa-Bianchi (2012)."""

    def __init__(self, policy: Any, arms: int, horizon: int) -> None:
        usual = math.sqrt(2 * math.log(arms) / (horizon * arms))
        self.rate = usual if policy.learning_rate is None else policy.learning_rate
        self.estimated = np.zeros(arms)

    def weights(self) -> Floats:
        weights = np.exp(-self.rate * (self.estimated - self.estimated.min()))
        return np.asarray(weights / weights.sum())

    def learn(self, arm: int, weights: Floats, reward: float) -> None:
        self.estimated[arm] += (1 - reward) / weights[arm]


class LeaderGuarantee(NamedTuple):
    """What is prescribed for a leader and promised by its theorem."""

    prescribed: Callable[[Any, int, int], PrescribedLeader]
    """From policy, arms and horizon, a second implementation."""
    regulariser: Regulariser
    read: Reader
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


def _read_optimistic(state: Any) -> LeaderProblem:
    return LeaderProblem(
        estimated=state.estimates.losses,
        predictions=state.estimates.predictions,
        optimism=state.optimism * np.sqrt(state.variances),
        scales=state.first_scale + np.sqrt(state.growth * np.asarray(state.variations)),
        spreads=np.maximum(state.spreads.own, state.spreads.pooled),
    )


def _read_lb_inf(state: Any) -> LeaderProblem:
    estimates, nothing = state.estimates, np.zeros(state.scales.size)
    return LeaderProblem(estimates.losses, estimates.predictions, nothing, state.scales, nothing)


def _read_tsallis_inf(state: Any) -> LeaderProblem:
    losses = state.estimates.losses
    rate = state.rate_scale / math.sqrt(state.counts.rounds[0] + 1)
    return _unpredicted(losses, rate)


def _read_exp3(state: Any) -> LeaderProblem:
    return _unpredicted(state.losses, state.learning_rate[0])


def _unpredicted(losses: Floats, rate: float) -> LeaderProblem:
    """Return the problem of a leader that predicts nothing and has one learning rate."""
    nothing = np.zeros(losses.size)
    return LeaderProblem(losses, nothing, nothing, np.full(losses.size, 1 / rate), nothing)


def published_bound(
    policy: Any, means: Sequence[float], horizon: int, spent: float
) -> float | None:
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
        regret=_optimistic_regret,
        theorem="Barrier theorem",
        barrier=_optimistic_proof,
    ),
    LbInf: LeaderGuarantee(
        prescribed=PrescribedLbInf,
        regulariser=BARRIER,
        read=_read_lb_inf,
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
        regret=lambda policy, arms, horizon: theory.tsallis_inf_any_rewards_regret(
            arms, horizon, policy.estimator == "rv"
        ),
        theorem="Zimmert and Seldin (2021)",
    ),
    Exp3: LeaderGuarantee(
        prescribed=PrescribedExp3,
        regulariser=ENTROPY,
        read=_read_exp3,
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
