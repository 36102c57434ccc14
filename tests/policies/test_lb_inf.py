"""LB-INF against values computed by hand and its textbook form."""

import pytest

from armrace.policies.lb_inf import LbInf
from armrace.verification.leader_guarantees import PrescribedLbInf
from playing import make_table, play, play_textbook, three_rounds


def test_three_rounds_as_computed_by_hand():
    """By bisection of the derivative along the two arms' simplex: losses 1, 1/4 and 1/2."""
    first, state = three_rounds(LbInf())
    assert first == pytest.approx([0.5, 0.431138, 0.39549525, 0.40433937], abs=5e-9)
    assert state.scales == pytest.approx([2.00433188, 2.00433188], abs=5e-9)
    assert state.estimates.predictions.tolist() == [0.59375, 0.4375]
    assert state.estimates.losses == pytest.approx([2.43394058, 0.9980261], abs=5e-9)


@pytest.mark.parametrize("rate", [0.25, 0.0])
def test_plays_as_printed(rate):
    table = make_table(1000)
    policy = LbInf(prediction_rate=rate)
    textbook = PrescribedLbInf(policy, 4, 1000)
    arms, state = play(policy, table)
    assert arms == play_textbook(textbook, table)
    assert state.estimates.losses == pytest.approx(textbook.estimated, rel=1e-8)
    assert state.scales == pytest.approx(textbook.scales, rel=1e-8)
