"""The optimistic log barrier against values computed by hand and a second implementation."""

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, assign, learn
from armrace.kernels.states import grow_state, unsafe_array
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier
from armrace.verification.leader_guarantees import PrescribedOptimisticLogBarrier
from playing import is_sound, make_table, play, play_textbook, probabilities, three_rounds


def test_three_rounds_as_computed_by_hand():
    """Losses 1, 1/4 and 1/2; after the first, ``1/p - 1/(1-p) = 1.25/1.116497`` for arm 0."""
    policy = OptimisticLogBarrier(optimism=1.0, first_scale=1.0, scale_growth=1.0)
    first, state = three_rounds(policy)
    assert first == pytest.approx([0.5, 0.36957569, 0.322329135, 0.38279326], abs=5e-9)
    assert state.estimates.predictions == pytest.approx([2 / 3, 0.375])
    assert state.estimates.losses == pytest.approx([2.22439528, 0.97844169], abs=5e-9)
    assert state.variances == pytest.approx([1.20205615, 0.4857413], abs=5e-9)
    assert state.variations == pytest.approx([0.099739, 0.099739], abs=5e-9)
    # Squared errors 1/4 and 1/16 of arm 0, 1/16 of arm 1, each with 1/4 to begin with.
    assert state.spreads.own == pytest.approx([3 / 16, 5 / 32])
    assert state.spreads.pooled[0] == pytest.approx(5 / 32)


@pytest.mark.parametrize(
    "policy",
    [
        OptimisticLogBarrier(),
        OptimisticLogBarrier(optimism=1, first_scale=1, scale_growth=1),
        OptimisticLogBarrier(optimism=0),
    ],
    ids=str,
)
def test_plays_as_prescribed(policy):
    table = make_table(250)
    textbook = PrescribedOptimisticLogBarrier(policy, 4, 250)
    arms, state = play(policy, table)
    assert arms == play_textbook(textbook, table)
    assert state.estimates.losses == pytest.approx(textbook.estimated, rel=1e-8)
    assert state.variances == pytest.approx(textbook.variances, rel=1e-8)
    assert state.variations == pytest.approx(textbook.variations, rel=1e-8)


def test_a_decision_of_vanishing_probability_leaves_it_sound():
    state = OptimisticLogBarrier().start(arms=3, horizon=1000)
    for probability in (1e-300, 5e-324, 1.0):
        ticket = assign(state, Ticket(arm=1, probability=probability))
        learn(state, ticket, 0.0)
    assert is_sound(state, 3)
    assert probabilities(state, 3)[1] < 1e-200


def test_a_forged_memo_leaves_the_mean_squared_error_in_its_range():
    state = OptimisticLogBarrier().start(arms=2, horizon=100)
    assign(state, Ticket(arm=0, probability=0.5))
    learn(state, Ticket(arm=0, probability=0.5, memo=-9.0), 0.0)
    fresh = OptimisticLogBarrier().start(arms=2, horizon=100)
    assert unsafe_array(state, fresh) is None


def test_a_new_arm_starts_as_good_as_the_best():
    """Its scale is the first one, and so it is less likely than the best."""
    _, state = play(OptimisticLogBarrier(), make_table(400))
    before = probabilities(state, 4)
    grown = OptimisticLogBarrier().start(arms=5, horizon=400)
    grow_state(state, grown)
    fresh = OptimisticLogBarrier().start(arms=5, horizon=400)
    assert unsafe_array(grown, fresh) is None
    weights = probabilities(grown, 5)
    best = int(np.argmin(state.scratch.expectation.losses))
    scale = grown.scratch.scales[best]
    assert grown.scratch.expectation.losses[4] == pytest.approx(
        grown.scratch.expectation.losses.min()
    )
    assert weights[4] == pytest.approx(2 * weights[best] / scale)
    assert weights[:4].argmax() == before.argmax()
