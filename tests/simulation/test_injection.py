"""Fake data injection against hand-computed values and a plain loop; and refused by tickets."""

import math

import numpy as np
import pytest

from armrace.environments import Bernoulli, Gaussian
from armrace.errors import InvalidParameter
from armrace.kernels.laws import rewards_between
from armrace.policies.ucb import Ucb
from armrace.randomness import reward_place
from armrace.reproduction.papers.zeng_2025 import Ticketed
from armrace.simulation.injection import Injection, forged_plays, goal_of

TWO = Bernoulli(means=(0.9, 0.5))


def seen(least=-math.inf, plays=50.0, pulls=(50, 100), sums=(45.0, 50.0), margin=None):
    told = Injection(
        policy=Ucb(), environment=TWO, horizon=1000, target=1, sigma=0.5, least=least, plays=plays,
        margin=margin,
    )  # fmt: skip
    injector = told.make_injector()
    injector.pulls[:], injector.sums[:] = pulls, sums
    return injector


def test_the_goal_as_computed_by_hand():
    """b(100) = 0.265425 for two arms, sigma 1/2 and delta 0.05; 3 sigma delta_0 = 0.3."""
    assert goal_of(seen()) == pytest.approx(0.5 - 2 * 0.265425 - 0.3, abs=1e-6)
    assert goal_of(seen(margin=0.0)) == pytest.approx(0.5 - 2 * 0.265425, abs=1e-6)


def test_the_reports_as_computed_by_hand():
    goal = -0.330850
    assert forged_plays(seen(), 0) == (1, pytest.approx(51 * goal - 45, abs=1e-4))
    # 50 (0.9 + 0.33085)/(1 - 0.33085) = 91.97.
    assert forged_plays(seen(least=-1.0), 0) == (92, -1.0)
    assert (45 - 92) / 142 <= goal < (45 - 91) / 141
    assert forged_plays(seen(least=-62.0), 0)[0] == 1
    assert forged_plays(seen(least=-61.0), 0)[0] > 1


def test_when_nothing_is_reported():
    nothing = (0, 0.0)
    assert forged_plays(seen(), 1) == nothing  # the target
    assert forged_plays(seen(plays=51), 0) == nothing  # too early
    assert forged_plays(seen(pulls=(50, 0), sums=(45.0, 0.0)), 0) == nothing
    assert forged_plays(seen(sums=(-20.0, 50.0)), 0) == nothing  # low enough already
    assert forged_plays(seen(least=0.0), 0) == nothing  # no reward that may be shown is enough
    struck = seen()
    struck.injected[0] = 1
    assert forged_plays(struck, 0) == nothing


def test_an_arm_is_struck_after_ln_t_over_delta_0_squared_plays():
    injector = Injection(policy=Ucb(), environment=TWO, horizon=10_000).make_injector()
    assert injector.plays == pytest.approx(9.210340 / 0.04, abs=1e-4)
    assert injector.margin == pytest.approx(0.6)
    assert injector.target == 1


def in_plain_loops(told, bonus):
    """Target plays, reports and cost at the end, without anything of the library's loop."""
    means = np.array(told.environment.means)
    arms, target = means.size, int(means.argmin())
    law = told.environment.law()
    law.place[:] = reward_place(told.seed, 0)
    table = rewards_between(law, 0, told.horizon)
    known, own = [[] for _ in means], [[] for _ in means]
    struck, reports, cost = set(), 0, 0.0
    for row in table:
        t = sum(map(len, known)) + 1
        indices = [
            np.mean(x) + bonus * math.sqrt(math.log(t) / len(x)) if x else math.inf for x in known
        ]
        arm = int(np.argmax(indices))
        known[arm].append(row[arm])
        own[arm].append(row[arm])
        if arm == target or arm in struck or len(own[arm]) < told.plays or not own[target]:
            continue
        plays, others = len(own[arm]), len(own[target])
        width = math.sqrt(
            2 * told.sigma**2 / others * math.log(math.pi**2 * arms * others**2 / 0.15)
        )
        goal = np.mean(own[target]) - 2 * width - 3 * told.sigma * told.delta_0
        mean = np.mean(own[arm])
        count = max(1, math.ceil(plays * (mean - goal) / (goal - told.least)))
        forged = told.least
        if not math.isfinite(told.least):
            count, forged = 1, goal * (plays + 1) - mean * plays
        if mean > goal:
            struck.add(arm)
            reports += count
            known[arm] += [forged] * count
            cost += count * abs(forged - means[arm])
    return len(own[target]), reports, cost


@pytest.mark.parametrize("least", [-math.inf, -15.0])
def test_plays_as_a_plain_loop_does(least):
    told = Injection(
        policy=Ucb(bonus=3.0), environment=Gaussian(means=(0.8, 0.2, 0.5)), horizon=2500,
        plays=40.0, least=least, seed=4,
    )  # fmt: skip
    end = told.run().rows.row(-1, named=True)
    pulls, reports, cost = in_plain_loops(told, 3.0)
    assert (end["round"], end["target_pulls"], end["injected"]) == (2500, pulls, reports)
    assert end["cost"] == pytest.approx(cost)
    assert reports == 2 if least == -math.inf else reports > 2


def test_without_an_attack_nothing_is_reported_and_runs_differ_by_their_rewards():
    told = Injection(
        policy=Ucb(bonus=3.0), environment=Gaussian(means=(0.8, 0.2)), horizon=1000,
        attacked=False, replications=2,
    )  # fmt: skip
    ends = told.run().rows.group_by("replication").last().sort("replication")
    assert ends["injected"].to_list() == ends["cost"].to_list() == [0, 0]
    assert ends["target_pulls"][0] != ends["target_pulls"][1]


REFUSED = [
    ({"target": 2}, "target must be an arm in"),
    ({"delta_0": 0.0}, "delta_0 must be above 0; got 0"),
    ({"horizon": 0}, "horizon must be in"),
    ({"replications": 0}, "replications must be at least 1; got 0"),
    ({"delta": 1.0}, r"delta must be in \(0, 1\); got 1"),
    ({"sigma": -1.0}, "sigma must be above 0; got -1"),
]


@pytest.mark.parametrize(("given", "said"), REFUSED)
def test_what_cannot_be_is_refused(given, said):
    with pytest.raises(InvalidParameter, match=said):
        Injection(**{"policy": Ucb(), "environment": TWO, "horizon": 100, **given}).run()


def test_a_learner_refuses_every_report_and_plays_as_without_an_attack():
    told = Injection(
        policy=Ucb(bonus=1.5), environment=Bernoulli(means=(0.9, 0.8)), horizon=4000, target=1,
        sigma=0.5, least=0.0, seed=2,
    )  # fmt: skip
    believed = told.run().rows.row(-1, named=True)
    (asked,) = Ticketed(told).run().rows.rows(named=True)
    alone = Injection(
        policy=told.policy, environment=told.environment, horizon=4000, target=1, sigma=0.5,
        attacked=False, seed=2,
    ).run().rows.row(-1, named=True)  # fmt: skip
    assert believed["injected"] > 100
    assert asked["injected"] == 0
    assert asked["refused"] == believed["injected"]
    assert asked["target_pulls"] == alone["target_pulls"] < 0.5 * believed["target_pulls"]
