"""``armrace compare``: table, JSON, report, overrides."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from armrace.cli import sweeping
from armrace.cli.main import run
from armrace.simulation import SCENARIOS

SMALL = [
    "compare", "click-fraud", "--policies", "multi-layer-race,ucb1",
    "--horizon", "2000", "--replications", "4", "--budget", "20",
]  # fmt: skip


def test_table_report_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    assert run([*SMALL, "--report", str(page), "--json", str(figures)]) == 0
    output, error = capsys.readouterr()
    for word in ("multi-layer-race", "ucb1", "95% interval", "p95", "rank", "has the least mean"):
        assert word in output
    assert f"The report is in {page}." in error
    parsed = json.loads(figures.read_text())
    assert [entry["policy"] for entry in parsed] == ["multi-layer-race", "ucb1"]
    text = page.read_text()
    assert text.count("<svg ") == 3
    assert "Pseudo-regret against corruption" in text


def test_report_says_how_to_run_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [tmp_path / "first.html", tmp_path / "second.html"]
    assert run([*SMALL, "--seed", "3", "--report", str(pages[0])]) == 0
    text = pages[0].read_text()
    command = text.split('<pre class="command"><code>')[1].split("</code>")[0]
    words = shlex.split(command)
    assert words[0] == "armrace"
    assert run([*words[1:], "--report", str(pages[1])]) == 0
    assert pages[1].read_text() == text


def test_json_on_standard_output_is_alone_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SMALL, "--no-report", "--json", "-"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


def test_scenario_can_be_overridden(capsys: pytest.CaptureFixture[str]) -> None:
    more = ["--means", "0.9,0.1", "--attack-set", "likely=0.25", "--no-report", "--json", "-"]
    assert run([*SMALL, *more]) == 0
    spec = json.loads(capsys.readouterr().out)[0]["spec"]
    assert spec["environment"]["means"] == [0.9, 0.1]
    assert spec["adversary"] == {"name": "zero-best-when-likely", "likely": 0.25}
    assert (spec["budget"], spec["horizon"], spec["replications"]) == (20, 2000, 4)


GRID = [*SMALL[:4], "--horizon", "500", "--replications", "3", "--attack", "zero-best, swap-best"]


def test_attacks_and_budgets_make_a_grid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    more = ["--budget", "0,10,20", "--report", str(page), "--json", str(figures)]
    assert run([*GRID, *more]) == 0
    output = capsys.readouterr().out
    assert output.count("has the least mean pseudo-regret") == 6
    assert "swap-best, budget 20" in output
    entries = json.loads(figures.read_text())
    met = [(e["spec"]["adversary"]["name"], e["spec"]["budget"], e["policy"]) for e in entries]
    assert met == [
        (attack, budget, policy)
        for attack in ("zero-best", "swap-best")
        for budget in (0.0, 10.0, 20.0)
        for policy in ("multi-layer-race", "ucb1")
    ]
    text = page.read_text()
    assert text.count("Pseudo-regret against corruption") == 2
    assert text.count('<section id="cell-') == 6


def test_a_cell_of_a_grid_is_the_comparison_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*GRID, "--budget", "10,20", "--no-report", "--json", "-"]) == 0
    together = json.loads(capsys.readouterr().out)[6:]
    alone = [*GRID[:-1], "swap-best", "--budget", "20", "--no-report", "--json", "-"]
    assert run(alone) == 0
    summaries = [entry["summary"] for entry in json.loads(capsys.readouterr().out)]
    assert [entry["summary"] for entry in together] == summaries


def test_a_grid_says_how_to_run_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [tmp_path / "first.html", tmp_path / "second.html"]
    assert run([*GRID, "--budget", "0,10", "--report", str(pages[0])]) == 0
    text = pages[0].read_text()
    words = shlex.split(text.split('<pre class="command"><code>')[1].split("</code>")[0])
    assert run([*words[1:], "--report", str(pages[1])]) == 0
    assert pages[1].read_text() == text


def test_the_sweep_plays_every_policy_whatever_the_plot_draws(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[list[str]] = []
    usual = sweeping.run_batches

    def record(batches: Any, *rest: Any) -> Any:
        played.extend([each.policy.tag() for each in batch] for batch in batches)
        return usual(batches, *rest)

    monkeypatch.setattr(sweeping, "run_batches", record)
    page = tmp_path / "report.html"
    policies = "ucb1,exp3,moss,thompson,tsallis-inf,sao,kl-ucb,broad,rucb"
    short = ["--horizon", "200", "--replications", "2", "--budget", "5", "--policies", policies]
    assert run(["compare", *short, "--report", str(page)]) == 0
    assert played == [policies.split(",")] * 4
    assert "The attack sees the distribution of thompson" in page.read_text()


def test_no_sweep_and_no_attack_leave_the_sweep_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    assert run([*SMALL, "--no-sweep", "--report", str(page)]) == 0
    assert "Pseudo-regret against corruption" not in page.read_text()


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_every_scenario_describes_experiments(scenario) -> None:  # type: ignore[no-untyped-def]
    experiments = scenario.experiments()
    assert len({experiment.policy.tag() for experiment in experiments}) == len(experiments)
    told = [e.policy.corruption for e in experiments if hasattr(e.policy, "corruption")]
    assert set(told) == {scenario.budget}
