"""Growth up to a trillion rounds."""

import html
import math

import pytest

from armrace import verification
from armrace.policies import SharpRace
from armrace.reports.checks import render_verification
from armrace.verification.claims import FULL
from armrace.verification.guarantees import make_subject
from armrace.verification.theorems import CORRUPTIONS, HORIZONS, asymptotic_series, regret_claims


@pytest.fixture(scope="module")
def growth():
    return verification.verify(["sharp-race"], asymptotic=True, quick=True, progress=False)


def test_claims_hold_up_to_a_trillion_rounds(growth):
    assert growth.verdict == "All 4 claims hold."
    assert [check.runs for check in growth.checks] == [4 * 7, 4, 4 * 5, 4]


def test_curves_are_on_the_papers_axes_with_bounds_beside_them(growth):
    by_axis = {curve.axis: curve for curve in growth.curves}
    assert by_axis["T"].points == HORIZONS
    assert by_axis["C"].points == CORRUPTIONS
    for curve in growth.curves:
        assert all(mean < bound for mean, bound in zip(curve.means, curve.bounds, strict=True))
        assert curve.exponent[1] <= curve.exponent[0] <= curve.exponent[2]
    assert 1 < by_axis["T"].exponent[0] < 2.5
    assert 0.5 < by_axis["C"].exponent[0] <= 1.05
    page = render_verification(growth, "armrace verify --asymptotic")
    assert "Growth on the paper's axes" in html.unescape(page)
    assert "(ln T)^" in page


class OneLayer(SharpRace, frozen=True, tag="one-layer"):
    """A sharp race that promises to withstand every corruption and has its first layer only."""

    def start(self, arms, horizon):
        return SharpRace(most_corruption=0, delta=self.delta).start(arms, horizon)


def test_a_race_that_lacks_its_slow_layers_is_caught():
    """With a single layer no other corrects what swap-best has deleted."""
    found = verification.verify([OneLayer()], asymptotic=True, quick=True, progress=False)
    assert [check.verdict for check in found.checks][:3] == ["holds", "holds", "fails"]


def test_nothing_is_claimed_beyond_what_a_race_was_told():
    told = SharpRace(most_corruption=2_000)
    (quiet, attacked) = asymptotic_series(make_subject(told), runs=2, seed=0)
    assert quiet.axis == "T"
    assert attacked.points == (100.0, 1_000.0)
    assert all(math.isfinite(bound) for bound in attacked.bounds())
    untold = SharpRace(most_corruption=10)
    assert [each.axis for each in asymptotic_series(make_subject(untold), 2, 0)] == ["T"]
    claims = list(regret_claims(make_subject(SharpRace(most_corruption=2)), FULL, 0))
    assert {claim.experiments[0].budget for claim in claims} == {0.0}
