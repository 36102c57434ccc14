"""The shipped winners: readable, legal, and found for similar settings."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl
import pytest

from armrace.adversaries import Setting
from armrace.environments import Bernoulli, Beta
from armrace.policies import POLICIES
from armrace.red_team.library import KINDS, kind_of, load_library, winners_for
from armrace.red_team.standings import worst_standings, worst_verdict
from armrace.red_team.target import Target


def target_of(policy, means, budget=100.0):
    return Target(
        policy=POLICIES.make(policy),
        environment=Bernoulli(means=means),
        budget=budget,
        horizon=100_000,
    )


def test_every_winner_can_be_made_and_names_a_policy():
    library = load_library()
    assert len(library) > 20
    for winner in library:
        assert winner.policy in POLICIES
        assert winner.kind in KINDS
        assert winner.make().to_builtins() == winner.attack
        assert winner.mean > 0


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        (Bernoulli(means=(0.6, 0.4)), "two-arms"),
        (Bernoulli(means=(0.5, 0.4, 0.4)), "several-arms"),
        (Bernoulli(means=(0.05, 0.03)), "low-rates"),
        (Bernoulli(means=(0.6, *[0.4] * 60)), "many-arms"),
        (Beta(alphas=(1.0, 2.0), betas=(2.0, 1.0)), "graded"),
    ],
)
def test_the_kind_of_an_environment(environment, kind):
    means = environment.mean_rewards(1)
    assert kind_of(Setting(means, 100, 10.0, support=environment.support())) == kind


def test_winners_of_the_same_policy_come_first():
    target = target_of("thompson", (0.4, 0.6))
    own = [w.attack for w in load_library() if (w.policy, w.kind) == ("thompson", "two-arms")]
    found = [attack.to_builtins() for attack in winners_for(target)]
    assert found[0] in own
    assert len(found) == len({msgspec.json.encode(each) for each in found})


def test_standings_by_hand():
    frame = pl.DataFrame(
        {
            "environment": ["two", "two", "ten", "ten"],
            "budget": [10.0, 10.0, 20.0, 20.0],
            "policy": ["calm", "bold", "calm", "bold"],
            "mean": [20.0, 80.0, 60.0, 30.0],
            "p95": [30.0, 90.0, 60.0, 40.0],
            "all_lost": [100.0, 100.0, 1000.0, 1000.0],
        }
    )
    calm, bold = worst_standings(frame).to_dicts()
    assert (calm["policy"], bold["policy"]) == ("calm", "bold")
    assert calm["mean"] == pytest.approx(np.sqrt(1 * 2))
    assert bold["mean"] == pytest.approx(np.sqrt(4 * 1))
    assert calm["tail"] == pytest.approx(np.sqrt(1 * 1.5))
    assert (calm["per_budget"], bold["per_budget"]) == (3.0, 8.0)
    assert (calm["mostly_lost"], bold["mostly_lost"]) == (0, 1)
    words = worst_verdict(worst_standings(frame))
    assert "calm loses least" in words
    assert "with a small budget: bold." in words
