"""Policies that err: what they draw is checked in every run, their own indices in checked runs."""

import pytest

import armrace
from armrace.errors import BrokenPolicy, InvalidParameter
from armrace.policies import Policy
from stray_policies import Stray

GIVEN = {"environment": [0.6, 0.5, 0.4], "horizon": 50, "replications": 2}
ATTACKED = {"adversary": "zero-best-when-likely", "budget": 1000.0}


WRONG: dict[Policy, str] = {
    Stray(arm=3): "chose arm 3; its arms are 0 to 2",
    Stray(arm=-1): "chose arm -1; its arms are 0 to 2",
    Stray(arm=10**12): "chose arm 1000000000000; its arms are 0 to 2",
    Stray(layer=1): "chose layer 1; its layers are 0 to 0, or -1 for none",
    Stray(layer=-2): "chose layer -2; its layers are 0 to 0, or -1 for none",
    Stray(probability=0.0): "gave arm 0 the probability 0, which is not in (0, 1]",
    Stray(probability=1.5): "gave arm 0 the probability 1.5, which is not in (0, 1]",
    Stray(probability=None): "gave arm 0 the probability nan, which is not in (0, 1]",
}
"""Policies, and what is wrong with them."""


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize("attack", [{}, ATTACKED], ids=["quiet", "attacked"])
@pytest.mark.parametrize("policy", WRONG, ids=str)
def test_what_no_policy_can_draw_is_refused(policy, attack, checked):
    """Memory outside the arrays of the run was read and written, or the process ended."""
    with pytest.raises(BrokenPolicy) as refusal:
        armrace.simulate(policy, **GIVEN, **attack, checked=checked)
    assert str(refusal.value) == f"the policy stray {WRONG[policy]}."


def test_a_wrong_index_of_its_own_is_refused_with_its_round():
    with pytest.raises(InvalidParameter) as refusal:
        armrace.simulate(Stray(place=3), **GIVEN, checked=True)
    assert str(refusal.value) == (
        "the policy with the state StrayState left the bounds of an array in round 7: its arm or "
        "layer is not one of the 3 arms and 1 layers, or its own code uses a wrong index."
    )


@pytest.mark.parametrize("attack", [{}, ATTACKED])
def test_checks_change_no_figure(attack):
    usual = armrace.simulate("ucb1", **GIVEN, **attack)
    checked = armrace.simulate("ucb1", **GIVEN, **attack, checked=True)
    assert checked.rows.equals(usual.rows)
    assert checked.spec == usual.spec


class CountingStray(Stray, frozen=True, tag="counting-stray"):
    draws_by_weights = True
    learns_from_others = True


@pytest.mark.parametrize("more", [{"checked": True}, {"audit": 0.01}])
def test_a_probability_that_no_run_uses_is_checked_where_it_is_used(more):
    """A policy that counts rewards need not compute, round by round, what nothing looks at."""
    odd = CountingStray(probability=1.5)
    assert armrace.simulate(odd, **GIVEN).figure("pseudo_regret").mean == 0.0
    with pytest.raises(BrokenPolicy, match=r"gave arm 0 the probability 1\.5"):
        armrace.simulate(odd, **GIVEN, **more)
    with pytest.raises(BrokenPolicy, match="chose arm 3"):
        armrace.simulate(CountingStray(arm=3), **GIVEN)
