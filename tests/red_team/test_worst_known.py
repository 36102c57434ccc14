"""The worst known attack: tried in the setting itself, not only taken from a similar one."""

import msgspec
import pytest

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.policies import POLICIES
from armrace.red_team.library import attacks_to_try, worst_known
from armrace.red_team.target import Ratings, Target
from armrace.simulation.scenarios import find_scenario


def target_in(scenario, policy, horizon, budget):
    return Target(
        policy=POLICIES.make(policy),
        environment=find_scenario(scenario).environment,
        budget=budget,
        horizon=horizon,
    )


def test_thompson_meets_worse_than_what_the_scenario_offers():
    story = find_scenario("fake-reviews")
    target = target_in("fake-reviews", "thompson", 20_000, 40.0)
    worst = worst_known(target, 0, [story.adversary], workers=1)
    costs = {}
    for attack in (worst, story.adversary):
        result = armrace.simulate(
            target.policy,
            target.environment,
            attack,
            budget=target.budget,
            horizon=target.horizon,
            replications=20,
            seed=5,
            refresh=target.experiment(attack, 1, 0).refresh,
            progress=False,
        )
        costs[attack] = result.figure("pseudo_regret").mean
    assert worst != story.adversary
    assert costs[worst] > 2 * costs[story.adversary]


def test_few_attacks_are_tried_and_the_given_one_is_among_them():
    target = target_in("click-fraud", "ucb1", 1000, 10.0)
    given = ADVERSARIES.make("outage")
    tried = attacks_to_try(target, [given])
    assert tried[0] == given
    assert {attack.tag() for attack in tried} >= {
        "spoil-then-swap",
        "double-impact",
        "free-ride",
        "strip",
    }
    assert len(tried) <= 13


@pytest.mark.parametrize(
    ("horizon", "budget", "tried"),
    [
        (50_000, 80.0, [(50_000, 80.0), (50_000, 80.0)]),
        (10**9, 1e6, [(10**5, 100.0), (10**6, 1000.0)]),
    ],
)
def test_long_runs_are_tried_in_a_shorter_form(monkeypatch, horizon, budget, tried):
    seen = []

    def rate(self, attacks, replications):
        seen.append((self.target.horizon, self.target.budget))
        self._rows = {self._key(attack): [[0.0] * 20] for attack in attacks}

    monkeypatch.setattr(Ratings, "rate", rate)
    target = msgspec.structs.replace(
        target_in("click-fraud", "ucb1", 1000, 10.0), horizon=horizon, budget=budget
    )
    worst_known(target, 0)
    assert seen == tried
