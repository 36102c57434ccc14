"""The space of parameters: within limits, and reproducible."""

from typing import Annotated

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armrace.adversaries import Adversary, TwoPhase, ZeroBest, ZeroBestWhenLikely
from armrace.limits import Limits
from armrace.red_team.space import (
    Choice,
    Range,
    cross,
    mutate,
    sample,
    space_of,
)


class Family(Adversary, frozen=True, tag="own-family"):
    """A family of a user's."""

    rounds: Annotated[int, Limits("how many", 3, 7)] = 5
    open_below: Annotated[float, Limits("a share", 0, 1, low_open=True)] = 0.5
    unlimited: Annotated[float, Limits("anything")] = 2.0
    loud: bool = False


def test_the_space_is_read_from_the_declarations():
    space = space_of(Family)
    assert set(space) == {"rounds", "open_below", "loud"}
    assert space["loud"] == Choice((False, True))
    assert isinstance(space["rounds"], Range)
    assert space["rounds"].is_whole


def test_a_class_without_parameters_is_left_as_it_is():
    assert mutate(ZeroBest(), np.random.default_rng(0), 0.3) == ZeroBest()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("family", [Family, TwoPhase, ZeroBestWhenLikely])
def test_whatever_is_drawn_keeps_to_the_limits(family, seed):
    generator = np.random.default_rng(seed)
    one, other = sample(family, generator), sample(family, generator)
    for attack in (one, mutate(one, generator, 2.0), cross(one, other, generator)):
        assert type(attack).from_parameters(_parameters(attack)) == attack


def test_a_mutation_changes_something():
    generator = np.random.default_rng(1)
    changed = [mutate(TwoPhase(), generator, 0.3) != TwoPhase() for _ in range(50)]
    assert sum(changed) > 40


def test_crossing_takes_every_parameter_from_one_of_the_two():
    one = TwoPhase(first="zero", split=0.2, pace=0.3)
    other = TwoPhase(first="spoil", split=0.7, pace=0.6)
    generator = np.random.default_rng(2)
    seen = {(a.first, a.split, a.pace) for a in (cross(one, other, generator) for _ in range(99))}
    assert len(seen) == 8


@pytest.mark.parametrize("place", [0.0, 0.1, 0.5, 1.0])
def test_a_place_and_its_number_are_inverse(place):
    for part in (Range(0.0, 1.0, True, False), Range(-1.0, 1.0, False, False)):
        assert part.place(part.at(place)) == pytest.approx(place, abs=1e-3)


def test_equal_seeds_give_equal_attacks():
    drawn = [sample(TwoPhase, np.random.default_rng(7)) for _ in range(2)]
    assert drawn[0] == drawn[1]


def _parameters(attack):
    data = attack.to_builtins()
    data.pop("name")
    return data
