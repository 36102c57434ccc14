"""The tables of proved bounds say what the functions return."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from armrace.planning import make_question
from armrace.planning.plans import VACUOUS, _proven_for, proven_loss
from armrace.policies import POLICIES
from armrace.simulation.scenarios import find_scenario
from armrace.theory import barrier_regret, gaps_of
from docs.conftest import load_script

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("script", ["sharpening", "guarding"])
def test_the_table_of_bounds_is_what_the_script_prints(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    load_script(script).print_bounds()
    assert capsys.readouterr().out in (DOCS / "theory.md").read_text(encoding="utf-8")


ADS = [0.06, 0.05, 0.04, 0.03, 0.02]


ANSWERS = find_scenario("helpful-answers")


def proven(tag: str) -> list[str]:
    """What a policy is proven to lose on the ad server's scale, without and with an attack."""
    return [proven_loss(POLICIES.make(tag), ADS, 200_000, c) for c in (0.0, 1000.0)]


def proven_of_answers(tag: str) -> list[str]:
    """The same in the scenario with which a newcomer begins."""
    means = ANSWERS.environment.to_builtins()["means"]
    policy, rounds = POLICIES.make(tag), ANSWERS.horizon
    return [proven_loss(policy, means, rounds, c) for c in (0.0, ANSWERS.budget)]


def rows(page: str, heading: str) -> dict[str, str]:
    """The last cell of each row of the first table below a heading, by the first policy named."""
    below = (DOCS.parent / page).read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    lines = below[below.index("\n|") + 1 :].split("\n\n")[0].splitlines()[2:]
    return {line.split("`")[1]: line.strip("|").split("|")[-1] for line in lines if "`" in line}


@pytest.mark.parametrize(
    ("page", "heading", "bounds"),
    [
        ("README.md", "## Which policy", proven_of_answers),
        ("docs/guide/choose-a-policy.md", "## One recommendation for each situation", proven),
    ],
)
def test_what_is_proven_stands_beside_each_recommendation(
    page: str, heading: str, bounds: Callable[[str], list[str]]
) -> None:
    found = rows(page, heading)
    assert len(found) >= 5
    for tag, cell in found.items():
        quiet, attacked = bounds(tag)
        said = quiet if quiet == attacked else f"{quiet} / {attacked}"
        assert cell.strip().split(": ")[-1] == said


def test_the_guide_to_planning_quotes_what_a_plan_says() -> None:
    question = make_question(
        [0.05, 0.045, 0.04, 0.04, 0.035, 0.03],
        traffic=200_000,
        days=5,
        forged_clicks=0.0024,
        policies=["optimistic-log-barrier", "sharp-race"],
    )
    said = _proven_for(question, {"policy": "optimistic-log-barrier"})
    page = " ".join((DOCS / "guide" / "planning.md").read_text(encoding="utf-8").split())
    assert said in page
    race = question.learners()["sharp-race"]
    assert proven_loss(race, question.means, question.horizon, question.suspected) == VACUOUS


BARRIER = ((0.0, 0), (0.1, 0), (0.5, 0), (0.5, 100), (0.5, 1000), (0.5, 10_000))
"""Optimism and corruption of the columns of the barrier's tables."""


def test_the_tables_of_the_barrier_are_what_the_function_returns() -> None:
    page = (DOCS / "theory.md").read_text(encoding="utf-8")
    section = page.split("### What the barrier's bound says")[1].split("\n### ")[0]
    compared = 0
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        equal = re.match(r"(\d+), ([\d.]+), \$10\^(\d)\$", cells[0])
        rates = re.match(r"(\d%.*); ([\d,]+)", cells[0])
        if equal:
            arms, gap, horizon = int(equal[1]), float(equal[2]), 10 ** int(equal[3])
            gaps, variances = [gap] * (arms - 1), None
        elif rates:
            parts = [part.strip() for part in rates[1].replace("nine of 3%", "3%, " * 9).split(",")]
            means = [float(part.strip("%")) / 100 for part in parts if part]
            gaps, variances = gaps_of(means), [mean * (1 - mean) for mean in means]
            horizon, cells = int(rates[2].replace(",", "")), cells[1:]
            assert cells[0] == f"{max(gaps) * horizon:,.0f}"
        else:
            continue
        for cell, (optimism, corruption) in zip(cells[1:], BARRIER, strict=False):
            bound = barrier_regret(gaps, horizon, corruption, 2.0, 0.25, optimism, variances)
            vacuous = bound > max(gaps) * horizon * (1 - 1e-9)
            assert cell == ("-" if vacuous else f"{bound:,.0f}")
            compared += 1
    assert compared == 7 * 6 + 3 * 5
