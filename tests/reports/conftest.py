"""One small result of each kind and its page, made once for all tests of reports."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from playwright.sync_api import Browser

import armrace
from armrace.offline import Replay
from armrace.planning import Plan, plan
from armrace.red_team import Verdict, redteam
from armrace.red_team.target import EFFORTS
from armrace.reports.arena import render_arena
from armrace.reports.checks import render_redteam, render_verification
from armrace.reports.comparison import render_grid, render_report
from armrace.reports.studies import render_plan, render_replay
from armrace.simulation import Comparison
from armrace.simulation.arena import Grid, run_arena
from armrace.verification import Verification, verify
from browsing import chromium
from cli.test_redteam import TINY
from verification.test_mutants import SHORT

POLICIES = ["multi-layer-race", "ucb1", "tsallis-inf"]
GRID = Grid(
    horizon=60,
    replications=3,
    environments=("two-arms", "ratings"),
    attacks=("zero-best", "swap-best"),
    policies=("ucb1", "thompson", "multi-layer-race"),
)


class Results(NamedTuple):
    """A small result of each kind."""

    comparison: Comparison
    quiet: Comparison
    plan: Plan
    verdicts: list[Verdict]
    verification: Verification
    arena: pl.DataFrame
    replay: Replay


def _compare(budget: float) -> Comparison:
    settings: dict[str, Any] = {"horizon": 600, "replications": 4, "progress": False}
    return armrace.compare(
        POLICIES, [0.9, 0.5, 0.1], "zero-best-when-likely", budget=budget, audit=0.05, **settings
    )


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EFFORTS, "quick", TINY)
        few = SHORT._replace(asymptotic_runs=2)
        patch.setattr(sys.modules[verify.__module__], "QUICK", few)
        verification = verify(["sharp-race"], asymptotic=True, quick=True, progress=False)
        verdicts = [
            redteam("ucb1", [0.6, 0.4], budget, 1000, effort="quick", progress=False)
            for budget in (10, 40)
        ]
    return Results(
        comparison=_compare(20.0),
        quiet=_compare(0.0),
        plan=plan(
            means=[0.9, 0.5, 0.5], traffic=1000, days=2, forged=0.01, replications=3,
            policies=["ucb1", "tsallis-inf", "barbat"], attacks=["swap-best"], progress=False,
        ),
        verdicts=verdicts,
        verification=verification,
        arena=run_arena(GRID, tmp_path_factory.mktemp("cells"), workers=1),
        replay=armrace.replay(
            "sample:open-bandit", ["ucb1", "tsallis-inf"], arm="item_id", reward="click",
            propensity="propensity_score", attack="zero-best", budget=10, replications=2,
        ),
    )  # fmt: skip


@pytest.fixture(scope="session")
def pages(results: Results, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The file of each kind of page."""
    found, quiet = results.comparison, results.quiet
    texts = {
        "compare": render_report(
            found, "story", "Once <b>upon</b> a time.", "armrace compare",
            {0.0: quiet, 20.0: found}, [found],
        ),
        "grid": render_grid([quiet, found], "grid", "", "armrace compare"),
        "plan": render_plan(results.plan, "armrace plan"),
        "redteam": render_redteam(results.verdicts, "armrace redteam"),
        "verify": render_verification(results.verification, "armrace verify"),
        "arena": render_arena(GRID, results.arena, "armrace arena"),
        "replay": render_replay(results.replay, "armrace replay"),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in texts}
    for name, file in files.items():
        file.write_text(texts[name], encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found
