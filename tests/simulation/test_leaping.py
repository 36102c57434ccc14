"""Leaping agrees in law with playing every round, and says what it did."""

import numpy as np
import pytest
from scipy import stats

import armrace
from armrace.errors import InvalidParameter
from armrace.simulation import make_experiment
from armrace.simulation.replication import make_parts, play_out

SIGNIFICANCE = 1e-4
"""Of each comparison; there are some 80, so that fresh seeds would pass all in 99 of 100 tries."""

RUNS = 200

CASES = {
    "elimination": ("active-arm-elimination", [0.7, 0.3, 0.5], 8_000, {}),
    "enlarged": (
        {"name": "enlarged-arm-elimination", "corruption": 20},
        [0.7, 0.3, 0.5],
        8_000,
        {},
    ),
    "fast and slow": (
        {"name": "fast-slow-race", "corruption": 8},
        [0.9, 0.3],
        6_000,
        {"adversary": "zero-best", "budget": 8.5},
    ),
    "literal": ("multi-layer-race", [0.9, 0.1, 0.2], 12_000, {}),
    "pooled": (
        {"name": "multi-layer-race", "intervals": "kl-mixture", "pool": True},
        [0.8, 0.3, 0.4],
        6_000,
        {},
    ),
    "bernstein": (
        {"name": "multi-layer-race", "intervals": "bernstein"},
        [0.9, 0.1, 0.2],
        6_000,
        {"adversary": "outage", "budget": 500},
    ),
    "sharp": ("sharp-race", [0.9, 0.3, 0.4], 6_000, {}),
    "sharp, fooled": (
        {"name": "sharp-race", "first": 1},
        [0.7, 0.3, 0.4],
        8_000,
        {"adversary": "swap-best", "budget": 150},
    ),
    "sharp, late": (
        "sharp-race",
        [0.9, 0.3, 0.4],
        6_000,
        {"adversary": "sleeper-bots", "budget": 200},
    ),
}


def played(case, engine, seed):
    policy, environment, horizon, attack = CASES[case]
    experiment = make_experiment(
        policy=policy,
        environment=environment,
        horizon=horizon,
        replications=RUNS,
        seed=seed,
        engine=engine,
        **attack,
    )
    rows = []
    for number in range(RUNS):
        parts = make_parts(experiment, number)
        play_out(parts)
        race, ledger = parts.policy, parts.ledger
        deleted = race.eliminated_at[0]
        rows.append(
            {
                "pulls of the best": ledger.pulls[0],
                "collected": ledger.collected[0],
                "total of the best": ledger.clean_totals[0],
                "total of the last": ledger.clean_totals[-1],
                "deleted first": deleted[deleted >= 0].min(initial=horizon),
                "deleted last": deleted.max(),
                "corruption met": ledger.layer_corruption.sum(),
                "own pulls of layer 0": race.pulls[0].sum(),
                "own sums of layer 0": race.sums[0].sum(),
            }
        )
        assert ledger.pulls.sum() == horizon
        assert race.rounds[0] == horizon
        assert np.array_equal(race.assigned, race.pulls)
    return {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}


@pytest.mark.parametrize("case", CASES)
def test_leaping_agrees_in_law_with_playing_every_round(case):
    plain, leapt = played(case, "plain", seed=1), played(case, "leap", seed=2)
    for name, sample in plain.items():
        test = stats.ks_2samp(sample, leapt[name], method="asymp")
        assert test.pvalue > SIGNIFICANCE, (name, sample.mean(), leapt[name].mean())


@pytest.mark.parametrize(
    ("attack", "budget", "spent", "share"),
    [("none", None, 0.0, 0.9), ("zero-best", 100, 99.75, 0.5)],
    ids=["quiet", "133 changes of 0.75 leave 0.25, with which nothing can be done"],
)
def test_deterministic_rewards_leap_to_exactly_what_is_played(attack, budget, spent, share):
    """Nothing is left to chance with one layer, so that all figures agree."""
    environment = {"name": "deterministic", "rewards": (0.75, 0.25)}
    given = ("active-arm-elimination", environment, attack, budget, 5_000, 1)
    plain, leapt = (armrace.simulate(*given, engine=engine) for engine in ("plain", "leap"))
    assert leapt.sample("corruption")[0] == spent
    assert leapt.share_leapt > share
    assert leapt.rows.drop("leapt").equals(plain.rows.drop("leapt"))
    assert leapt.view == plain.view


def test_mean_totals_are_the_means_at_a_horizon_nobody_could_play():
    """Sums of 10^12 rewards: within six standard errors, which fails once in 10^8."""
    horizon, means = 10**12, [0.5, 0.4]
    experiment = make_experiment(
        policy="multi-layer-race", environment=means, horizon=horizon, replications=1
    )
    parts = make_parts(experiment, 0)
    play_out(parts)
    errors = parts.ledger.clean_totals - horizon * np.array(means)
    assert (np.abs(errors) < 6 * 0.5 * np.sqrt(horizon)).all()
    assert parts.ledger.pulls.sum() == horizon
    assert parts.ledger.pulls[1] < 10**7


def test_the_automatic_choice_plays_short_runs_and_leaps_over_long_ones():
    short = armrace.simulate("sharp-race", [0.9, 0.1], horizon=1000, replications=1)
    long = armrace.simulate("sharp-race", [0.9, 0.1], horizon=10**9, replications=1)
    other = armrace.simulate("ucb1", [0.9, 0.1], horizon=1000, replications=1)
    assert (short.engine, long.engine, other.engine) == ("plain", "leap", "plain")
    assert short.share_leapt == 0
    assert long.share_leapt > 0.999
    assert long.to_builtins()["engine"] == {"name": "leap", "share_leapt": long.share_leapt}


@pytest.mark.parametrize(
    ("attack", "budget"),
    [
        ("oracle", 50.3),
        *((a, 50) for a in ("zero-best", "swap-best", "random-flips", "fake-reviews")),
    ],
)
def test_a_budget_that_runs_out_starts_the_leaping(attack, budget):
    """Clicks change by 1 or not at all: half a click more makes no difference, to the last bit."""

    def leapt(budget):
        return armrace.simulate("sharp-race", [0.9, 0.1], attack, budget, 10**8, 2, engine="leap")

    result = leapt(budget)
    assert result.final["corruption"].to_list() == [budget, budget]
    assert result.share_leapt > 0.99
    if attack != "oracle":  # which spends in parts
        assert leapt(budget + 0.5).rows.equals(result.rows)


def test_bursts_interrupt_the_leaping():
    """A burst of 1,000 in every million rounds is played, the rest is leapt over."""
    attack = {"name": "click-bots", "period": 10**6, "burst": 1000}
    result = armrace.simulate(
        "sharp-race", [0.9, 0.1], attack, 10**6, horizon=10**8, replications=1, engine="leap"
    )
    spent = result.sample("corruption")[0]
    assert 85_000 < spent < 95_000, "in 100 bursts of 1,000 the best arm pays nine times in ten"
    assert 0.99 < result.share_leapt < 0.999


@pytest.mark.parametrize(
    ("policy", "environment"),
    [
        ("ucb1", [0.5, 0.4]),
        ("sharp-race", {"name": "beta", "alphas": (1, 2), "betas": (2, 1)}),
        ("best-of-all-worlds", [0.5, 0.4]),
    ],
)
def test_what_cannot_leap_is_refused_when_asked_to(policy, environment):
    with pytest.raises(InvalidParameter, match=r"^engine leap skips rounds of arm eliminations"):
        armrace.simulate(policy, environment, horizon=100, replications=1, engine="leap")


def test_an_unknown_engine_is_refused():
    with pytest.raises(InvalidParameter, match=r"^engine must be"):
        armrace.simulate("ucb1", [0.5, 0.4], horizon=100, replications=1, engine="fast")


def test_a_leap_that_is_to_be_audited_is_refused():
    with pytest.raises(InvalidParameter, match=r"^engine leap cannot be audited"):
        armrace.simulate(
            "sharp-race", [0.5, 0.4], horizon=100, replications=1, engine="leap", audit=0.05
        )


def test_a_comparison_with_leaps_does_not_claim_common_rewards():
    def verdict(horizon):
        policies = ["sharp-race", "active-arm-elimination"]
        found = armrace.compare(policies, [0.9, 0.1], horizon=horizon, replications=10)
        return found.verdict("pseudo_regret")

    assert "on the same rewards" in verdict(10_000)
    assert "on the same rewards" not in verdict(20_000_000)
