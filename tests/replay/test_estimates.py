"""The estimates of replay against a plain implementation, known truth and exact probabilities."""

import json

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.errors import UnwritableOutput
from armrace.statistics import binomial_tail
from armrace.statistics.bounded_means import bernstein_interval
from replay_reference import make_log, replay_by_hand

COLUMNS = {"arm": "arm", "reward": "reward", "propensity": "propensity"}
MEANS = (0.2, 0.6, 0.5)
SKEWED = (0.5, 0.2, 0.3)
RARE = 1e-6
"""The probability with which each statistical test below may fail by chance."""


def replayed(log, policy, **options):
    options = {"columns": COLUMNS, "replications": 1, "workers": 1, **options}
    return armrace.replay(log, [policy], **options)


@pytest.mark.parametrize(
    "policy", ["exp3", "sharp-race", pytest.param("ucb1", marks=pytest.mark.long)]
)
@pytest.mark.parametrize("logging", [None, SKEWED], ids=["uniform", "skewed"])
def test_compiled_loop_is_the_definition(policy, logging) -> None:
    log = make_log(600, MEANS, logging, seed=3)
    found = replayed(log, policy, seed=4)
    (each,) = found.policies
    truth = replay_by_hand(log, policy, 3, each.horizon, MEANS, seed=4)
    assert each.rounds == truth.accepted
    assert each.shares == pytest.approx(truth.pulls / truth.accepted)
    expected = {
        "replay": truth.replayed,
        "ips": truth.weighted,
        "snips": truth.self_normalised,
        "dr": truth.doubly_robust,
    }
    assert {e.estimator: e.value for e in each.estimates} == pytest.approx(expected, abs=1e-9)


def test_floor_accepts_more_rows_as_the_definition_says() -> None:
    log = make_log(800, MEANS, (0.6, 0.05, 0.35), seed=5)
    raised = replayed(log, "exp3", seed=1, floor=0.3)
    truth = replay_by_hand(log, "exp3", 3, raised.policies[0].horizon, MEANS, floor=0.3, seed=1)
    assert raised.policies[0].rounds == truth.accepted
    assert raised.policies[0].estimate("ips").value == pytest.approx(truth.weighted)
    assert raised.policies[0].rounds > 1.3 * replayed(log, "exp3").policies[0].rounds
    assert any("Propensities below 0.3" in each for each in raised.warnings)


@pytest.mark.parametrize(
    "logging",
    [pytest.param(None, id="uniform", marks=pytest.mark.long), pytest.param(SKEWED, id="skewed")],
)
def test_rejection_replay_is_a_live_run_in_law(logging) -> None:
    """Its mean over many logs is that of simulated runs; wrong with probability below 1e-6."""
    logs, rows = 200, 1500
    values, rounds = [], []
    for seed in range(logs):
        found = replayed(
            make_log(rows, MEANS, logging, seed),
            "exp3",
            seed=seed,
            horizon=300,
            estimators="replay",
        )
        values.append(found.policies[0].estimates[0].value)
        rounds.append(found.policies[0].rounds)
    live = armrace.simulate(
        "exp3", [*MEANS], horizon=round(np.mean(rounds)), replications=4000, seed=9
    )
    earned = max(MEANS) - live.figure("pseudo_regret").mean / live.horizon
    # The policies plan for 300 rounds in both, and play as many up to chance.
    error = np.std(values) / np.sqrt(logs) + live.figure("pseudo_regret").stderr / live.horizon
    assert abs(np.mean(values) - earned) < 4.9 * error
    assert error < 0.005
    assert earned > np.mean(MEANS) + 0.03  # it has learned, which the log's own mean has not


@pytest.fixture(scope="module")
def runs():
    """Estimates of a learner on 100 skewed logs, with what each should have found."""
    found = []
    for seed in range(100):
        log = make_log(300, MEANS, SKEWED, seed)
        each = replayed(log, "tsallis-inf", seed=seed).policies[0]
        truth = replay_by_hand(log, "tsallis-inf", 3, each.horizon, MEANS, seed=seed)
        found.append((each, truth))
    return found


@pytest.mark.parametrize("estimator", ["ips", "dr"])
def test_weighted_estimates_are_unbiased(runs, estimator) -> None:
    """The mean error of 100 runs is 0; wrong with a probability of about 1e-6 (4.9 sigma)."""
    errors = np.array([each.estimate(estimator).value - truth.value for each, truth in runs])
    assert abs(errors.mean()) < 4.9 * errors.std() / np.sqrt(errors.size)


def test_doubly_robust_varies_less(runs) -> None:
    spread = {
        name: np.std([each.estimate(name).value - truth.value for each, truth in runs])
        for name in ("ips", "snips", "dr")
    }
    assert spread["dr"] < 0.8 * spread["ips"]
    assert spread["snips"] < spread["ips"]


@pytest.mark.parametrize("estimator", ["replay", "ips", "dr", "snips"])
def test_intervals_cover_what_they_should(runs, estimator) -> None:
    """At most 5% are missed; more are seen with probability below 1e-6 if that holds.

    The bootstrap is approximate, and judged at 10%.
    """
    missed = 0
    for each, truth in runs:
        goal = truth.value
        if estimator == "replay":
            goal = float(truth.pulls @ np.array(MEANS)) / truth.accepted
        estimate = each.estimate(estimator)
        missed += not estimate.low <= goal <= estimate.high
    assert binomial_tail(missed, len(runs), 0.1 if estimator == "snips" else 0.05) > RARE


def test_exact_interval_holds_for_every_dependence_and_is_not_vacuous() -> None:
    """Terms whose means depend on the past; a miss has a probability of at most 5%."""
    generator = np.random.default_rng(2)
    missed, widths = 0, []
    for _ in range(1000):
        means, total, squares, mean = 0.0, 0.0, 0.0, 0.1
        for term in range(200):
            value = float(generator.random() < mean)
            squares += (value - (total + 0.5) / (term + 1)) ** 2
            means += mean
            total += value
            mean = 0.3 if value else 0.1
        low, high = bernstein_interval(total, squares, 200, 1.0, 1.0)
        missed += not low <= means / 200 <= high
        widths.append(high - low)
    assert binomial_tail(missed, 1000, 0.05) > RARE
    assert np.mean(widths) < 4.5 * 2 * np.sqrt(0.12 * 0.88 / 200)


def test_doubly_robust_stands_wrong_propensities() -> None:
    """Propensities that are half of the truth double the weights."""
    log = make_log(20_000, MEANS, seed=8)
    wrong = log.with_columns(propensity=log["propensity"] / 2)
    right, each = replayed(log, "ucb1").policies[0], replayed(wrong, "ucb1").policies[0]
    assert each.estimate("ips").value > 1.8 * right.estimate("ips").value
    assert each.estimate("dr").value == pytest.approx(right.estimate("dr").value, abs=0.03)


def test_verdicts_on_a_log_that_can_tell() -> None:
    # always the worst arm but for one row in ten: any learner earns more
    log = make_log(40_000, (0.1, 0.6), (0.9, 0.1), seed=1)
    found = replayed(log, "ucb1", replications=2)
    assert found.policies[0].verdict == "better"
    assert found.policies[0].gain.low > 0.1
    assert "earns more than the log" in str(found)
    # always the best arm: a learner can only explore
    worse = replayed(make_log(40_000, (0.9, 0.1), (0.97, 0.03), seed=1), "sharp-race")
    assert worse.policies[0].verdict == "worse"


def test_the_harm_of_a_forged_row_is_said_as_it_is() -> None:
    """One more reward of 1, in the row with the largest weight, of a policy that plays one arm."""
    log = make_log(1000, (0.5, 0.5), (0.2, 0.8), seed=1)
    row = int((log["arm"] == 0).to_numpy().nonzero()[0][-1])
    without, forged = (
        replayed(log.with_columns(pl.when(pl.int_range(1000) == row).then(paid)
                                  .otherwise("reward").alias("reward")), "ucb1")
        for paid in (0.0, 1.0)
    )  # fmt: skip
    # 1,000 rows, of which a fifth becomes rounds.
    assert "can move an estimate by 0.005," in forged.setting()
    estimates = [found.policies[0].estimate("ips").value for found in (without, forged)]
    assert 0.0 <= estimates[1] - estimates[0] <= 0.005 + 1e-12


def test_result_as_table_file_and_page(tmp_path) -> None:
    found = replayed(make_log(2000, MEANS, seed=1), "ucb1")
    assert found.table["estimator"].to_list() == ["replay", "ips", "snips", "dr"]
    assert found.table["value"].to_list() == [e.value for e in found.policies[0].estimates]
    found.save(tmp_path / "replay.json")
    assert json.loads((tmp_path / "replay.json").read_text()) == json.loads(
        json.dumps(found.to_builtins())
    )
    with pytest.raises(UnwritableOutput, match="or overwrite=True"):
        found.save(tmp_path / "replay.json")
    found.save(tmp_path / "replay.json", overwrite=True)
    found.report(tmp_path / "replay.html")
    assert "Policies beside the log" in (tmp_path / "replay.html").read_text()
    rows, rounds, mean = found.policies[0].curve[-1]
    assert (rows, rounds) == (2000, found.policies[0].rounds)
    assert mean == pytest.approx(found.policies[0].estimate("replay").value)


def test_same_seed_same_figures_for_any_number_of_workers() -> None:
    log = make_log(3000, MEANS, seed=1)
    options = {"replications": 4, "attack": "zero-best", "budget": 20.0}
    one, many = (replayed(log, "exp3", workers=w, **options) for w in (1, 4))
    assert one.to_builtins() == many.to_builtins()
    assert replayed(log, "exp3", seed=1, **options).to_builtins() != one.to_builtins()
