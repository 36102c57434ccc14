"""Audits: honest runs raise no alarm, corrupted ones do, and certificates stay below the truth.

Error probabilities: an honest or certified run fails with probability at most its level; counts
are compared with the 99.9% quantile of the binomial at that level, over fixed seeds.
"""

import msgspec
import numpy as np
import pytest
from scipy.stats import binom

from armrace.audit import Audit, audit, watch
from armrace.audit.changes import exposure_of, failed_layers, race_in
from armrace.errors import InvalidParameter
from armrace.learner import Learner
from armrace.policies import POLICIES, MultiLayerRace, Ucb1
from armrace.policies.races.race import Race
from armrace.simulation import simulate
from playing import run

BETA = {"name": "beta", "alphas": [4, 0.2], "betas": [2, 0.2]}
HONEST = [
    ("multi-layer-race", [0.5, 0.4]),
    ("multi-layer-race", BETA),
    ("ucb1", [0.5, 0.4, 0.4]),
    ("best-of-all-worlds", [0.05, 0.03, 0.02]),
]
RUNS = 250


def most(runs, level):
    """More failures than this would be seen once in a thousand times."""
    return binom.ppf(0.999, runs, level)


@pytest.mark.parametrize(("policy", "environment"), HONEST)
def test_honest_runs_raise_no_more_alarms_than_the_level_allows(policy, environment):
    found = simulate(
        policy, environment, horizon=4000, replications=RUNS, seed=11, audit=0.05, progress=False
    ).audit_summary()
    assert found.alarmed <= most(RUNS, 0.05)
    assert found.exceeded <= most(RUNS, 0.05)


def state_after(policy, means, attack, budget, horizon):
    return run(policy, means, horizon, 4, adversary=attack, budget=budget, audit=0.05).policy


ATTACKS = [("swap-best", 60), ("swap-best", 600), ("click-bots", 600), ("sleeper-bots", 600)]


@pytest.mark.parametrize(("attack", "budget"), ATTACKS)
@pytest.mark.parametrize("policy", ["multi-layer-race", "ucb1"])
def test_certificates_stay_below_the_truth(policy, attack, budget):
    runs = 40
    found = simulate(
        policy, [0.5, 0.4], attack, budget, horizon=10_000, replications=runs, seed=5, audit=0.2,
        progress=False,
    ).audit_summary()  # fmt: skip
    assert found.exceeded <= most(runs, 0.2)
    if budget == 600 and attack != "click-bots":  # whose bursts of 20 rounds are hard to see
        assert found.alarmed == runs
        assert found.certificate.mean > budget / 20


def test_a_swap_that_ends_is_told_by_the_layers_and_by_time():
    found = audit(state_after("multi-layer-race", [0.5, 0.4], "swap-best", 1000, 30_000))
    assert found.kinds() == {"disagreement", "change", "failed-layer"}
    swapped = next(a for a in found.alarms if a.kind == "disagreement" and a.arm == 0)
    assert swapped.direction == "down"
    assert swapped.means[0] < 0.1
    assert swapped.means[1] > 0.4
    changed = next(a for a in found.alarms if a.kind == "change" and a.arm == 0)
    assert changed.direction == "up"
    assert 900 < changed.since < 1400
    assert 100 < found.certificate <= 1000
    assert "arm 0" in str(found)


def test_sleepers_are_found_when_they_wake_by_any_policy():
    found = audit(state_after("ucb1", [0.5, 0.4], "sleeper-bots", 1000, 50_000))
    assert found.kinds() == {"change"}
    alarm = found.alarms[0]
    assert alarm.direction == ("down" if alarm.arm == 0 else "up")
    assert 20_000 < alarm.since < 27_000  # as near as the marks of an arm that is hardly played


def test_bursts_that_come_back_are_told_as_waves():
    found = audit(state_after("ucb1", [0.5, 0.4], "click-bots", 1e4, 20_000))
    assert found.kinds() == {"waves"}
    (alarm,) = found.alarms
    assert alarm.arm == 0
    assert alarm.means[0] < alarm.means[1]
    assert alarm.since is None
    assert "comes in waves" in alarm.words


def race_of(pulls, sums):
    """A race in which two layers have seen this much of arm 0."""
    race = MultiLayerRace(delta=0.1).start(2, 1024)
    race.pulls[: len(pulls), 0] = pulls
    race.sums[: len(sums), 0] = sums
    race.rounds[0] = 2 * sum(pulls)
    return race


def test_layers_of_one_arm_that_disagree():
    """Half of 0.1 for 90 pairs; as in the comparison of two samples of 50."""
    found = audit(race_of([50, 50], [0.0, 50.0]), level=0.2)
    assert found.looked_at == ["layers"]
    assert found.arm_certificates == pytest.approx([26.138, 0.0], abs=0.01)
    assert found.certificate >= 26.13
    alarm, failed = found.alarms
    assert (alarm.kind, alarm.arm, alarm.layers, alarm.direction) == (
        "disagreement",
        0,
        (0, 1),
        "down",
    )
    assert failed.kind == "failed-layer"
    assert failed.layers == (1,)  # the second tolerates 4.16 over its share of 1/4, the third 33.3


def test_a_layer_fails_only_beyond_what_it_is_proven_to_tolerate():
    """Lemma 5: the first layer tolerates its allowance, 13.6, and not only one over its share."""
    race = race_of([], [])
    assert failed_layers(race, 3.0, 0.05) == []
    assert failed_layers(race, 13.6, 0.05) == []
    assert [alarm.layers for alarm in failed_layers(race, 13.7, 0.05)] == [(0,)]


def test_layers_that_were_shielded_certify_more_than_what_they_saw():
    """Layer 2 has an eighth of the rounds, so what it saw of the corruption is about an eighth."""
    found = audit(race_of([0, 0, 2000, 2000], [0, 0, 200.0, 1000.0]), level=0.2)
    assert found.arm_certificates[0] < 800 < found.certificate < 8 * 800


def test_names_of_arms_and_plain_data():
    found = audit(race_of([50, 50], [0.0, 50.0]), arms=["red", "green"])
    assert found.alarms[0].arm == "red"
    assert found.alarms[0].words.startswith(
        "Layers disagree on arm red: layer 0 saw it pay 0, the slower layer 1 sees 1"
    )
    plain = found.to_builtins()
    assert plain["alarms"][0]["words"] in plain["words"]
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(found)), Audit) == found


@pytest.mark.parametrize("level", [0, 1, -0.1, 5e-324, 1e-307, float("nan"), "much", None, True])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(InvalidParameter, match="level must be"):
        audit(race_of([50], [0.0]), level=level)


def test_what_cannot_be_audited_is_refused():
    bare = Ucb1().start(2, 100)
    with pytest.raises(InvalidParameter, match="a race of several layers or a state under watch"):
        audit(bare)
    assert audit(watch(bare, 2, 100)).alarms == []
    with pytest.raises(InvalidParameter, match="arms must name 2 arms; got 3"):
        audit(race_of([50], [0.0]), arms=["a", "b", "c"])


@pytest.mark.parametrize("name", POLICIES)
def test_a_wrong_number_of_arms_is_refused(name):
    state = POLICIES.make(name).start(23, 1000)
    assert watch(state, 23, 1000).pulls.size == 23
    for arms in (22, 24, 1):
        refused = f"arms must be the number of arms of the state; got {arms}, and nothing in this"
        with pytest.raises(InvalidParameter, match=refused):
            watch(state, arms, 1000)


def test_the_arms_of_a_race_are_not_taken_for_its_layers():
    state = POLICIES.make("multi-layer-race").start(3, 1000)
    layers = race_in(state).share.size
    assert layers != 3
    with pytest.raises(InvalidParameter, match=f"got {layers}, and nothing in this Race"):
        watch(state, layers, 1000)


@pytest.mark.parametrize(
    ("arms", "horizon", "words"),
    [
        (0, 100, "arms must be at least 1; got 0."),
        (-2, 100, "arms must be at least 1; got -2."),
        (2.0, 100, "arms must be a whole number; got 2.0."),
        (True, 100, "arms must be a whole number; got True."),
        (2, 0, "horizon must be in [1, 1e+15]; got 0."),
    ],
)
def test_what_cannot_be_watched_is_refused(arms, horizon, words):
    with pytest.raises(InvalidParameter) as refusal:
        watch(Ucb1().start(2, 100), arms, horizon)
    assert str(refusal.value) == words


def test_a_live_learner_names_its_own_arms():
    learner = Learner("ucb1", arms=["a", "b"], horizon=100)
    assert audit(learner).arms == ["a", "b"]
    with pytest.raises(InvalidParameter, match="a live learner has names for its arms"):
        audit(learner, arms=["x", "y", "z"])


def test_a_race_within_another_policy_is_found():
    state = state_after("best-of-all-worlds", [0.5, 0.4], "none", None, 1000)
    assert isinstance(state.inner.race, Race)
    assert audit(state).looked_at == ["layers", "time"]


def test_audits_are_kept_in_files(tmp_path):
    from armrace import load

    result = simulate(
        "ucb1",
        [0.5, 0.4],
        "swap-best",
        300,
        horizon=3000,
        replications=3,
        audit=0.1,
        progress=False,
    )
    result.save(tmp_path / "audited.parquet")
    loaded = load(tmp_path / "audited.parquet")
    assert loaded.audits == result.audits
    assert loaded.to_builtins()["audit"] == result.to_builtins()["audit"]
    again = simulate(**result.spec, progress=False)
    assert again.audits == result.audits


def test_chances_are_those_of_the_whole_audit():
    """At the level of its chance an alarm is on the edge, whichever test raised it."""
    state = state_after("multi-layer-race", [0.5, 0.4], "swap-best", 40, 5000)
    found = [a for a in audit(state, level=0.9).alarms if a.kind != "failed-layer"]
    assert found
    for alarm in found:
        assert np.isfinite(alarm.chance)
        kept = audit(state, level=max(1.01 * alarm.chance, 1e-300)).alarms
        assert any((a.kind, a.arm) == (alarm.kind, alarm.arm) for a in kept)


def test_what_a_layer_meets_of_a_corruption_that_it_is_made_for_is_its_allowance():
    """Ten layers at 0.1, two rates: a = ln(2 x 10 / 0.1), for which 5.74452 is known."""
    exposure = exposure_of(race_of([50], [0.0]), 0.1)
    layer = 4  # a share of 1/32
    assert exposure.most(layer, 32.0) == pytest.approx(5.74452, abs=1e-5)
    assert exposure.most(layer, 2.0) == 2.0
    much = exposure.most(layer, 3.2e5)
    assert much == pytest.approx((np.expm1(0.25) * 1e4 + np.log(200)) / 0.25)


def arrays_of(state):
    """The arrays within a state, records field by field."""
    for member in state if isinstance(state, tuple) else ():
        if isinstance(member, np.ndarray):
            yield from (member[field] for field in member.dtype.names or ())
            if member.dtype.names is None:
                yield member
        yield from arrays_of(member)


STRANGE = {
    "i": [-(2**62), -1, 0, 1, 7, 16, 10**6, 2**62],
    "f": [np.nan, np.inf, -np.inf, -1.0, 1e300],
    "b": [False, True],
}


@pytest.mark.parametrize("policy", [MultiLayerRace(), Ucb1()], ids=["race", "ucb1"])
def test_states_with_strange_values_are_audited_without_an_error(policy):
    coins = np.random.default_rng(3)
    for _ in range(200):
        state = watch(policy.start(3, 2000), 3, 2000)
        state.pulls[:], state.assigned[:], state.sums[:] = 200, 210, 50
        state.marks.reached[:], state.blocks.ends[:, :2] = 5, 64
        arrays = [array for array in arrays_of(state) if array.size]
        for index in coins.integers(len(arrays), size=3):
            array = arrays[index]
            strange = STRANGE[array.dtype.kind]
            array[tuple(coins.integers(array.shape))] = strange[coins.integers(len(strange))]
        found = audit(state, level=0.3)
        assert str(found)
        assert not np.isnan(found.certificate)
