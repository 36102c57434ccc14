"""What several options have in common: percentages, and ``all`` in place of names."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from armrace import compilation, planning
from armrace.adversaries import ADVERSARIES
from armrace.cli import compare
from armrace.cli.compare import Request
from armrace.cli.main import run
from armrace.environments import Beta
from armrace.planning import Question
from armrace.policies import POLICIES
from armrace.simulation.scenarios import SCENARIOS

EVERY_ATTACK = [name for name in ADVERSARIES if name != "none"]
PLAN = ["plan", "--traffic", "1000", "--report"]


class Stopped(Exception):
    """Enough is known: nothing needs to be run."""


def asked(monkeypatch: pytest.MonkeyPatch, owner: Any, function: str, words: Sequence[str]) -> Any:
    """The first argument with which a command calls the function that does its work."""
    found = []

    def stop(first: Any, *others: Any, **named: Any) -> None:
        found.append(first)
        raise Stopped

    monkeypatch.setattr(owner, function, stop)
    with pytest.raises(Stopped):
        run(list(words))
    return found[0]


def question(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> Question:
    page = str(tmp_path / "plan.html")
    found: Question = asked(monkeypatch, planning, "answer", [*PLAN, page, *words])
    return found


def test_every_share_of_a_plan_may_be_a_percentage(monkeypatch, tmp_path):
    shares = ["--gap", "0.7%", "--forged", "0.3%", "--delta", "7%"]
    asked_by = question(monkeypatch, tmp_path, "--means", "5%, 0.7%", *shares)
    assert asked_by.means == (0.05, 0.007)
    assert (asked_by.gap, asked_by.forged, asked_by.delta) == (0.007, 0.003, 0.07)
    rates = question(
        monkeypatch, tmp_path, "--arms", "2", "--gap", "1%", "--base-rate", "2.9%"
    ).means
    assert rates == (0.029, 0.029 + 0.01)


def test_percentages_are_the_very_same_numbers(capsys):
    small = ["simulate", "multi-layer-race", "--horizon", "200", "--replications", "2"]
    summaries = []
    for means, delta in (("0.7%,0.9%", "0.7%"), ("0.007,0.009", "0.007")):
        assert run([*small, "--means", means, "--delta", delta, "--json", "-"]) == 0
        parsed = json.loads(capsys.readouterr().out)
        summaries.append([parsed["spec"], parsed["summary"]])
    assert summaries[0] == summaries[1]


def test_all_are_all_in_a_plan(monkeypatch, tmp_path):
    every = ["--means", "0.5,0.4", "--policies", "all", "--attacks", "all"]
    found = question(monkeypatch, tmp_path, *every)
    assert [policy.tag() for policy in found.policies] == list(POLICIES)
    assert [attack.tag() for attack in found.attacks] == EVERY_ATTACK


def test_the_policies_of_the_scenario_are_compared_unless_others_are_named(monkeypatch):
    first = next(iter(SCENARIOS.values()))
    found: Request = asked(monkeypatch, compare, "_compare", ["compare", "--no-report"])
    assert [policy["name"] for policy in found.policies] == list(first.policies)
    assert found.measure == "pseudo_regret"


def test_a_list_may_be_given_by_repeating_its_option(monkeypatch, tmp_path):
    words = [
        "compare", "--no-report", "--policies", "ucb1,exp3", "--policies", "moss,ucb1",
        "--means", "0.5", "--means", "0.4,30%", "--attack", "zero-best", "--attack", "swap-best",
        "--budget", "1", "--budget", "2,1",
    ]  # fmt: skip
    found: Request = asked(monkeypatch, compare, "_compare", words)
    assert [policy["name"] for policy in found.policies] == ["ucb1", "exp3", "moss"]
    assert found.scenario.environment.means == (0.5, 0.4, 0.3)
    assert [(each.adversary.tag(), each.budget) for each in found.scenarios] == [
        ("zero-best", 1.0), ("zero-best", 2.0), ("swap-best", 1.0), ("swap-best", 2.0),
    ]  # fmt: skip
    plan = [
        "--policies",
        "ucb1",
        "--policies",
        "exp3",
        "--attacks",
        "outage",
        "--attacks",
        "oracle",
    ]
    asked_by = question(monkeypatch, Path(), "--means", "0.5", "--means", "0.4", *plan)
    assert asked_by.means == (0.5, 0.4)
    assert [policy.tag() for policy in asked_by.policies] == ["ucb1", "exp3"]
    assert [attack.tag() for attack in asked_by.attacks] == ["outage", "oracle"]


def test_policies_of_a_comparison_take_parameters(monkeypatch):
    words = [
        "compare", "--no-report", "--policies", "sharp-race,exp3", "--set", "sharp-race.delta=0.01",
        "--set", "exp3.learning-rate=0.5",
    ]  # fmt: skip
    found: Request = asked(monkeypatch, compare, "_compare", words)
    assert found.policies == [
        {"name": "sharp-race", "delta": 0.01},
        {"name": "exp3", "learning_rate": 0.5},
    ]
    assert found.cells()[0][1].policy.learning_rate == 0.5
    command = shlex.split(found.command())
    again: Request = asked(monkeypatch, compare, "_compare", [*command[1:], "--no-report"])
    assert again.cells() == found.cells()


def test_a_comparison_takes_an_environment_and_a_measure(monkeypatch):
    words = [
        "compare", "--no-report", "--measure", "clean-regret", "--environment", "beta",
        "--environment-set", "alphas=4,2", "--environment-set", "betas=2,2",
    ]  # fmt: skip
    found: Request = asked(monkeypatch, compare, "_compare", words)
    assert found.scenario.environment == Beta(alphas=(4, 2), betas=(2, 2))
    assert found.measure == "clean_regret"
    command = shlex.split(found.command())
    again: Request = asked(monkeypatch, compare, "_compare", [*command[1:], "--no-report"])
    assert (again.cells(), again.measure) == (found.cells(), found.measure)


def test_lists_of_a_warm_up_may_be_given_by_repeating_their_options(monkeypatch):
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(compilation, "warm_up", lambda *lists, **_: calls.append(lists))
    repeated = ["--policies", "ucb1,moss", "--policies", "exp3", "--attacks", "none"]
    assert run(["warm-up", *repeated, "--attacks", "outage"]) == 0
    assert run(["warm-up"]) == run(["warm-up", "--policies", "all", "--attacks", "all"]) == 0
    everything = (list(POLICIES), list(ADVERSARIES))
    assert calls == [(["ucb1", "moss", "exp3"], ["none", "outage"]), everything, everything]
