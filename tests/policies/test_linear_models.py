"""Linear policies: ridge regression, widths, weights and probabilities worked out by hand."""

import numpy as np
import pytest

from armrace.kernels.generics import (
    Context,
    ContextShape,
    Ticket,
    assign,
    choose,
    distribution,
    learn,
)
from armrace.policies import CwOful, LinearThompson, LinearUcb, SquareCb
from armrace.policies.linear.models import (
    fit,
    make_ridge,
    optimistic_score,
    predicted,
    refresh,
    squared_width,
)
from armrace.randomness import Purpose, stream_for

PLANE = ContextShape(dimension=2, leaves=1)
EAST, NORTH = Context(np.array([1.0, 0.0]), 0), Context(np.array([0.0, 1.0]), 0)
BETWEEN, BELOW = Context(np.array([0.6, 0.8]), 0), Context(np.array([0.6, -0.8]), 0)
CLOSE = {"abs": 1e-9, "rel": 0}


def test_ridge_regression_is_exact() -> None:
    ridge = make_ridge(1, 2)
    for context, reward, weight in ((EAST, 1.0, 1.0), (BETWEEN, 0.0, 1.0), (BELOW, 1.0, 0.5)):
        fit(ridge, 0, context.vector, reward, weight)
    assert ridge.matrices[0] == pytest.approx(
        np.array([[127 / 50, 6 / 25], [6 / 25, 49 / 25]]), **CLOSE
    )
    inverse = np.array([[2450, -300], [-300, 3175]]) / 6151
    assert ridge.inverses[0] == pytest.approx(inverse, **CLOSE)
    assert ridge.weights[0] == pytest.approx(np.array([3305, -1660]) / 6151, **CLOSE)
    widths = [squared_width(ridge, 0, each.vector) for each in (EAST, NORTH, BETWEEN)]
    assert widths == pytest.approx([2450 / 6151, 3175 / 6151, 2626 / 6151], **CLOSE)
    refresh(ridge, 0)
    assert ridge.inverses[0] == pytest.approx(inverse, **CLOSE)
    assert ridge.weights[0] == pytest.approx(np.array([3305, -1660]) / 6151, **CLOSE)


def test_one_coordinate_is_a_mean_that_counts_one_zero_more() -> None:
    ridge, rewards = make_ridge(1, 1), (1.0, 0.0, 0.25, 1.0)
    for reward in rewards:
        fit(ridge, 0, np.ones(1), reward, 1.0)
    assert predicted(ridge, 0, np.ones(1)) == pytest.approx(sum(rewards) / 5, **CLOSE)


def test_updates_stay_close_to_the_inverse() -> None:
    generator = np.random.default_rng(5)
    ridge = make_ridge(1, 6)
    for _ in range(3_000):
        vector = generator.normal(size=6)
        vector /= 2 * np.linalg.norm(vector)
        fit(ridge, 0, vector, generator.random(), 10.0 ** generator.uniform(-3, 1))
    assert ridge.inverses[0] @ ridge.matrices[0] == pytest.approx(np.eye(6), abs=1e-9)
    assert ridge.matrices[0] @ ridge.weights[0] == pytest.approx(ridge.moments[0], abs=1e-8)


def play(state, *rounds: tuple[Context, int, float]) -> None:
    for context, arm, reward in rounds:
        learn(state, assign(state, Ticket(arm=arm), context), reward, context)


ROUNDS = ((EAST, 0, 1.0), (BETWEEN, 1, 0.0), (BETWEEN, 0, 0.0))


def test_linear_ucb_scores() -> None:
    state = LinearUcb().start(2, 1000, PLANE)
    play(state, *ROUNDS)
    scores = [
        [optimistic_score(state, arm, each) for arm in (0, 1)] for each in (EAST, BETWEEN, NORTH)
    ]
    assert scores == [
        pytest.approx([1.121779255, 0.905538514], **CLOSE),
        pytest.approx([0.836064969, 0.707106781], **CLOSE),
        pytest.approx([0.673334730, 0.824621125], **CLOSE),
    ]
    stream = stream_for(0, Purpose.LEARNER, 0)
    chosen = [choose(state, stream, None, each).arm for each in (EAST, BETWEEN, NORTH)]
    assert chosen == [0, 0, 1]
    only_second = np.array([False, True])
    assert choose(state, stream, only_second, EAST).arm == 1


def test_cw_oful_weighs_what_is_uncertain_less() -> None:
    # Trust 1/2 and radius 2: trust = sqrt(d)/(2 C).
    state = CwOful(corruption=np.sqrt(2), radius=2).start(2, 1000, PLANE)
    assert state.models.trust == pytest.approx(0.5)
    play(state, ROUNDS[0])
    assert state.models.ridge.weights[0] == pytest.approx([1 / 3, 0], **CLOSE)
    play(state, *ROUNDS[1:])
    assert state.models.ridge.weights[0] == pytest.approx([0.304307509, -0.058051649], **CLOSE)
    assert state.models.ridge.weights[1] == pytest.approx([0, 0], **CLOSE)
    scores = [
        [optimistic_score(state, arm, each) for arm in (0, 1)] for each in (EAST, BETWEEN, NORTH)
    ]
    assert scores == [
        pytest.approx([1.864583147, 1.876166304], **CLOSE),
        pytest.approx([1.684083775, 1.632993162], **CLOSE),
        pytest.approx([1.694424773, 1.773884626], **CLOSE),
    ]


@pytest.mark.parametrize(
    ("rate", "means", "expected"),
    [
        (10.0, (0.5, 0.4, 0.2), (0.583333333, 0.25, 0.166666667)),
        (100.0, (0.5, 0.4, 0.2), (0.892773893, 0.076923077, 0.030303030)),
        (50.0, (0.3, 0.3), (0.5, 0.5)),
    ],
)
def test_square_cb_probabilities(rate: float, means: tuple, expected: tuple) -> None:
    state = SquareCb(rate=rate).start(len(means), 1000)
    state.models.ridge.weights[:, 0] = means
    weights = np.empty(len(means))
    distribution(state, weights)
    assert weights == pytest.approx(np.array(expected), **CLOSE)


def test_thompson_draws_arms_as_often_as_it_says() -> None:
    """Fails by chance with probability below 1e-5: four and a half deviations, three arms."""
    state = LinearThompson(spread=0.7).start(3, 1000, PLANE)
    play(state, *ROUNDS, (NORTH, 2, 1.0), (EAST, 2, 0.0))
    weights, draws = np.empty(3), 20_000
    distribution(state, weights, BETWEEN)
    assert weights.sum() == pytest.approx(1)
    stream = stream_for(3, Purpose.LEARNER, 0)
    counts = np.zeros(3)
    for _ in range(draws):
        counts[choose(state, stream, None, BETWEEN).arm] += 1
    deviations = np.sqrt(draws * weights * (1 - weights))
    assert (np.abs(counts - draws * weights) < 4.5 * deviations).all()
