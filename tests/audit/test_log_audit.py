"""The audit of a log that another system made."""

import numpy as np
import polars as pl

from armrace.audit.findings import MOVED
from armrace.audit.log_audit import audit_log
from armrace.offline import open_log
from armrace.statistics import binomial_tail
from replay_reference import make_log

MEANS = (0.05, 0.3)


def opened(frame):
    return open_log(frame, arm="arm", reward="reward", source="net")


def with_sources(log, seed=0):
    names = np.random.default_rng(seed).choice(["a", "b", "c", "d"], log.height)
    return log.with_columns(net=pl.Series(names))


def test_the_source_that_forges_is_named_and_no_other() -> None:
    log = with_sources(make_log(6000, MEANS, seed=1))
    forged = log.with_columns(
        reward=pl.when((pl.col("net") == "c") & (pl.col("arm") == 0))
        .then(1.0)
        .otherwise(pl.col("reward"))
    )
    found = audit_log(opened(forged))
    assert f"<strong>Audit of {found.log}: alarm</strong>" in found._repr_html_()
    (alarm,) = found.sources
    assert (alarm.source, alarm.arm, alarm.mean) == ("c", "0", 1.0)
    assert alarm.other_mean < 0.1
    assert found.alarmed
    assert "Source c pays 1 on arm 0" in str(found)
    assert "below 1e-12" in alarm.words
    assert MOVED in alarm.words
    assert found.to_builtins()["sources"][0]["words"] == alarm.words


def test_honest_logs_raise_no_alarm() -> None:
    """At level 0.2, at most a fifth of 60 logs; more than that with probability below 1e-6."""
    alarmed = sum(
        audit_log(opened(with_sources(make_log(800, MEANS, seed=seed), seed)), 0.2).alarmed
        for seed in range(60)
    )
    assert binomial_tail(alarmed, 60, 0.2) > 1e-6


def test_rewards_of_another_range_are_named_as_they_are() -> None:
    log = with_sources(make_log(4000, MEANS, seed=1))
    stars = log.with_columns(
        reward=pl.when(pl.col("net") == "a").then(5.0).otherwise(1 + 4 * pl.col("reward"))
    )
    log = open_log(stars, arm="arm", reward="reward", source="net", rewards=(1, 5))
    assert {alarm.mean for alarm in audit_log(log).sources} == {5.0}
