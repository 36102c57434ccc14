"""Experiments: what is refused, when the ledger is read, and running one again from its file."""

import numpy as np
import pytest

import armrace
from armrace.environments import Bernoulli, Environment, Table
from armrace.errors import ArmraceError, InvalidParameter, UnknownName
from armrace.kernels import laws
from armrace.policies import Ucb1
from armrace.simulation.experiment import checkpoints_for, make_experiment

SMALL = {"policy": "ucb1", "environment": [0.5, 0.4], "horizon": 10, "replications": 1}

REFUSALS = [
    ({"environment": [0.5]}, "means must name at least 2 arms; got 1."),
    ({"environment": []}, "means must name at least 2 arms; got 0."),
    ({"environment": 0.5}, "environment must be an environment or a list of means"),
    ({"environment": [0.5, 1.2]}, "each of means must be in [0, 1]; got 1.2."),
    ({"environment": [0.5, float("nan")]}, "each of means must be finite; got nan."),
    ({"environment": ["a", "b"]}, "environment must be an environment or a list of means."),
    ({"environment": [0.5 + 1j, 0.4]}, "environment must be an environment or a list of means."),
    (
        {"environment": np.ma.array([0.5, 0.4], mask=[True, False])},
        "environment must be an environment or a list of means.",
    ),
    ({"horizon": 0}, "horizon must be in [1, 1e+15]; got 0."),
    ({"horizon": 1e30}, "horizon must be in [1, 1e+15]; got 1e+30."),
    ({"horizon": 1.5}, "horizon must be a whole number; got 1.5."),
    ({"horizon": float("nan")}, "horizon must be a whole number; got nan."),
    ({"horizon": "many"}, "horizon must be a whole number; got 'many'."),
    ({"horizon": True}, "horizon must be a whole number; got True."),
    ({"budget": -1}, "budget must be at least 0; got -1."),
    ({"budget": float("nan")}, "budget must be finite; got nan."),
    ({"budget": float("inf")}, "budget must be finite; got inf."),
    ({"replications": 0}, "replications must be in [1, 4.29497e+09]; got 0."),
    ({"seed": -1}, "seed must be in [0, 9.22337e+18]; got -1."),
    ({"seed": 0.5}, "seed must be a whole number; got 0.5."),
    ({"policy": {"name": "ucb1", "colour": 1}}, "ucb1 has no parameter 'colour'; its parameters"),
    (
        {"policy": {"name": "exp3", "learning_rate": "much"}},
        "learning_rate must be a number; got 'much'.",
    ),
    (
        {"adversary": {"name": "swap-best", "decoy": 2}, "budget": 1},
        "decoy must be an arm in [0, 1]; got 2.",
    ),
    (
        {"adversary": {"name": "swap-best", "decoy": 0}, "budget": 1},
        "decoy must not be the best arm; got 0.",
    ),
    ({"adversary": "zero-best"}, "zero-best needs a budget, the most that it may spend."),
]


class Own(Environment, frozen=True, tag="own-coins"):
    """An environment whose parts are as given."""

    means: list
    parts: dict | None = None
    rewards: list | None = None

    def mean_rewards(self, horizon):
        return np.array(self.means)

    def support(self):
        return None if self.rewards is None else np.array(self.rewards)

    def law(self):
        arrays = {name: np.array(part) for name, part in (self.parts or {}).items()}
        kind = arrays.pop("kind", laws.BERNOULLI)
        return laws.make_law(kind, 2, 0.5)._replace(**arrays)


MISFITS = [
    (Own([0.5]), "mean_rewards of own-coins must have an entry for each of its 2 arms; got 1."),
    (Own([0.5, np.nan]), "mean_rewards of own-coins must be finite; got [0.5, nan]."),
    (Own([0.5] * 2, {"first": [0.5]}), "first of own-coins must have an entry for each of its 2"),
    (Own([0.5] * 2, {"kind": 99}), "the law of own-coins cannot be drawn: the kind of a law must"),
    (Own([0.5] * 2, rewards=[[0, 1]]), "support of own-coins must have an entry for each of"),
    (
        Own([0.5] * 2, {"kind": laws.TABLE, "table": np.zeros((9, 2))}),
        "horizon must be at most the 9 rounds in the table of own-coins; got 10.",
    ),
    (
        Own([0.5] * 2, {"kind": laws.TABLE, "table": np.zeros((10, 3))}),
        "each row of the table of own-coins must have an entry for each of its 2 arms; got 3.",
    ),
    (
        Own([0.5] * 2, {"kind": laws.FINITE, "values": np.zeros((1, 3))}),
        "values of own-coins must have an entry for each of its 2 arms; got 1.",
    ),
]


@pytest.mark.parametrize(
    ("environment", "sentence"), MISFITS, ids=[each[1][:30] for each in MISFITS]
)
def test_an_environment_whose_parts_do_not_fit_is_refused(environment, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        make_experiment(**{**SMALL, "environment": environment})
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(("change", "sentence"), REFUSALS, ids=str)
def test_bad_input_is_refused_in_one_sentence(change, sentence):
    with pytest.raises(InvalidParameter) as refusal:
        make_experiment(**{**SMALL, **change})
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"policy": "ubc1"}, "there is no policy named 'ubc1'; did you mean 'ucb1'?"),
        ({"adversary": "zero"}, "there is no attack named 'zero'; "),
        ({"environment": {"name": "bernouli"}}, "there is no environment named 'bernouli'; did"),
    ],
    ids=str,
)
def test_an_unknown_name_is_refused_with_the_nearest(change, sentence):
    with pytest.raises(UnknownName) as refusal:
        make_experiment(**{**SMALL, **change})
    assert str(refusal.value).startswith(sentence)


@pytest.mark.parametrize(
    "change",
    [
        {"environment": [[0.5, 0.4], [0.1, 0.2]]},
        {"policy": None},
        {"policy": Ucb1},
        {"policy": ["ucb1"]},
        {"policy": armrace.ADVERSARIES["zero-best"]()},
        {"adversary": Ucb1()},
        {"horizon": 10**400},
        {"seed": 10**400},
    ],
    ids=lambda change: str(change)[:60],
)
def test_input_of_the_wrong_kind_is_refused_by_an_error_of_ours(change):
    with pytest.raises(ArmraceError):
        make_experiment(**{**SMALL, **change})


@pytest.mark.parametrize(
    "change",
    [
        {"horizon": np.int64(10)},
        {"replications": np.int32(1)},
        {"seed": np.int64(7)},
        {"budget": np.float64(2.5)},
        {"environment": np.array([0.5, 0.4])},
        {"environment": Bernoulli(means=tuple(np.array([0.5, 0.4])))},
        {"policy": {"name": "exp3", "learning_rate": np.float64(0.1)}},
    ],
    ids=str,
)
def test_numbers_of_numpy_are_numbers(change):
    data = make_experiment(**{**SMALL, **change}).to_builtins()
    again = make_experiment(**{key: value for key, value in data.items() if key != "name"})
    assert again.to_builtins() == data


def test_a_whole_float_is_a_horizon():
    assert make_experiment(**{**SMALL, "horizon": 1e6}).horizon == 1_000_000


def test_a_table_too_short_for_the_horizon_is_refused():
    table = Table(rewards=np.full((9, 2), 0.5))
    with pytest.raises(InvalidParameter, match=r"^horizon must be at most the table's 9 rounds"):
        make_experiment(**{**SMALL, "environment": table})


def test_checkpoints_rise_from_1_to_the_horizon():
    for horizon in (1, 2, 9, 10, 11, 99, 100, 1000, 12345, 10**7, 10**15):
        points = checkpoints_for(horizon)
        assert (points[0], points[-1]) == (1, horizon)
        assert np.all(np.diff(points) > 0)


def test_checkpoints_are_log_spaced_eight_a_decade():
    points = checkpoints_for(10**6)
    assert points.size == 49 - 2  # 1 and 1.33 round to the same, and so do 1.78 and 2.37
    assert points[points >= 10].size == 41
    ratios = points[points > 100][1:] / points[points > 100][:-1]
    assert np.all(np.abs(ratios / 10**0.125 - 1) < 0.01)


def test_an_experiment_is_specified_without_a_simulation(monkeypatch):
    from armrace.adversaries import lower_bound_switch

    def refuse(*arguments):
        raise AssertionError("the policy was simulated")

    monkeypatch.setattr(lower_bound_switch, "plays_in_rehearsal", refuse)
    made = make_experiment(
        policy="ucb1",
        environment=[0.6, 0.4],
        adversary="lower-bound-switch",
        budget=1e5,
        horizon=10**6,
    )
    with pytest.raises(AssertionError, match="was simulated"):
        made.adversary.start(made.setting())
