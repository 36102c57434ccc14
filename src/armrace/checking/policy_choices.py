"""Checks of what a policy announces and draws: weights, tickets, and choices among some arms."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from armrace.checking.contract import expect, within_bounds
from armrace.checking.policy_stage import (
    ARMS,
    HORIZON,
    MEANS,
    SUM_TOLERANCE,
    Floats,
    walk,
    weights_of,
)
from armrace.kernels.dispatch import implements
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    choose,
    decide,
    distribution_among,
    is_restrictable,
    learn,
)
from armrace.kernels.states import equal_states
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for

_DRAWS = 1000
_LARGEST_STATISTIC = 50.0
"""A chi-square variable with two degrees of freedom exceeds this with probability exp(-25). The
margin is for weights so small that Pearson's statistic has a heavier tail."""


def indices_stay_in_bounds(policy: Policy) -> None:
    """Arms and layers exist, and arrays are used within their bounds.

    It runs interpreted and before all other checks: compiled code does not notice a wrong index,
    and would overwrite memory.
    """
    layers = policy.layer_count(ARMS, HORIZON)
    state, stream = policy.start(ARMS, HORIZON), stream_for(12, Purpose.LEARNER, 0)
    coins = np.random.default_rng(12)
    with within_bounds(policy):
        for _ in range(HORIZON):
            weights_of(state)
            ticket = decide(state, stream)
            sound = 0 <= ticket.arm < ARMS and NO_LAYER <= ticket.layer < layers
            sound = sound and NO_LAYER <= ticket.inner_layer < layers
            sound = sound and NO_ARM <= ticket.inner_arm < ARMS
            expect(sound, policy, f"gives {ticket} where there are {ARMS} arms and {layers} layers")
            learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def distribution_is_one(policy: Policy) -> None:
    """Check that weights are probabilities that sum to 1, in every state of a run."""
    for rounds in (0, 1, 2, 3, 10, 100, HORIZON):
        state, _ = walk(policy, rounds)
        weights = weights_of(state)
        expect(bool(np.all(weights >= 0)), policy, f"gives the weights {weights}")
        total = float(weights.sum())
        expect(abs(total - 1) < SUM_TOLERANCE, policy, f"gives weights that sum to {total}")


def weights_are_declared(policy: Policy) -> None:
    """Check that a policy whose tickets carry probabilities below 1 says that it draws by them."""
    state, stream = policy.start(ARMS, HORIZON), stream_for(13, Purpose.LEARNER, 0)
    coins = np.random.default_rng(13)
    for number in range(HORIZON):
        ticket = decide(state, stream)
        declared = policy.draws_by_weights or not ticket.probability < 1.0
        breach = f"draws by weights in round {number + 1}, but does not declare draws_by_weights"
        expect(declared, policy, breach)
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def distribution_only_looks(policy: Policy) -> None:
    """Check that computing the distribution does not change the state."""
    state, _ = walk(policy, 50)
    before = copy.deepcopy(state)
    first, second = weights_of(state), weights_of(state)
    expect(bool(np.array_equal(first, second)), policy, "gives other weights when asked twice")
    expect(equal_states(before, state), policy, "changes its state when asked for its weights")


def tickets_carry_their_probability(policy: Policy) -> None:
    """Check that the probability on a ticket equals that of the distribution."""
    state, stream = walk(policy, 0)
    coins = np.random.default_rng(5)
    for _ in range(200):
        weights = weights_of(state)
        ticket = decide(state, stream)
        announced = float(weights[ticket.arm]) if policy.exact_tickets else math.nan
        expect(
            math.isclose(ticket.probability, announced, rel_tol=1e-9)
            or (math.isnan(ticket.probability) and math.isnan(announced)),
            policy,
            f"announces {announced} and writes {ticket.probability} on the ticket",
        )
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def frequencies_match(policy: Policy) -> None:
    """Check that arms are drawn with the stated probabilities, by Pearson's test, seeds fixed."""
    for rounds in (0, 7, 100, 400):
        state, stream = walk(policy, rounds)
        weights = weights_of(state)
        counts = np.zeros(ARMS)
        for _ in range(_DRAWS):
            counts[choose(state, stream).arm] += 1  # the state stays, and with it its distribution
        _expect_frequencies(policy, counts, weights)


def choosing_leaves_no_trace(policy: Policy) -> None:
    """Check that a choice that is not assigned changes nothing except scratch space."""
    state, stream = walk(policy, 120)
    before, weights = copy.deepcopy(state), weights_of(state)
    for _ in range(5):
        choose(state, stream)
        if is_restrictable(state):
            choose(state, stream, np.array([True, False, True]))
    expect(equal_states(before, state), policy, "changes its state when it chooses")
    same = bool(np.allclose(weights, weights_of(state), rtol=1e-9, atol=0))
    expect(same, policy, "has other weights after a choice that was not assigned")


def restricted_choices_are_as_announced(policy: Policy) -> None:
    """Check restricted choices: only eligible arms, as often as tickets or the policy announce.

    Where tickets carry a probability, it must be that of the restricted draw; where the policy
    implements ``distribution_among``, draws and tickets must agree with it.
    """
    for rounds, eligible in ((0, [False, True, True]), (90, [True, False, True])):
        state, stream = walk(policy, rounds)
        if not is_restrictable(state):
            return
        mask, counts, announced = np.array(eligible), np.zeros(ARMS), np.full(ARMS, np.nan)
        if implements(distribution_among, type(state)):
            distribution_among(state, mask, announced)
        for _ in range(_DRAWS):
            ticket = choose(state, stream, mask)
            arm, probability = ticket.arm, ticket.probability
            expect(eligible[arm], policy, "chooses an arm that is not eligible")
            counts[arm] += 1
            if policy.exact_tickets:
                announced[arm] = probability if math.isnan(announced[arm]) else announced[arm]
                same = math.isclose(probability, announced[arm], rel_tol=1e-9)
                sentence = f"announces {announced[arm]} among eligible arms and then {probability}"
                expect(same, policy, sentence)
        if not np.isnan(announced).all():
            _expect_restricted(policy, counts, announced, mask)


def _expect_restricted(policy: Policy, counts: Floats, announced: Floats, mask: Any) -> None:
    """Compare restricted draws with the probabilities announced; NaN for arms never drawn."""
    weights = np.nan_to_num(announced, nan=0.0)
    total = float(weights.sum())
    # an arm that was not drawn may have a small probability that no ticket announced
    least = 0.0 if np.isnan(announced[mask]).any() else 1.0 - SUM_TOLERANCE
    sound = least <= total <= 1.0 + SUM_TOLERANCE
    expect(sound, policy, f"announces {announced} among eligible arms")
    _expect_frequencies(policy, counts, weights)


def _expect_frequencies(policy: Policy, counts: Floats, weights: Floats) -> None:
    """Compare how often arms were drawn with their probabilities, by Pearson's test."""
    drawn = counts[weights <= 0].sum()
    expect(drawn == 0, policy, f"draws arms that it gave the weight 0, {drawn:.0f} times")
    expected = counts.sum() * weights[weights > 0]
    statistic = float(((counts[weights > 0] - expected) ** 2 / expected).sum())
    expect(
        statistic < _LARGEST_STATISTIC,
        policy,
        f"draws {counts} where {counts.sum() * weights} were expected",
    )
