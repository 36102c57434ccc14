"""The best arm under fraud: how often answers are wrong, with and without an allowance."""

import pytest

from armrace import identify
from armrace.errors import InvalidParameter

MEANS = [0.7, 0.5, 0.4]
SHARP = {"name": "enlarged-arm-elimination", "interval": "kl-jeffreys", "corruption": 0}


def found(policy, *attack, corruption=0.0, runs=60, **told):
    given = policy if isinstance(policy, dict) else {"name": policy}
    given = {**given, "corruption": corruption}
    return identify(given, MEANS, *attack, horizon=30_000, replications=runs, **told)


@pytest.mark.parametrize("policy", ["track-and-stop", SHARP], ids=str)
def test_without_an_attack_answers_are_right(policy):
    """At most 1 in 20 may be wrong: more than 9 of 60 would be with a probability below 0.003."""
    result = found(policy)
    assert result.wrong <= 0.15
    assert result.unfinished == 0.0
    assert result.best == 0
    assert result.wrong_interval[0] <= result.wrong <= result.wrong_interval[1]


@pytest.mark.parametrize("policy", ["track-and-stop", SHARP], ids=str)
@pytest.mark.parametrize("account", ["largest", "seen"])
def test_an_allowance_keeps_answers_right_and_without_it_they_are_wrong(policy, account):
    """Two thirds of the answers are wrong or more; of 60, fewer than 24 with less than 1e-4."""
    attack = "swap-best", 30.0
    fooled = found(policy, *attack, account=account)
    assert fooled.wrong >= 0.4
    told = found(policy, *attack, corruption=30.0, account=account)
    assert told.wrong <= 0.15
    assert told.unfinished == 0.0


def test_the_rounds_are_those_of_the_last_deletion():
    result = found(SHARP, runs=3)
    for stopped, answer in result.rows.select("stopped", "answer").iter_rows():
        assert 3 * 20 < stopped < 5000
        assert answer == 0


def test_a_run_without_an_answer_is_counted_as_unfinished():
    result = identify("track-and-stop", MEANS, horizon=10, replications=2)
    assert (result.unfinished, result.wrong, result.mean_rounds) == (1.0, 0.0, None)


def test_the_seed_decides():
    rows = [found("track-and-stop", runs=4, seed=seed).rows.rows() for seed in (1, 1, 2)]
    assert rows[0] == rows[1] != rows[2]


def test_a_policy_of_several_layers_is_refused():
    with pytest.raises(InvalidParameter, match="a single layer; got sharp-race"):
        identify("sharp-race", MEANS, horizon=1000, replications=1)
