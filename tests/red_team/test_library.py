"""The shipped winners: readable, legal, and found for similar settings."""

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.adversaries import Setting
from armrace.environments import Bernoulli, Beta
from armrace.policies import POLICIES
from armrace.red_team.batches import worst_standings, worst_verdict
from armrace.red_team.library import (
    FORMAT,
    KINDS,
    kind_of,
    load_library,
    was_searched,
    winners_for,
)
from armrace.red_team.target import Target
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA
from armrace.simulation.replication import run_replication


def target_of(policy, means, budget=100.0):
    return Target(
        policy=POLICIES.make(policy),
        environment=Bernoulli(means=means),
        budget=budget,
        horizon=100_000,
    )


def test_every_winner_can_be_made_and_names_a_policy():
    library = load_library().winners
    assert len(library) > 20
    for winner in library:
        assert winner.environment in ENVIRONMENTS_OF_THE_ARENA
        assert winner.policy in POLICIES
        assert winner.kind in KINDS
        assert winner.attack.items() <= winner.make().to_builtins().items()
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


@pytest.mark.parametrize(
    ("means", "kind"), [((0.4, 0.6), "two-arms"), ((0.6, *[0.4] * 60), "several-arms")]
)
def test_winners_of_the_same_policy_and_the_most_similar_kind_come_first(means, kind):
    """For many arms the library has none; several are the most similar."""
    own = [w.make() for w in load_library().winners if (w.policy, w.kind) == ("thompson", kind)]
    found = winners_for(target_of("thompson", means))
    assert found[0] in own
    assert len(found) == len(set(found))


def test_the_library_belongs_to_these_figures():
    library = load_library()
    assert library.format == FORMAT
    assert library.figures == armrace.FIGURES, "search again with docs/grid.py: figures changed"
    assert was_searched("thompson")
    assert not was_searched("no-such-policy")


def replayed(policy, environment, budget, replications, seed):
    """The library's attack on a policy in a cell, and what it costs in some runs."""
    (winner,) = (
        each
        for each in load_library().winners
        if (each.policy, each.environment, each.budget) == (policy, environment, budget)
        and each.horizon == 100_000
    )
    target = Target(
        policy=POLICIES.make(policy),
        environment=ENVIRONMENTS_OF_THE_ARENA[environment],
        budget=budget,
        horizon=winner.horizon,
    )
    experiment = target.experiment(winner.make(), replications, seed)
    runs = [run_replication(experiment, number) for number in range(replications)]
    return winner, [run.pseudo_regret[-1] for run in runs]


REPLAYED = [
    ("thompson", "two-arms", 100.0),
    ("ucb1", "one-better", 100.0),
    ("kl-ucb", "clicks", 100.0),
    ("tsallis-inf", "two-arms", 1000.0),
    ("optimistic-log-barrier", "one-better", 1000.0),
    ("lb-inf", "clicks", 316.0),
]


@pytest.mark.parametrize(("policy", "environment", "budget"), REPLAYED)
def test_a_winner_costs_what_the_library_says(policy, environment, budget):
    # Chance alone, if means were normal, leaves 5 standard errors once in a million.
    winner, regrets = replayed(policy, environment, budget, 6, seed=987)
    # Both means are of runs with the same spread; means are rounded to a tenth.
    doubt = winner.stderr * np.sqrt(1 + winner.replications / 6) + 0.1
    assert abs(np.mean(regrets) - winner.mean) < 5 * doubt
    if (policy, budget) == ("thompson", 100.0):
        # A hundred forged rewards ruin it: the 60 held-out runs of the search lost 19,992 of
        # 20,000 on average, with a 95th percentile of 19,993.
        assert min(regrets) >= 15_000


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
