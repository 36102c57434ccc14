"""The observation-free attack of Xu, Kumar and Abernethy (2021)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import polars as pl

from armrace.adversaries import ObservationFree
from armrace.policies import EpsilonGreedy, Ucb
from armrace.reproduction.studies import Form, Found, Paper, Point, Statement, Study, point

_ROUNDS, _TARGET = 50_000, 1
_SHARE = pl.col("pulls").arr.get(_TARGET) / _ROUNDS
_LEARNERS: Mapping[str, Any] = {
    "ucb1": "ucb1",
    "UCB, sqrt(ln t/n)": Ucb(bonus=1.0),
    "UCB, sqrt(ln t/2n)": Ucb(bonus=math.sqrt(0.5)),
    "kl-ucb": "kl-ucb",
    "moss": "moss",
    "thompson": "thompson",
    "epsilon-greedy, 1/t": EpsilonGreedy(once=False, ties="any"),
    "epsilon-greedy, 1/t, first": EpsilonGreedy(once=False),
    "epsilon-greedy, 10/t": EpsilonGreedy(fading=10.0, once=False, ties="any"),
    "epsilon-greedy, 0.1": EpsilonGreedy(fading=0.0, least=0.1, once=False, ties="any"),
    "tsallis-inf": "tsallis-inf",
    "exp3": "exp3",
    "active-arm-elimination": "active-arm-elimination",
    "multi-layer-race": "multi-layer-race",
}
_SPLITS = ((34, 66), (34, 132), (50, 50), (58, 2), (62, 2), (64, 0), (64, 2), (66, 34), (68, 132))


def _struck(form: Form, line: str, policy: Any, spoil: int, praise: int) -> Point:
    return point(
        line,
        0.0,
        policy=policy,
        environment=[0.9, 0.8],
        adversary=ObservationFree(target=_TARGET, spoil=spoil, praise=praise),
        budget=float(spoil + praise),
        horizon=_ROUNDS,
        replications=form.of(20, 100),
        seed=form.seed,
    )


def _budget(spoil: int, praise: int) -> Any:
    return lambda form: [
        _struck(form, name, policy, spoil, praise) for name, policy in _LEARNERS.items()
    ]


def _splits(form: Form) -> list[Point]:
    return [_struck(form, f"{a} + {b}", "ucb1", a, b) for a, b in _SPLITS]


def _fooled(*lines: str, fooled: bool = True) -> Any:
    """Judge whether the target gets more than half of the plays in nearly all runs, or in none."""

    def check(found: Found) -> tuple[bool, str]:
        shares = {line: found.share(line, 0.5, 0.0) for line in lines}
        shown = ", ".join(f"{line} in {share:.0%}" for line, share in shares.items())
        held = (share >= 0.95 if fooled else share <= 0.05 for share in shares.values())
        return all(held), f"{shown} of the runs"

    return check


_ROBUST = ("tsallis-inf", "exp3", "active-arm-elimination")

XU_2021 = Paper(
    "xu-kumar-abernethy-2021",
    "Xu, Kumar and Abernethy (2021), Observation-free attacks on stochastic bandits, NeurIPS",
    "The text was read; the authors' code was not seen, so that it is open which UCB and which "
    "epsilon-greedy were meant.",
    (
        Study(
            "ucb-budget",
            "34 + 66 corrupted rounds",
            "Table 1, the budget against UCB and Thompson sampling",
            "In 34 rounds no arm pays, in 66 more only the target pays, and always; afterwards UCB "
            "and Thompson sampling play the worse arm for good.",
            _budget(34, 66),
            "rows",
            "share of the plays that the target gets",
            (
                Statement("Thompson sampling is fooled", _fooled("thompson")),
                Statement("UCB is fooled", _fooled("UCB, sqrt(ln t/n)")),
                Statement(
                    "UCB1 is fooled",
                    _fooled("ucb1"),
                    "Its bonus is sqrt(2 ln t/n), with which 64 + 2 rounds are needed: see below.",
                ),
                Statement(
                    "others are not fooled (ours, not the paper's)", _fooled(*_ROBUST, fooled=False)
                ),
            ),
            value=_SHARE,
            setting="Means 0.9 and 0.8, 50,000 rounds, as published.",
            scale="linear",
        ),
        Study(
            "greedy-budget",
            "150 + 150 corrupted rounds",
            "Table 1, the budget against epsilon-greedy",
            "150 and 150 rounds are enough against epsilon-greedy.",
            _budget(150, 150),
            "rows",
            "share of the plays that the target gets",
            (
                Statement(
                    "epsilon-greedy with fading exploration is fooled",
                    _fooled("epsilon-greedy, 1/t", "epsilon-greedy, 10/t"),
                ),
                Statement(
                    "epsilon-greedy with constant exploration is fooled",
                    _fooled("epsilon-greedy, 0.1"),
                    "It goes on exploring, and so corrects its means within the horizon. Which "
                    "variant was published is not known.",
                ),
            ),
            value=_SHARE,
            setting="As above.",
            scale="linear",
        ),
        Study(
            "ucb1-needs",
            "What it takes to fool UCB1",
            "Not in the paper",
            "Less corruption than was published is enough, if it is spent on the first stage.",
            _splits,
            "rows",
            "share of the plays that the target gets",
            (
                Statement("64 + 2 rounds fool UCB1", _fooled("64 + 2")),
                Statement("34 + 132 rounds do not", _fooled("34 + 132", fooled=False)),
            ),
            value=_SHARE,
            setting="UCB1 under other lengths of the two stages.",
            scale="linear",
        ),
    ),
    notes=(
        "Why UCB1 is not fooled by 34 + 66: while nothing pays, UCB plays its arms in turn, so "
        "after a first stage of S rounds each of K arms has S/K plays and mean 0. With the bonus "
        "`sqrt(a ln t/n)` the better arm is lost if its index stays below the target's 0.8 to the "
        "end, hence if S is above `K a ln T/0.8^2 = 33.8 a`. For a = 1 that is the published 34; "
        "UCB1 has a = 2 and needs about 67, or 64 with one unpaid play in the second stage.",
    ),
)  # fmt: skip
