"""A leader over experts: single arms, linear predictions and leaves, whichever deserves trust."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_FEATURES,
    ContextShape,
    Eligible,
    Floats,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    leaf_of,
    learn,
    make_ticket,
    stamped,
    value_experts,
    vector_of,
    with_inner_moment,
)
from armrace.kernels.leaves import Leaves, make_leaves, state_in
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.states import grown_by
from armrace.kernels.streams import Stream
from armrace.policies.common.constants import rounded_log
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.barrier import FirstScale, Optimism, ScaleGrowth, barrier_weights
from armrace.policies.linear.models import Ridge, fit, make_ridge, predicted, squared_width
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier

_FIRST_SPREAD = 0.25
"""The mean squared error of predictions counts as if one error of 1/2 had been seen."""
_LINEAR, _OPTIMISTIC, _LEAF = 0, 1, 2
"""Positions of the experts that learn. Those of single arms come last, since arms are added."""
_NAMES = ("linear", "linear-ucb", "leaves")
_LEAST_PROBABILITY = 1e-200


class Mixture(NamedTuple):
    """Estimated losses of experts, and what is known about their errors."""

    losses: Floats
    variations: Floats
    """Sums of squared errors of the estimates: the scales grow with their roots."""
    variances: Floats
    """Estimated variances of the estimated losses."""
    weights: Floats
    """The weights of the latest decision."""
    normaliser: Floats
    spread: Floats
    """The mean squared error of predictions."""
    rewards: npt.NDArray[np.int64]
    first_scale: float
    growth: float
    """``scale_growth / ln T``."""
    optimism: float


def make_mixture(
    experts: int, horizon: int, first_scale: float, scale_growth: float, optimism: float
) -> Mixture:
    """Make a mixture of experts that have lost nothing yet."""
    return Mixture(
        losses=np.zeros(experts),
        variations=np.zeros(experts),
        variances=np.zeros(experts),
        weights=np.full(experts, 1.0 / experts),
        normaliser=np.zeros(1),
        spread=np.full(1, _FIRST_SPREAD),
        rewards=np.zeros(1, dtype=np.int64),
        first_scale=float(first_scale),
        growth=scale_growth / rounded_log(max(horizon, 2)),
        optimism=float(optimism),
    )


class Advice(NamedTuple):
    """Scratch space: what the experts say in one context, and what follows from it."""

    choices: Floats
    """The distribution of each expert (row) over arms."""
    predictions: Floats
    """The predicted loss of each arm."""
    charges: Floats
    """The predicted loss of each expert."""
    expected: Floats
    scales: Floats
    weights: Floats
    """The weight of each expert."""
    normaliser: Floats
    probabilities: Floats
    """The probability of each arm."""
    vector: Floats
    leaf: npt.NDArray[np.int64]
    up_to_date: npt.NDArray[np.bool_]


def make_advice(experts: int, arms: int, dimension: int = 1) -> Advice:
    """Make scratch space that is marked as out of date."""
    return Advice(
        choices=np.zeros((experts, arms)),
        predictions=np.zeros(arms),
        charges=np.zeros(experts),
        expected=np.zeros(experts),
        scales=np.zeros(experts),
        weights=np.zeros(experts),
        normaliser=np.zeros(1),
        probabilities=np.zeros(arms),
        vector=np.zeros(dimension),
        leaf=np.zeros(1, dtype=np.int64),
        up_to_date=np.zeros(1, dtype=np.bool_),
    )


class ExpertBarrierState(NamedTuple):
    """The mixture, its experts, and scratch space."""

    counts: Counts
    mixture: Mixture
    ridge: Ridge
    leaves: Leaves
    scratch: Advice


class ExpertBarrier(CountingPolicy, frozen=True, tag="expert-barrier"):
    """Draws an expert with probability ``scale / (loss + prediction - optimism * deviation - x)``.

    The expert then draws the arm. The experts are the arm of the best linear prediction, the arm
    that ``linear-ucb`` would play, a ``leaf-barrier`` if contexts have leaves, and each single arm.
    Their losses are estimated as those of arms are in ``optimistic-log-barrier``, from the same
    reward for all: an expert that would have played the arm ``A`` with probability ``r`` is charged
    its predicted loss at the decision and ``r (loss - prediction of A)/P(A)`` with the reward.

    For whatever contexts and rewards, forged ones included, the expected regret against every
    single expert is of order ``sqrt(N T ln T)``; so contexts never cost much against the best
    single arm. Against the experts that learn, nothing better is proved under corruption, and no
    bound says how good they are themselves. The average weight of the linear experts against that
    of the single arms says whether contexts help.

    The weights of experts in the growth of their scales are those of the latest decision: exact
    where rewards come at once. The estimated losses stay unbiased however late rewards are.

    >>> from armrace.kernels.generics import Context
    >>> state = ExpertBarrier().start(2, 1000, ContextShape(dimension=2, leaves=1))
    >>> context = Context(np.array([0.6, 0.8]), 0)
    >>> ticket = assign(state, Ticket(arm=0, probability=0.5), context)
    >>> learn(state, ticket, reward=1.0, context=context)
    >>> weights = np.empty(2)
    >>> distribution(state, weights, context)
    >>> weights.round(6)
    array([0.794139, 0.205861])
    """

    family: ClassVar[str] = "contextual"
    takes_contexts: ClassVar[bool] = True
    takes_arm_features: ClassVar[bool] = True
    draws_by_weights: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "this library's; of the family of optimistic-log-barrier, over experts as in Auer, "
        "Cesa-Bianchi, Freund and Schapire (2002)"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = "Its theorem is proved on the theory page, for its defaults."

    optimism: Optimism = 0.5
    first_scale: FirstScale = 2.0
    scale_growth: ScaleGrowth = 0.25

    def start(
        self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES
    ) -> ExpertBarrierState:
        experts = (_LEAF + 1 if shape.leaves > 1 else _LEAF) + arms
        inside = OptimisticLogBarrier().start(arms, horizon)
        return ExpertBarrierState(
            counts=make_counts(arms),
            mixture=make_mixture(
                experts, horizon, self.first_scale, self.scale_growth, self.optimism
            ),
            ridge=make_ridge(shape.models(arms), shape.dimension),
            leaves=make_leaves(inside, shape.leaves),
            scratch=make_advice(experts, arms, shape.room(arms)),
        )

    def coefficients(self, state: ExpertBarrierState) -> Floats:
        return state.ridge.weights

    def experts(self, state: ExpertBarrierState) -> tuple[list[str], Floats]:
        weights = state.mixture.weights
        return [*_NAMES[: weights.size - state.counts.pulls.size]], weights


@inlined
def mix(mixture: Mixture, advice: Advice) -> None:
    """Weigh the experts by what they say and have lost; write the probabilities of arms."""
    experts, arms = advice.choices.shape
    for expert in range(experts):
        charge = 0.0
        for arm in range(arms):
            charge += advice.choices[expert, arm] * advice.predictions[arm]
        advice.charges[expert] = charge
        deviation = math.sqrt(mixture.variances[expert])
        advice.expected[expert] = mixture.losses[expert] + charge - mixture.optimism * deviation
        advice.scales[expert] = mixture.first_scale + math.sqrt(
            mixture.growth * mixture.variations[expert]
        )
    advice.normaliser[0] = barrier_weights(
        advice.expected, advice.scales, mixture.normaliser[0], advice.weights
    )
    for arm in range(arms):
        advice.probabilities[arm] = 0.0
    for expert in range(experts):
        weight = advice.weights[expert]
        for arm in range(arms):
            advice.probabilities[arm] += weight * advice.choices[expert, arm]


@inlined
def charge_experts(mixture: Mixture, advice: Advice) -> None:
    """Count a decision: charge every expert its prediction, whatever the reward will be."""
    experts, arms = advice.choices.shape
    for expert in range(experts):
        square = 0.0
        for arm in range(arms):
            share = advice.choices[expert, arm]
            if share > 0.0:
                square += share * share / max(advice.probabilities[arm], _LEAST_PROBABILITY)
        mixture.losses[expert] += advice.charges[expert]
        mixture.variances[expert] += mixture.spread[0] * max(square - 1.0, 0.0)
        mixture.weights[expert] = advice.weights[expert]
    # Scratch space is not saved: a restored state starts its search from the same point.
    mixture.normaliser[0] = advice.normaliser[0]


@inlined
def teach_expert(mixture: Mixture, expert: int, share: float, chance: float, error: float) -> None:
    """Learn what one expert lost: it would have drawn the played arm with probability ``share``."""
    ratio = share / max(chance, _LEAST_PROBABILITY)
    mixture.losses[expert] += ratio * error
    moved = mixture.weights[expert] * (ratio - 1.0) * error
    mixture.variations[expert] += moved * moved


@inlined
def learn_spread(mixture: Mixture, error: float) -> None:
    """Move the mean squared error of predictions; a forged memo may give an error above 1."""
    mixture.rewards[0] += 1
    seen = min(error * error, 1.0)
    mixture.spread[0] += (seen - mixture.spread[0]) / (1.0 + mixture.rewards[0])


@inlined
def _advise(state: ExpertBarrierState, context: Visitor) -> Advice:
    """Ask all experts, unless they have been asked about this context already."""
    advice, vector = state.scratch, vector_of(context)
    same = advice.up_to_date[0] and advice.leaf[0] == leaf_of(context)
    for place in range(vector.size):
        same = same and advice.vector[place] == vector[place]
    if same:
        return advice
    advice.up_to_date[0], advice.leaf[0] = True, leaf_of(context)
    for place in range(vector.size):
        advice.vector[place] = vector[place]
    _ask_linear_experts(state, vector)
    arms = advice.predictions.size
    if state.leaves.leaf_count > 1:
        distribution(state_in(state.leaves, context), advice.choices[_LEAF])
    first = advice.charges.size - arms
    for arm in range(arms):
        for other in range(arms):
            advice.choices[first + arm, other] = 1.0 if arm == other else 0.0
    mix(state.mixture, advice)
    return advice


@inlined
def _ask_linear_experts(state: ExpertBarrierState, vector: Floats) -> None:
    """Write the choices of the two linear experts and the predicted loss of every arm."""
    advice, best, hoped = state.scratch, 0, 0
    # In units of the noise that is seen, so that nothing has to be set for an environment.
    radius = math.sqrt(state.mixture.spread[0])
    largest = highest = -np.inf
    for arm in range(advice.predictions.size):
        reward = predicted(state.ridge, arm, vector)
        bound = reward + radius * math.sqrt(squared_width(state.ridge, arm, vector))
        if reward > largest:
            best, largest = arm, reward
        if bound > highest:
            hoped, highest = arm, bound
        advice.predictions[arm] = min(max(1.0 - reward, 0.0), 1.0)
        advice.choices[_LINEAR, arm] = 0.0
        advice.choices[_OPTIMISTIC, arm] = 0.0
    advice.choices[_LINEAR, best] = 1.0
    advice.choices[_OPTIMISTIC, hoped] = 1.0


@implement(distribution, ExpertBarrierState)
def expert_barrier_distribution(
    state: ExpertBarrierState, out: Floats, context: Visitor = None
) -> None:
    probabilities = _advise(state, context).probabilities
    for arm in range(out.size):
        out[arm] = probabilities[arm]


@implement(choose, ExpertBarrierState)
def expert_barrier_choose(
    state: ExpertBarrierState, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    return choose_by_weights(_advise(state, context).probabilities, 1.0, stream, eligible)


@implement(assign, ExpertBarrierState)
def expert_barrier_assign(
    state: ExpertBarrierState, ticket: Ticket, context: Visitor = None
) -> Ticket:
    arm, advice = ticket.arm, _advise(state, context)
    # What the experts that learn would have done comes back with the reward: two bits, and the
    # share and prediction of the leaf.
    agreed = int(advice.choices[_LINEAR, arm] + 2.0 * advice.choices[_OPTIMISTIC, arm])
    share, inner = 1.0, 0.0
    if state.leaves.leaf_count > 1:
        share = max(advice.choices[_LEAF, arm], _LEAST_PROBABILITY)
        inner = assign(state_in(state.leaves, context), ticket).memo
    charge_experts(state.mixture, advice)
    count_play(state.counts, arm)
    advice.up_to_date[0] = False
    marked = with_inner_moment(ticket, share, inner)
    return stamped(marked, agreed, advice.predictions[arm])


@implement(learn, ExpertBarrierState)
def expert_barrier_learn(
    state: ExpertBarrierState, ticket: Ticket, reward: float, context: Visitor = None
) -> None:
    arm, mixture, chance = ticket.arm, state.mixture, ticket.probability
    error = 1.0 - reward - ticket.memo
    record(state.counts, arm, reward)
    arms, experts = state.counts.pulls.size, mixture.losses.size
    teach_expert(mixture, _LINEAR, float(ticket.phase & 1), chance, error)
    teach_expert(mixture, _OPTIMISTIC, float(ticket.phase >> 1 & 1), chance, error)
    for other in range(arms):
        teach_expert(mixture, experts - arms + other, 1.0 if other == arm else 0.0, chance, error)
    if state.leaves.leaf_count > 1:
        teach_expert(mixture, _LEAF, ticket.inner_probability, chance, error)
        inner = stamped(make_ticket(arm, 0, chance), 0, ticket.inner_memo)
        learn(state_in(state.leaves, context), inner, reward)
    learn_spread(mixture, error)
    fit(state.ridge, arm, vector_of(context), reward, 1.0)
    state.scratch.up_to_date[0] = False


@implement(value_experts, ExpertBarrierState)
def value_advice(state: ExpertBarrierState, means: Floats, worth: Floats) -> None:
    choices = state.scratch.choices
    for expert in range(worth.size):
        for arm in range(means.size):
            worth[expert] += choices[expert, arm] * means[arm]


@grown_by(ExpertBarrierState)
def trust_new_arms(grown: ExpertBarrierState, old: ExpertBarrierState) -> None:
    """Let new arms, as experts, start as good as the best expert so far."""
    mixture = grown.mixture
    before = old.mixture.losses.size
    hopes = old.mixture.losses - old.mixture.optimism * np.sqrt(old.mixture.variances)
    mixture.losses[before:] = hopes.min()
    mixture.weights[before:] = 0.0
