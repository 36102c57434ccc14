"""Attacks that are injected into a log, sources that are retracted, and refusals."""

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.errors import ArmraceError
from replay_reference import make_log

COLUMNS = {"arm": "arm", "reward": "reward"}
MEANS = (0.3, 0.7)


def replayed(log, policy="ucb1", **options):
    options = {"columns": COLUMNS, "replications": 3, "estimators": "replay", **options}
    return armrace.replay(log, [policy], **options)


def test_an_attack_spends_its_budget_and_deceives_who_can_be_deceived() -> None:
    log = make_log(30_000, MEANS, seed=1)
    found = replayed(log, attack="zero-best", budget=1000.0, estimators="all")
    quiet, attacked = found.find("ucb1"), found.find("ucb1", "under zero-best")
    assert quiet.attack is None
    assert 999.0 < attacked.attack.spent <= 1000.0
    assert 0.0 < attacked.attack.seen <= attacked.attack.spent
    assert quiet.shares[1] > 0.9
    assert attacked.shares[1] < quiet.shares[1] - 0.05
    # Estimates are of honest rewards, whatever the policy was shown.
    honest = float(np.dot(attacked.shares, MEANS))
    for name in ("replay", "dr"):
        assert attacked.estimate(name).value == pytest.approx(honest, abs=0.03)


@pytest.mark.parametrize("name", [name for name in ADVERSARIES if name != "none"])
def test_every_attack_of_the_catalogue_can_be_injected(name) -> None:
    log = make_log(1200, MEANS, seed=2)
    found = replayed(log, "exp3", attack=name, budget=30.0, replications=1)
    assert found.policies[1].attack.spent <= 30.0
    assert found.policies[1].attack.specification["name"] == name


def test_the_worst_attack_is_searched_on_the_log_s_rates() -> None:
    log = make_log(2000, MEANS, seed=3)
    found = replayed(log, redteam="quick", budget=40.0, replications=5)
    worst = found.find("ucb1", "under the worst found")
    assert worst.attack.found_by == "quick"
    assert worst.attack.spent <= 40.0
    assert worst.estimates[0].value < found.find("ucb1").estimates[0].value - 0.05


def forged_log():
    """Half of the rows come from a network that always pays the bad arm and never the good one."""
    honest, forged = make_log(6000, MEANS, seed=4), make_log(6000, (1.0, 0.0), seed=5)
    both = pl.concat([honest, forged]).with_columns(
        network=pl.Series(["good"] * 6000 + ["bad net"] * 6000)
    )
    return both.sample(fraction=1.0, shuffle=True, seed=1)


def test_a_source_that_is_retracted() -> None:
    log = forged_log()
    found = replayed(log, source="network", retract="bad net")
    deceived, cleared = found.find("ucb1"), found.find("ucb1", "without bad net")
    assert deceived.shares[0] > 0.7
    assert cleared.shares[1] > 0.8
    assert (deceived.rows, cleared.rows) == (12_000, 6000)
    honest = log.filter(pl.col("network") == "good")["reward"].mean()
    assert cleared.logged_mean == pytest.approx(honest)
    assert deceived.logged_mean == pytest.approx(log["reward"].mean())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attack": "zero-best"}, "budget is missing"),
        ({"budget": 3.0}, "budget is for an attack"),
        ({"attack": "zero-best", "budget": -1.0}, "budget must be at least 0"),
        ({"redteam": "huge", "budget": 3.0}, "huge"),
        ({"retract": "x"}, "retract needs the column of the sources"),
        ({"floor": 0.0}, "floor must be"),
        ({"level": 1.5}, "level must be in"),
        ({"replications": 0}, "replications must be"),
        ({"horizon": 0}, "horizon must be"),
        ({"estimators": "best"}, "estimators must be all or replay"),
        ({"rewards": (1, 0)}, "rewards must be the smallest and the largest"),
        ({"seed": -1}, "seed must be"),
        ({"workers": 0}, "workers must be at least 1"),
        ({"attack": "zero-bets", "budget": 1.0}, "did you mean 'zero-best'"),
    ],
)
def test_refusals(options, words) -> None:
    with pytest.raises(ArmraceError) as refusal:
        replayed(make_log(50, MEANS), **options)
    assert words in str(refusal.value)


def test_doubts_about_propensities() -> None:
    skewed = make_log(2000, MEANS, (0.9, 0.1), seed=1)
    (doubt,) = replayed(skewed).warnings
    assert "No propensities are given" in doubt
    assert "give --propensity" in doubt
    assert replayed(skewed, propensity="propensity").warnings == []
    assert replayed(make_log(2000, MEANS, seed=1)).warnings == []
    of_others = skewed.with_columns(propensity=1 - skewed["propensity"])
    (doubt,) = replayed(of_others, propensity="propensity").warnings
    assert "The mean of 1 / propensity is" in doubt


def test_rows_of_a_unit_stay_together_in_the_bootstrap() -> None:
    log = make_log(4000, MEANS, seed=6)
    # every visitor is there ten times with the same outcome: ten rows are worth one
    repeated = pl.concat([log.head(400)] * 10).with_columns(
        visitor=pl.Series(list(range(400)) * 10)
    )
    alone = replayed(repeated, "exp3", estimators="all").policies[0].estimate("snips")
    together = replayed(repeated, "exp3", estimators="all", unit="visitor")
    wide = together.policies[0].estimate("snips")
    assert wide.value == pytest.approx(alone.value)
    assert wide.high - wide.low > 1.5 * (alone.high - alone.low)
