"""Real data: the sample of the Open Bandit Dataset inside the wheel of ``obp``.

The wheel is read with ``zipfile``; nothing of it is installed or imported. With 38 to 69 clicks in
10,000 rows and 34 to 80 arms, such a log can hardly show anything, and replay must say so.
"""

import io
import subprocess
import sys
import zipfile
from itertools import combinations

import polars as pl
import pytest

import armrace
from armrace.contexts import Category
from armrace.offline import suggest_schema
from armrace.offline.readers import sample_path
from armrace.planning import make_question, weigh_contexts

CLICKS = {
    ("random", "all"): 38,
    ("random", "men"): 46,
    ("random", "women"): 46,
    ("bts", "all"): 42,
    ("bts", "men"): 69,
    ("bts", "women"): 46,
}
COLUMNS = {
    "arm": "item_id",
    "reward": "click",
    "propensity": "propensity_score",
    "time": "timestamp",
}


each_campaign = pytest.mark.parametrize(
    "campaign", ["men", *(pytest.param(each, marks=pytest.mark.long) for each in ("all", "women"))]
)
FEATURES = [f"user_feature_{number}" for number in range(4)]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("obp")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input"]
    done = subprocess.run(
        [*command, "--dest", str(folder), "obp==0.4.1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def log_of(wheel: zipfile.ZipFile, logging: str, campaign: str) -> pl.DataFrame:
    name = f"obp/dataset/obd/{logging}/{campaign}/{campaign}.csv"
    return pl.read_csv(io.BytesIO(wheel.read(name)), infer_schema=False)


@pytest.mark.parametrize(("logging", "campaign"), CLICKS)
def test_every_file_is_read_whole(wheel, logging, campaign) -> None:
    log = armrace.open_log(log_of(wheel, logging, campaign), COLUMNS)
    assert log.rows == log.report.rows == 10_000
    assert log.totals.sum() == CLICKS[logging, campaign]
    assert len(log.arms) == {"all": 80, "men": 34, "women": 46}[campaign]
    assert 6.9 < log.days < 7.0


@each_campaign
def test_estimators_agree_with_each_other_and_claim_nothing(wheel, campaign) -> None:
    """All intervals of one policy overlap; each is wrong with a probability of at most 5%."""
    found = armrace.replay(
        log_of(wheel, "random", campaign), ["tsallis-inf", "ucb1"], columns=COLUMNS, seed=1
    )
    assert found.warnings == []
    assert {each.verdict for each in found.policies} <= {"not enough data", "undecided"}
    for each in found.policies:
        assert not each.estimate("replay").is_enough
        for one, other in combinations(each.estimates, 2):
            assert max(one.low, other.low) <= min(one.high, other.high)
        # The log's own mean is in reach of all: nothing here shows that a policy does better.
        assert each.gain.low < 0 < each.gain.high


@each_campaign
def test_a_log_of_tiny_propensities_accepts_no_rows(wheel, campaign) -> None:
    """The Thompson sampler of the shop showed some items with a propensity below 1 in 5,000."""
    log = log_of(wheel, "bts", campaign)
    found = armrace.replay(log, ["tsallis-inf"], columns=COLUMNS, replications=2)
    (each,) = found.policies
    assert each.rounds < 10
    assert not each.estimate("replay").is_enough
    assert each.verdict in ("not enough data", "undecided")
    floored = armrace.replay(log, ["tsallis-inf"], columns=COLUMNS, replications=2, floor=0.01)
    assert floored.policies[0].rounds > 20
    assert any("trades bias for variance" in each for each in floored.warnings)


@pytest.mark.parametrize(("logging", "campaign"), CLICKS)
def test_features_of_users_are_suggested_and_no_leaves(wheel, logging, campaign) -> None:
    """No leaf but the largest has 100 rows of its best item; the schema is read by the log."""
    log = log_of(wheel, logging, campaign)
    found = suggest_schema(log, COLUMNS, features=FEATURES)
    assert list(found.schema.features) == FEATURES
    assert {type(each) for each in found.schema.features.values()} == {Category}
    assert found.schema.leaves == {}
    assert "No leaves are proposed: each needs 100 effective rows" in found.notes[-1]
    assert found.leaves.needed > 20_000
    assert armrace.open_log(log, COLUMNS, schema=found.schema).rows == 10_000


def test_a_plan_says_that_contexts_do_not_pay(wheel) -> None:
    log = log_of(wheel, "random", "women")
    schema = suggest_schema(log, COLUMNS, features=FEATURES).schema
    opened = armrace.open_log(log, COLUMNS, schema=schema)
    question = make_question(
        tuple(opened.rates.tolist()), traffic=opened.rows, days=1, policies=["ucb1"], replications=3
    )
    found = weigh_contexts(opened, question, progress=False)
    assert found.kept < 0.2
    assert not (found.is_clear and found.earned > 0)
    assert found.sentences[-1].endswith("leave them out.")


def test_the_sample_of_the_package_is_the_beginning_of_a_file(wheel) -> None:
    whole = armrace.open_log(log_of(wheel, "random", "men").head(5000), COLUMNS)
    sample = armrace.open_log("sample:open-bandit", COLUMNS)
    features = log_of(wheel, "random", "men").head(5000).select(FEATURES)
    shortened = features.select(pl.all().str.slice(0, 6))
    assert shortened.equals(pl.read_csv(sample_path("open-bandit"), infer_schema=False)[FEATURES])
    (one,), (other,) = whole.batches(), sample.batches()
    assert (one.arms == other.arms).all()
    assert (one.rewards == other.rewards).all()
    assert (one.propensities == other.propensities).all()


def test_the_scenario_has_the_rates_of_the_data(wheel) -> None:
    """Each with 1,000 more impressions of the mean rate, rounded to four digits."""
    rows = pl.concat([log_of(wheel, logging, "men") for logging in ("random", "bts")])
    clicks = rows.with_columns(pl.col("item_id").cast(pl.Int64), pl.col("click").cast(pl.Float64))
    mean = clicks["click"].mean()
    rates = clicks.group_by("item_id").agg(
        rate=(pl.col("click").sum() + 1000 * mean) / (pl.len() + 1000)
    )
    scenario = armrace.simulation.SCENARIOS["open-bandit"]
    assert scenario.environment.means == pytest.approx(rates.sort("item_id")["rate"], abs=5e-5)
