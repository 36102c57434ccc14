"""The locked set of docs/locked.py, and batches of policies with parameters."""

import sys
from pathlib import Path

import numpy as np
import pytest

from armrace.adversaries import Setting
from armrace.red_team.target import SearchBudget
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA
from armrace.testing import check_adversary

DOCS = Path(__file__).parents[2] / "docs"
SETTING = Setting(np.array([0.4, 0.8, 0.6]), horizon=1000, budget=100.0)
TINY = SearchBudget(
    rungs=((4, 1),),
    parents=1,
    children=1,
    generations=1,
    replications=2,
    finalists=1,
    selecting=2,
    confirming=3,
)


@pytest.fixture(scope="module")
def locked():
    sys.path.insert(0, str(DOCS))
    try:
        import locked
    finally:
        sys.path.remove(str(DOCS))
    return locked


def test_its_environments_are_not_those_on_which_policies_were_chosen(locked):
    assert {len(e.mean_rewards(1)) for e in locked.ENVIRONMENTS.values()} >= {3, 30, 200}
    used = {tuple(e.mean_rewards(1)) for e in ENVIRONMENTS_OF_THE_ARENA.values()}
    assert used.isdisjoint(tuple(e.mean_rewards(1)) for e in locked.ENVIRONMENTS.values())
    names = [cell.file(Path()).name for cell in locked.cells()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rhythm", ["steady", "pulsed", "swelling", "echo"])
def test_the_second_family_keeps_the_contract(locked, rhythm):
    check_adversary(locked.Rhythmic(rhythm=rhythm, forgery="drip", strength=0.5, odds=0.5))


@pytest.mark.parametrize(
    ("forgery", "shown"),
    [
        ("drip", [0.75, 0.5, 0.5]),
        ("level", [0.5, 0.0, 0.0]),
        ("rotate", [0.5, 0.0, 1.0]),
        ("flip", [0.5, 0.0, 1.0]),
        ("hide", [0.5, 0.5, 0.0]),
    ],
)
def test_what_is_forged(locked, forgery, shown):
    attack = locked.Rhythmic(forgery=forgery, strength=0.5)
    assert attack.change_rewards(SETTING, [0.5, 1.0, 0.0], round=1) == shown


def test_pulses_and_odds_say_when(locked):
    pulsed = locked.Rhythmic(rhythm="pulsed", forgery="hide", period=0.1, duty=0.2, start_at=0.05)
    struck = [
        at
        for at in range(300)
        if pulsed.change_rewards(SETTING, [1.0, 1.0, 1.0], round=at) != [1.0, 1.0, 1.0]
    ]
    assert struck == [*range(50, 70), *range(150, 170), *range(250, 270)]
    wary = locked.Rhythmic(forgery="hide", odds=1.0)
    shown = [
        wary.change_rewards(SETTING, [1, 1, 1], w)[1] for w in ([0, 0.4, 0.6], [0.3, 0.4, 0.3])
    ]
    assert shown == [1.0, 0.0]
