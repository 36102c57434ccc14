"""What attacks declare that a change costs at least, and what it spares the engine."""

import math

import numpy as np
import pytest

from armrace.adversaries import ADVERSARIES, AaeOpening, Adversary
from armrace.environments import Deterministic, FiniteSupport, Table, Uniform
from armrace.kernels.engine import make_record
from armrace.kernels.states import equal_states
from armrace.simulation import make_experiment
from armrace.simulation.replication import make_parts, play_out

CLICKS = (0.9, 0.5, 0.1)
STARS = FiniteSupport(
    values=(0.0, 0.125, 0.75, 1.0),
    probabilities=((0.1, 0.1, 0.1, 0.7), (0.2, 0.3, 0.3, 0.2), (0.7, 0.1, 0.1, 0.1)),
)
CERTAIN = Deterministic(rewards=(0.75, 0.5, 0.125))
SPREAD = Uniform(lows=(0.2, 0.1, 0.0), highs=(1.0, 0.9, 0.8))

ANY, NEVER = 0.0, math.inf

DECLARED = {  # of other attacks their own tests say what they declare
    "none": (NEVER, NEVER, NEVER),
    "zero-best": (1.0, 0.125, 0.75),
    "zero-best-when-likely": (1.0, 0.125, 0.75),
    "swap-best": (1.0, 0.125, 0.5),  # of the runner-up that always pays a half
    "aae-opening": (1.0, 0.125, 0.75),
    "random-flips": (1.0, 0.5, 0.5),  # a half flipped is a half, and costs nothing
    "outage": (1.0, 0.125, 0.75),
    "jun-ucb": (ANY, ANY, ANY),
    "jun-greedy": (ANY, ANY, ANY),
    "oracle": (ANY, ANY, ANY),
    "adaptive-constant": (ANY, ANY, ANY),
    "observation-free": (1.0, 0.125, 0.125),
    "lower-bound-switch": (1.0, 0.125, 0.75),
    "clean-objective": (1.0, 0.125, 0.125),
    "click-bots": (1.0, 0.125, 0.75),
    "sleeper-bots": (1.0, 0.125, 0.5),
    "fake-reviews": (1.0, 0.25, 0.875),
    "construction": (0.6, 0.125 * 0.6, 0.75 * 0.6),
    "spam-wave": (1.0, 0.5, 0.5),
    "two-phase": (1.0, 0.125, 0.125),  # some arm to 0 or to 1, whatever the action
    "blind-two-phase": (1.0, 0.125, 0.125),
    "double-impact": (1.0, 0.125, 0.125),
    "free-ride": (1.0, 0.125, 0.125),
    "strip": (1.0, 0.125, 0.125),
    "spoil-then-swap": (1.0, ANY, ANY),  # two rewards that are exchanged may be alike
}
"""On clicks, on stars and where nothing is left to chance."""


def parts_for(attack, environment, budget, horizon=1500, policy="exp3"):
    experiment = make_experiment(
        policy=policy,
        environment=environment,
        adversary=attack,
        budget=budget,
        horizon=horizon,
        replications=1,
        seed=7,
        engine="plain",
    )
    return make_parts(experiment, 0)


def declared(attack, environment):
    return parts_for(attack, environment, budget=20.5).smallest_cost


@pytest.mark.parametrize("name", DECLARED)
def test_the_smallest_cost_follows_from_the_rewards_that_occur(name):
    found = [declared(name, environment) for environment in (CLICKS, STARS, CERTAIN)]
    assert found == pytest.approx(DECLARED[name])


@pytest.mark.parametrize("name", sorted(set(DECLARED) - {"none"}))
def test_a_change_may_cost_anything_where_the_rewards_are_not_named(name):
    table = np.random.default_rng(1).random((1500, 3))
    for environment in (SPREAD, Table(rewards=table)):
        assert declared(name, environment) == ANY


def test_an_opening_that_boosts_may_spend_on_the_runner_up_too():
    certain = Deterministic(rewards=(0.75, 0.5, 0.125))
    assert declared(AaeOpening(boost=True), certain) == 0.5


def test_an_attack_on_an_arm_that_never_pays_can_do_nothing():
    assert declared({"name": "outage", "arm": 1}, Deterministic(rewards=(0.5, 0.0))) == NEVER


def test_an_attack_that_declares_nothing_may_make_any_change():
    assert Adversary().smallest_cost(None, None) == ANY


@pytest.mark.parametrize("budget", [7.3, 1e9])
@pytest.mark.parametrize(
    "environment", [CLICKS, STARS, CERTAIN], ids=["clicks", "stars", "certain"]
)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_round_is_charged_less_than_was_declared(name, environment, budget):
    parts = parts_for(name, environment, budget)
    shape = parts.ledger.pulls.size, parts.ledger.layer_corruption.size
    every_round = make_record(np.arange(1, 1501), *shape)
    play_out(parts._replace(record=every_round, smallest_cost=ANY))
    charged = np.diff(every_round.rows.corruption[:, 0], prepend=0.0)
    assert (charged[charged > 0] >= parts.smallest_cost - 1e-12).all()


@pytest.mark.parametrize(
    "environment", [CLICKS, STARS, CERTAIN], ids=["clicks", "stars", "certain"]
)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_what_is_spared_makes_no_difference_to_the_last_bit(name, environment):
    spared = parts_for(name, environment, budget=20.55)
    asked = parts_for(name, environment, budget=20.55)._replace(smallest_cost=ANY)
    for parts in (spared, asked):
        play_out(parts)
    # Who is asked after nothing can be paid for any more has more changes refused.
    for parts in (spared, asked):
        parts.ledger.refused[:] = 0
        parts.record.rows.refused[:] = 0
    for member in ("policy", "ledger", "record"):
        assert equal_states(getattr(spared, member), getattr(asked, member)), member
