"""The leader over experts, against values from an independent implementation with fractions."""

import numpy as np
import pytest

from armrace.kernels.generics import Context, ContextShape, Ticket, assign, distribution, learn
from armrace.kernels.leaves import row_of
from armrace.kernels.states import equal_states
from armrace.policies import ExpertBarrier, LeafBarrier, OptimisticLogBarrier
from armrace.policies.expert_barrier import (
    charge_experts,
    learn_spread,
    make_advice,
    make_mixture,
    mix,
    teach_expert,
)
from armrace.policies.leaders.barrier import barrier_weights

CLOSE = {"abs": 1e-9, "rel": 0}
ADVICE = np.array([[1, 0], [0, 1], [0.25, 0.75]])

ROUNDS = [
    # predictions, weights of experts, probability of arm 0, played arm, its loss, then the losses,
    # variations and variances of experts and the spread.
    (
        (0.5, 0.5), (1 / 3, 1 / 3, 1 / 3), 0.416666667, 0, 1.0,
        (1.7, 0.5, 0.8), (0.054444444, 0.027777778, 0.004444444), (0.35, 0.178571429, 0.028571429),
        0.25,
    ),
    (
        (0.75, 0.5), (0.296937615, 0.368100991, 0.334961393), 0.380677964, 1, 0.0,
        (2.45, 0.192665575, 0.756999181), (0.076487431, 0.040576199, 0.005693268),
        (0.756723067, 0.332238641, 0.046679427), 0.25,
    ),
    (
        (0.75, 0.25), (0.265530334, 0.398136419, 0.336333247), 0.349613646, 1, 1.0,
        (3.2, 1.595826300, 1.996869725), (0.116147258, 0.066340612, 0.007185915),
        (1.221798131, 0.466625550, 0.057589255), 0.328125,
    ),
]  # fmt: skip


def test_three_rounds_of_three_experts() -> None:
    mixture, advice = make_mixture(3, 1000, 2.0, 0.25, 0.5), make_advice(3, 2)
    advice.choices[:] = ADVICE
    for predictions, weights, first, arm, loss, losses, variations, variances, spread in ROUNDS:
        advice.predictions[:] = predictions
        mix(mixture, advice)
        assert advice.weights == pytest.approx(np.array(weights), **CLOSE)
        assert advice.probabilities == pytest.approx(np.array([first, 1 - first]), **CLOSE)
        charge_experts(mixture, advice)
        error = loss - predictions[arm]
        for expert in range(3):
            teach_expert(mixture, expert, ADVICE[expert, arm], advice.probabilities[arm], error)
        learn_spread(mixture, error)
        assert mixture.losses == pytest.approx(np.array(losses), **CLOSE)
        assert mixture.variations == pytest.approx(np.array(variations), **CLOSE)
        assert mixture.variances == pytest.approx(np.array(variances), **CLOSE)
        assert mixture.spread[0] == pytest.approx(spread, **CLOSE)
    advice.predictions[:] = 0.75, 0.5
    mix(mixture, advice)
    assert advice.weights == pytest.approx(
        np.array([0.292186997, 0.377780949, 0.330032053]), **CLOSE
    )


@pytest.mark.parametrize(
    ("losses", "scales", "expected"),
    [
        ([0, 1], [2, 2], [0.561552812809, 0.438447187191]),
        ([0, 1, 5], [2, 2, 3], [0.383987966194, 0.322139181606, 0.293872852201]),
        ([10, 0, 1e4], [5, 5, 5], [0.292820025209, 0.706680328308, 0.000499646483]),
    ],
)
def test_barrier_weights(losses: list, scales: list, expected: list) -> None:
    weights = np.empty(len(losses))
    barrier_weights(np.array(losses, float), np.array(scales, float), 0.0, weights)
    assert weights == pytest.approx(np.array(expected), abs=1e-11)


@pytest.mark.parametrize("leaves", [1, 4])
def test_estimates_of_losses_are_unbiased(leaves: int) -> None:
    """Exactly, as a sum over arms: what an expert is charged is what it would have lost."""
    arms, shape = 3, ContextShape(dimension=2, leaves=leaves)
    generator = np.random.default_rng(2)
    policy = ExpertBarrier()

    def state_after(rounds: int):
        state = policy.start(arms, 1000, shape)
        local = np.random.default_rng(7)
        for _ in range(rounds):
            vector = local.normal(size=2)
            context = Context(vector / np.linalg.norm(vector), int(local.integers(leaves)))
            weights = np.empty(arms)
            distribution(state, weights, context)
            arm = int(local.choice(arms, p=weights / weights.sum()))
            ticket = assign(state, Ticket(arm, probability=float(weights[arm])), context)
            learn(state, ticket, float(local.random() < 0.5), context)
        return state

    vector = generator.normal(size=2)
    context = Context(vector / np.linalg.norm(vector), leaves - 1)
    rewards = generator.random(arms)
    before = state_after(40)
    weights = np.empty(arms)
    distribution(before, weights, context)
    choices = before.scratch.choices.copy()
    mean = np.zeros(before.mixture.losses.size)
    for arm in range(arms):
        state = state_after(40)
        ticket = assign(state, Ticket(arm, probability=float(weights[arm])), context)
        learn(state, ticket, float(rewards[arm]), context)
        mean += weights[arm] * (state.mixture.losses - before.mixture.losses)
    assert mean == pytest.approx(choices @ (1 - rewards), abs=1e-9)


def test_one_leaf_is_the_recommended_policy_to_the_bit() -> None:
    plain, leaf = OptimisticLogBarrier().start(3, 1000), LeafBarrier().start(3, 1000)
    weights, others = np.empty(3), np.empty(3)
    expected = [
        (1 / 3, 1 / 3, 1 / 3),
        (0.279289924, 0.360355038, 0.360355038),
        (0.247406908, 0.433349044, 0.319244048),
        (0.266741366, 0.365794854, 0.367463780),
        (0.237616359, 0.324670644, 0.437712996),
    ]
    for law, (arm, loss) in zip(expected, ((0, 1), (1, 0), (1, 1), (2, 0), (0, 0)), strict=True):
        distribution(plain, weights)
        distribution(leaf, others)
        assert weights == pytest.approx(np.array(law), **CLOSE)
        assert weights.tobytes() == others.tobytes()
        for state in (plain, leaf):
            ticket = assign(state, Ticket(arm, probability=float(weights[arm])))
            learn(state, ticket, 1.0 - loss)
        assert equal_states(plain, row_of(leaf.stack, 0))


def test_a_leaf_learns_nothing_from_the_others() -> None:
    state = LeafBarrier().start(2, 100, ContextShape(1, 3))
    context = Context(np.ones(1), 1)
    learn(state, assign(state, Ticket(0, probability=0.5), context), 1.0, context)
    fresh = OptimisticLogBarrier().start(2, 100)
    assert [equal_states(row_of(state.stack, leaf), fresh) for leaf in range(3)] == [
        True, False, True,
    ]  # fmt: skip
