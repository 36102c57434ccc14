"""Checked runs: a policy that leaves the bounds of an array is refused in one sentence."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

import armrace
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.policies import Policy
from armrace.specification import Limits


class StrayState(NamedTuple):
    plays: Any
    numbers: Any


class Stray(Policy, frozen=True, tag="stray"):
    """Plays arm 0, and in round 7 what it is told; learns at a place that it is told."""

    arm: Annotated[int, Limits("the arm of round 7")] = 0
    layer: Annotated[int, Limits("the layer of round 7")] = 0
    place: Annotated[int, Limits("where it writes in round 7")] = 0

    def start(self, arms, horizon):
        return StrayState(np.zeros(1, dtype=np.int64), np.array([self.arm, self.layer, self.place]))


@implement(distribution, StrayState)
def stray_distribution(state, out):
    out.fill(0.0)
    out[0] = 1.0


@implement(choose, StrayState)
def stray_choose(state, stream):
    if state.plays[0] == 7:
        return make_ticket(state.numbers[0], state.numbers[1])
    return make_ticket(0)


@implement(assign, StrayState)
def stray_assign(state, ticket):
    return ticket


@implement(learn, StrayState)
def stray_learn(state, ticket, reward):
    if state.plays[0] == 7 and state.numbers[2] != 0:
        state.numbers[np.uint64(state.numbers[2])] = 1
    state.plays[0] += 1


GIVEN = {"environment": [0.6, 0.5, 0.4], "horizon": 50, "replications": 2}
ATTACKED = {"adversary": "zero-best-when-likely", "budget": 1000.0}


@pytest.mark.parametrize(
    ("policy", "attack"),
    [
        (Stray(arm=3), {}),
        (Stray(arm=-1), {}),
        (Stray(arm=10**12), {}),
        (Stray(place=3), {}),
        (Stray(arm=3), ATTACKED),
        (Stray(arm=-1), ATTACKED),
        (Stray(layer=1), ATTACKED),
        (Stray(layer=-2), ATTACKED),
    ],
    ids=str,
)
def test_what_leaves_the_bounds_is_refused_with_its_round(policy, attack):
    with pytest.raises(InvalidParameter) as refusal:
        armrace.simulate(policy, **GIVEN, **attack, checked=True)
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


def test_comparisons_can_be_checked():
    assert armrace.compare([Stray(), "ucb1"], **GIVEN, checked=True).best()
    with pytest.raises(InvalidParameter, match="in round 7"):
        armrace.compare(["ucb1", Stray(arm=5)], **GIVEN, checked=True)
