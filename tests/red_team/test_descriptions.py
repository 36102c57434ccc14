"""Attacks in words, and commands that replay them."""

import shlex

import pytest

from armrace.adversaries import Strip, TwoPhase
from armrace.cli.arguments import make_policy
from armrace.policies import POLICIES
from armrace.red_team.verdict import describe, replay_command
from armrace.simulation.experiment import make_experiment


def words_of(policy, environment, horizon=3):
    experiment = make_experiment(
        policy=policy,
        environment=environment,
        adversary=TwoPhase(),
        budget=2.0,
        horizon=horizon,
        replications=1,
        seed=0,
    )
    return shlex.split(replay_command(experiment))


def options(words, name):
    return [words[place + 1] for place, word in enumerate(words) if word == name]


@pytest.mark.parametrize(
    "policy",
    [
        "guarded",
        {"name": "guarded", "base": "thompson", "share": 3},
        {"name": "guarded", "base": {"name": "tsallis-inf", "estimator": "iw"}},
        {"name": "optimistic-log-barrier", "optimism": 0.1},
        "ucb1",
    ],
)
def test_the_command_names_the_policy_with_its_parameters(policy):
    words = words_of(policy, [0.4, 0.6])
    again = make_policy(words[2], options(words, "--set"), None)
    assert again.to_builtins() == POLICIES.make(policy).to_builtins()


def test_three_phases_and_their_conditions_in_words():
    attack = TwoPhase(
        split=0.5,
        second="double-impact",
        second_strength=0.25,
        second_split=0.5,
        third="spoil",
        third_pays=0.5,
        decoy="all",
    )
    assert describe(attack) == (
        "With the first 50% of the budget it shows 0 on the best arm. With the next 25% it shows 0 "
        "on the best arm and 1 on all others, when all are large changes, each reward moved by 25% "
        "of the way. With the rest it shows 0 on all arms, while the best arm would pay 0.5 or "
        "more."
    )
    assert describe(Strip(edge=0.2)) == (
        "It shows 0 on the best arm and 1 on all others, while the best arm would pay 0.5 or more "
        "and the best arm has a probability of at least 0.2."
    )
