"""The scripts of the experiments run, and their pages say what comes out."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from armrace.adversaries import ADVERSARIES
from armrace.reproduction import PAPERS
from processes import python

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "experiments"
PAGES = sorted(FOLDER.glob("*.md"))
COMMAND = re.compile(r"^\$ (.*)$", re.MULTILINE)
ROW = re.compile(r"^\| (.+?) \| (.*) \|$", re.MULTILINE)


def numbers(row: str) -> list[float]:
    return [float(cell.replace(",", "")) for cell in re.findall(r"[\d,]*\d(?:\.\d+)?", row)]


def rows(text: str) -> dict[str, list[list[float]]]:
    """The numbers of each row of all tables, by what stands in the first column."""
    found: dict[str, list[list[float]]] = {}
    for name, rest in ROW.findall(text):
        found.setdefault(name.strip("`"), []).append(numbers(rest))
    return found


@cache
def printed(script: str, *options: str) -> str:
    done = python("-W", "error", str(FOLDER / script), *options, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_those_of_scripts_that_exist(page: Path) -> None:
    commands = COMMAND.findall(page.read_text(encoding="utf-8"))
    assert commands
    for command in commands:
        if command.startswith("armrace reproduce "):
            assert command.split()[2] in PAPERS
            continue
        python, script, *options = command.split()
        assert python == "python"
        assert (ROOT / script).is_file()
        assert options in ([], ["--quick"])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_is_listed(page: Path) -> None:
    if page.stem != "index":
        assert f"({page.name})" in (FOLDER / "index.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_forensics_page_says_what_comes_out() -> None:
    """The quick form has shorter runs; what is plain at both lengths must agree.

    Of 20 honest runs at the level 0.05, more than 5 raise an alarm with probability 0.00033 at
    most, for each of the six rows.
    """
    page = (FOLDER / "forensics.md").read_text(encoding="utf-8")
    quick = printed("forensics.py", "--quick")
    said, found = rows(page), rows(quick)
    assert said.keys() == found.keys()
    honest = [name for name in said if name.count("`") == 1]
    assert len(honest) == 6
    for name in honest:
        assert said[name][0][0] <= 0.05 * 2000
        assert found[name][0][0] <= 5
    for name in ("`ucb1`, even odds, `swap-best", "`ucb1`, click rates, `sleeper-bots"):
        shares_said, shares_found = said[name.strip("`")][0], found[name.strip("`")][0]
        assert shares_said[4] == shares_found[1] == 100
    assert "above the corruption spent in 0 of 240 runs" in quick
    assert "above the corruption spent in 0 of 7,200 runs" in page


def test_who_sees_the_arm_misleads_a_race_at_a_price_that_it_withstands_within_the_model() -> None:
    """The guide's table, and the quick form for the race whose contrast is plain at its length."""
    guide = rows((ROOT / "docs" / "guide" / "the-model.md").read_text(encoding="utf-8"))
    quick = rows(printed("who_sees_the_arm.py", "--quick"))
    names = [name for name in quick if ", " in name and name.split("`")[0].endswith("-race")]
    assert len(names) == 10
    for name in names:
        ((said, _),), ((found, spent),) = guide[name], quick[name]
        if "sees the arm" in name:
            assert said > 99
        else:
            assert said < 50
        if name.startswith("sharp-race"):
            assert (found > 99 and spent < 500) if "sees the arm" in name else found < 50


def test_what_moving_means_cost_is_the_same_on_all_pages() -> None:
    page = rows((FOLDER / "moving-means.md").read_text(encoding="utf-8"))
    guide = ROOT / "docs" / "guide" / "choose-a-policy.md"
    short = rows(guide.read_text(encoding="utf-8"))
    late = 2
    named = [name for name in page if len(page[name][0]) >= 10]
    assert len(named) == 10
    for name in named:
        mean, error = page[name][0][2 * late : 2 * late + 2]
        assert [mean, error] in short[name]


def test_the_page_on_forgetting_says_what_its_data_say() -> None:
    text = (FOLDER / "forgetting.md").read_text(encoding="utf-8")
    cells = json.loads((FOLDER / "forgetting.json").read_text(encoding="utf-8"))
    assert len(cells) == text.count("\n| `")
    for name, losses in cells.items():
        shown = [losses[each] for each in ("change", "still", "C = 50", "C = 200")]
        cell = " | ".join(f"{mean:,.0f} ± {error:,.0f}" for mean, error in shown)
        assert f"| `{name.replace(', ', '`, ')} | {cell} |" in text
    lost = {name: {k: v[0] for k, v in of.items() if k != "words"} for name, of in cells.items()}
    never, alarm = (lost[f"optimistic-log-barrier, {w}"] for w in ("never", "at an alarm"))
    assert alarm["change"] < never["change"] / 4
    assert all(abs(alarm[k] - never[k]) < 5 for k in ("still", "C = 50", "C = 200"))


MEASURED = ("quiet", "attacked")


def test_no_candidate_is_quiet_and_robust() -> None:
    """The page has the figures of its data, and what it says of them holds."""
    text = (FOLDER / "quiet-and-robust.md").read_text(encoding="utf-8")
    cells = json.loads((FOLDER / "quiet_and_robust.json").read_text(encoding="utf-8"))
    budgets = {"two arms": 30, "four arms": 40, "rare clicks": 40, "longer": 100}
    reached: dict[str, list[bool]] = {}
    for place, budget in budgets.items():
        thompson = cells[place]["thompson"]["quiet"][0]
        for name, losses in cells[place].items():
            shown = [f"{mean:,.0f} ± {error:,.0f}" for mean, error in map(losses.get, MEASURED)]
            cell = " | ".join(shown)
            lines = [line for line in text.splitlines() if line.startswith(f"| {name} | ")]
            assert any(cell in line for line in lines)
            is_quiet = losses["quiet"][0] <= 1.1 * thompson
            is_robust = losses["attacked"][0] <= 2 * budget + 2 * thompson
            reached.setdefault(name, []).append(is_quiet and is_robust)
    assert not any(all(found) for found in reached.values())


@pytest.mark.long
def test_forgetting_in_short_runs() -> None:
    found = rows(printed("forgetting.py", "--quick"))
    assert found["thompson`, at an alarm"][0][0] < found["thompson`, never"][0][0]


@pytest.mark.long
def test_who_notices_that_means_move() -> None:
    said = rows((FOLDER / "moving-means.md").read_text(encoding="utf-8"))
    found = rows(printed("moving_means.py", "--quick"))
    assert found.keys() == said.keys()
    for each in (said, found):
        default, race, index = (
            each[name][0][4] for name in ("optimistic-log-barrier", "sharp-race", "ucb1")
        )
        afresh = max(row[0][4] for name, row in each.items() if name.endswith("at an alarm"))
        assert max(index, afresh) < default / 2 < race


def test_the_page_on_visitors_says_what_its_data_say() -> None:
    text = (FOLDER / "visitors-under-attack.md").read_text(encoding="utf-8")
    tables = printed("visitors.py", "--tables")
    assert all(line in text for line in tables.splitlines())
    cells = [json.loads(line) for line in (FOLDER / "visitors.ndjson").read_text().splitlines()]
    assert all(cell["runs"] >= 20 for cell in cells)
    assert all(cell["tried"] >= 80 for cell in cells if cell["budget"])
    lost = {(c["environment"], c["budget"], c["policy"]): c["mean"] for c in cells}
    quiet = lost["segments", 0.0, "leaf-barrier"]
    for budget in (100.0, 1_000.0):
        assert lost["segments", budget, "leaf-barrier"] <= 2 * budget + 1.2 * quiet
    attacks = {json.dumps(cell["attack"]) for cell in cells}
    assert all(ADVERSARIES.make(json.loads(attack)) for attack in attacks)


def test_the_page_on_visitors_says_what_lists_of_experts_lose() -> None:
    text = (FOLDER / "visitors-under-attack.md").read_text(encoding="utf-8")
    done = python("-m", "docs.experiments.visitor_experts", "--tables", cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 33
    assert all(line in text for line in done.stdout.splitlines())
    data = (FOLDER / "visitor_experts.ndjson").read_text().splitlines()
    last = {(c["environment"], c["budget"], c["policy"]): c for c in map(json.loads, data)}
    assert len(last) == 72
    assert all(cell["runs"] >= 20 for cell in last.values())
    # List f, as the script plays it, is what is shipped.
    for line in (FOLDER / "visitors.ndjson").read_text().splitlines():
        cell = json.loads(line)
        if cell["policy"] == "expert-barrier" and not cell["budget"]:
            assert cell["mean"] == last[cell["environment"], 0.0, "list-f"]["mean"]


@pytest.mark.long
def test_cells_of_visitors_are_searched_and_exchanged() -> None:
    found = rows(printed("visitors.py", "--quick"))
    assert found["leaf-thompson"][0][0] < found["optimistic-log-barrier"][0][0]
    assert len(found["segments"][0]) == 2
