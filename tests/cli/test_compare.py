"""``armrace compare``: table, JSON, report, overrides."""

import json
import re
from typing import Any

import msgspec

import armrace
from armrace.cli import compare as command
from armrace.cli.compare import at_least_as_bad
from armrace.cli.main import run
from armrace.cli.tables import new_table, print_story, print_tables
from armrace.policies import RECOMMENDED
from armrace.simulation import SCENARIOS, Comparison

SMALL = [
    "compare", "click-fraud", "--policies", "multi-layer-race,ucb1",
    "--horizon", "2000", "--replications", "4", "--budget", "20", "--no-worst",
]  # fmt: skip


def test_table_report_and_json(tmp_path, capsys):
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    assert run([*SMALL, "--report", str(page), "--json", str(figures)]) == 0
    output, error = capsys.readouterr()
    for word in ("multi-layer-race", "ucb1", "+/-", "p95", "rank", "has the least mean"):
        assert word in output
    assert f"The report is in {page}." in error
    parsed = json.loads(figures.read_text())
    assert [entry["policy"] for entry in parsed] == ["multi-layer-race", "ucb1"]
    text = page.read_text()
    assert text.count("<svg ") == 2 * 3  # dots, curves and sweep, for desks and phones
    assert "Pseudo-regret against corruption" in text


def test_each_policy_also_meets_the_worst_known_attack_on_it(tmp_path, capsys):
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    command = [*SMALL[:-1], "--no-sweep", "--report", str(page), "--json", str(figures)]
    assert run(command) == 0
    output = capsys.readouterr().out
    assert "each under its own worst attack, budget 20, 4 runs" in output
    entries = json.loads(figures.read_text())
    scenario, own, quiet = entries[:2], entries[2:4], entries[4:]
    for part in (scenario, own, quiet):
        assert [entry["policy"] for entry in part] == ["multi-layer-race", "ucb1"]
    assert {e["spec"]["adversary"]["name"] for e in scenario} == {"zero-best-when-likely"}
    assert {e["spec"]["budget"] for e in own} == {20}
    assert {e["spec"]["budget"] for e in quiet} == {0}
    text = page.read_text()
    assert "<h2>Each policy under its own worst attack</h2>" in text
    assert "--no-worst" not in text
    assert "Pseudo-regret against corruption" not in text
    assert run([*command, "--attack", "swap-best", "--force"]) == 0
    assert "under the worst attack" not in capsys.readouterr().out


def test_the_first_comparison_of_a_newcomer_is_won_by_the_recommended_policy(capsys):
    assert run(["compare", "--replications", "12", "--no-report"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    verdict = output.index("Under the worst attack known for each policy")
    assert verdict < output.index("swap-best, budget 300, for all policies")
    said = re.match(
        r"[^:]*?, ([\w-]+) loses (\d+) of the 40,000 rewards that can be lost, the least"
        r"(?: \(([\w-]+) cannot be told apart from it\))?, and thompson ([\d,]+);",
        output[verdict:],
    )
    assert said is not None
    assert RECOMMENDED in {said[1], said[3]}
    assert 20 * int(said[2]) < int(said[4].replace(",", ""))


def test_no_attack_costs_a_policy_more_than_the_one_that_is_called_its_worst():
    spec: dict[str, Any] = {"environment": [0.9, 0.1], "horizon": 2000, "replications": 4}
    shared = armrace.compare(["ucb1", "exp3"], adversary="zero-best", budget=200, **spec)
    mild = armrace.compare(["ucb1", "exp3"], adversary="random-flips", budget=1, **spec)
    harsh = mild.results["exp3"]
    mixed = Comparison([mild.results["ucb1"], shared.results["exp3"]])
    chosen = at_least_as_bad(mixed, Comparison([shared.results["ucb1"], harsh]))
    assert list(chosen.results.values()) == list(shared.results.values())


GRID = [*SMALL[:4], "--horizon", "500", "--replications", "3", "--attack", "zero-best, swap-best"]


def test_attacks_and_budgets_make_a_grid(tmp_path, capsys):
    page, figures = tmp_path / "report.html", tmp_path / "figures.json"
    more = ["--budget", "0,20", "--report", str(page), "--json", str(figures)]
    assert run([*GRID, *more]) == 0
    output = capsys.readouterr().out
    assert output.count("has the least mean pseudo-regret") == 4
    assert "swap-best, budget 20" in output
    entries = json.loads(figures.read_text())
    met = [(e["spec"]["adversary"]["name"], e["spec"]["budget"], e["policy"]) for e in entries]
    assert met == [
        (attack, budget, policy)
        for attack in ("zero-best", "swap-best")
        for budget in (0.0, 20.0)
        for policy in ("multi-layer-race", "ucb1")
    ]
    text = page.read_text()
    assert text.count("Pseudo-regret against corruption") == 2
    assert text.count('<section id="cell-') == 4


def test_the_sweep_plays_every_policy_whatever_the_plot_draws(tmp_path, capsys, monkeypatch):
    played: list[list[str]] = []
    usual = command.run_cells

    def record(cells: Any, *rest: Any) -> Any:
        played.extend([each.policy.tag() for each in cell] for cell in cells)
        return usual(cells, *rest)

    monkeypatch.setattr(command, "run_cells", record)
    page = tmp_path / "report.html"
    policies = "ucb1,exp3,moss,thompson,tsallis-inf,sao,kl-ucb,broad,rucb"
    short = ["--horizon", "200", "--replications", "2", "--budget", "5", "--policies", policies]
    assert run(["compare", "click-fraud", *short, "--report", str(page)]) == 0
    assert played == [policies.split(",")] * 6  # the comparison, and the sweep
    assert "Attacks see the probabilities of thompson slightly outdated" in page.read_text()


RACE_AND_UCB = [
    "compare", "--policies", "ucb1,exp3", "--horizon", "300", "--replications", "3", "--no-worst",
]  # fmt: skip


def test_a_page_without_a_name_gets_a_free_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("armrace-report.html", "armrace-report-2.html", "armrace-report-3.html"):
        assert run([*RACE_AND_UCB, "--no-sweep"]) == 0
        assert f"The report is in {name}." in capsys.readouterr().err
    assert len(list(tmp_path.iterdir())) == 3


def test_a_file_that_is_named_is_replaced_by_force_only(tmp_path, capsys):
    page, figures, empty = (tmp_path / name for name in ("page.html", "figures.json", "empty.json"))
    page.write_text("precious")
    figures.write_text("precious")
    empty.touch()
    for option, place in (("--report", page), ("--json", figures)):
        assert run([*RACE_AND_UCB, option, str(place)]) == 2
        error = capsys.readouterr().err
        assert error == f"armrace: {place} exists; give another name, or --force to replace it.\n"
        assert place.read_text() == "precious"
    assert run([*RACE_AND_UCB, "--no-report", "--json", str(empty)]) == 0
    forced = ["--force", "--no-sweep", "--report", str(page), "--json", str(figures)]
    assert run([*RACE_AND_UCB, *forced]) == 0
    assert page.read_text().startswith("<!")
    assert len(json.loads(figures.read_text())) == 2


def test_a_terminal_shows_the_loss_over_time_and_a_pipe_plain_text(capsys, monkeypatch):
    assert run([*SMALL, "--no-report"]) == 0
    piped = capsys.readouterr().out
    assert piped.isascii()
    assert "\x1b" not in piped
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    assert run([*SMALL, "--no-report"]) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    table = shown.split("has the least")[0].splitlines()[:-1]
    rows = [line for line in table if line.startswith(("ucb1", "multi-layer-race"))]
    assert len(rows) == 2  # one part, within 80 columns
    assert all(len(row) <= 80 for row in rows)
    assert all(re.search(r"[\u2581-\u2588]{6}$", row.rstrip()) for row in rows)


def test_brackets_in_names_are_printed(capsys):
    story = msgspec.structs.replace(
        next(iter(SCENARIOS.values())), name="ads [new]", summary="Some [red] ads."
    )
    print_story([story])
    table = new_table("policy", "figure")
    table.add_row("mine [bold]", "1")
    print_tables(table)
    output = capsys.readouterr().out
    for words in ("ads [new]", "Some [red] ads.", "mine [bold]"):
        assert words in output
