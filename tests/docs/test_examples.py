"""The commands and the Python blocks of README and guide do what they say."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from armrace.cli.main import run as run_here
from armrace.red_team.target import EFFORTS
from armrace.simulation.arena import GRIDS, Grid
from armrace.simulation.scenarios import SCENARIOS
from armrace.verification.verify import verify
from cli.test_redteam import TINY
from docs.conftest import SECONDS, RunFile
from verification.test_mutants import SHORT

ROOT = Path(__file__).parents[2]
WORKED_EXAMPLE = ROOT / "docs" / "guide" / "your-own-policy-and-attack.md"
TESTED_ELSEWHERE = {"experiments"}
"""Folders whose commands run long; their tests run short forms."""

BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\w+\.py)\n")
PRINTED = re.compile(r"print\(.*\)  # -> (.*)$", re.MULTILINE)
INSTALLING = ("python -m pip install .", "python -m pip install '.[service]'")


def blocks(page: Path, language: str) -> list[str]:
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [block["text"] for block in found if block["language"] == language]


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "console")).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


PAGES = [
    ROOT / "README.md",
    *(
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if page.parent.name not in TESTED_ELSEWHERE
        and (blocks(page, "python") or blocks(page, "console"))
    ),
]


def write_examples(page: Path, folder: Path) -> str:
    """Save the blocks that are files of their own; return the others as one script."""
    script = []
    for text in blocks(page, "python"):
        name = FILE_NAME.match(text)
        if name:
            (folder / name[1]).write_text(text, encoding="utf-8")
        else:
            script.append(text)
    return "\n".join(script)


def run(command: str, folder: Path) -> None:
    """Run a command as a reader with the package installed would."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def run_script(text: str, folder: Path, run_file: RunFile) -> str:
    script = folder / "example.py"
    script.write_text(text, encoding="utf-8")
    return run_file(script, folder)


SHORTER = {
    "verifying": """
import sys
from armrace.verification.verify import QUICK, verify
sys.modules[verify.__module__].QUICK = QUICK._replace(
    runs=20, horizon=20_000, sampling_runs=60, growth_runs=6, growth_horizon=400_000,
    martingale_runs=200, computed_runs=4, path_rounds=4_096,
)
"""
}
"""What makes the examples of a page shorter and shows the same."""


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem
)
def test_python_blocks_run_and_print_what_they_say(
    page: Path, tmp_path: Path, run_file: RunFile
) -> None:
    text = write_examples(page, tmp_path)
    printed = iter(run_script(SHORTER.get(page.stem, "") + text, tmp_path, run_file).splitlines())
    for expected in PRINTED.findall(text):
        assert expected in printed, f"{page.name} does not print {expected!r} in its turn"


@pytest.mark.parametrize("page", ["README.md", "docs/guide/getting-started.md"])
def test_the_first_lines_against_the_service_run_twice(
    page: str, tmp_path: Path, run_file: RunFile
) -> None:
    (text,) = (text for text in blocks(ROOT / page, "python") if "armrace.open(" in text)
    first, second = (run_script(text, tmp_path, run_file) for _ in range(2))
    drawn = re.compile("show .*")  # which arm, and how likely, may differ
    assert drawn.sub("", second) == drawn.sub("", first)


RUNNABLE = {
    command: page
    for page in reversed(PAGES)
    for command in commands(page)
    if command[:8] == "armrace "
}
"""Every command once, with the first page that has it."""

IN_A_PROCESS = {command: page for command, page in RUNNABLE.items() if page == WORKED_EXAMPLE}
"""Commands that run as a reader runs them; the others are spared the start of a process."""


SHORT_SCENARIOS = {
    name: msgspec.structs.replace(each, horizon=each.horizon // 200, replications=2)
    for name, each in SCENARIOS.items()
}
"""``armrace compare`` plays tens of millions of rounds. A few show that it runs; ``make demo``
plays all of them."""

SMALL_ARENA = Grid(
    horizon=2_000,
    replications=1,
    environments=("two-arms",),
    attacks=("swap-best", "zero-best"),
    policies=("multi-layer-race", "ucb1", "tsallis-inf"),
)
"""The quick form of the arena has 87 cells for each policy; a few show that the command runs."""


def named(pages: dict[str, Path]) -> list[Any]:
    """The parameters of a test for each command."""
    return [pytest.param(p, c, id=f"{p.stem}: {c}") for c, p in reversed(pages.items())]


@pytest.mark.parametrize(("page", "command"), named(IN_A_PROCESS))
def test_commands_run_in_a_process_of_their_own(page: Path, command: str, tmp_path: Path) -> None:
    write_examples(page, tmp_path)
    run(command, tmp_path)


@pytest.mark.parametrize(
    ("page", "command"), named({c: p for c, p in RUNNABLE.items() if c not in IN_A_PROCESS})
)
def test_commands_run(
    page: Path, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(GRIDS, "quick", SMALL_ARENA)
    monkeypatch.setitem(EFFORTS, "quick", TINY)
    monkeypatch.setattr(sys.modules[verify.__module__], "QUICK", SHORT)
    for name, scenario in SHORT_SCENARIOS.items():
        monkeypatch.setitem(SCENARIOS, name, scenario)
    program, *arguments = shlex.split(command)
    assert (program, run_here(arguments)) == ("armrace", 0)


def test_commands_are_found_in_readme_and_guide() -> None:
    assert RUNNABLE["armrace compare"] == PAGES[0]
    assert WORKED_EXAMPLE in IN_A_PROCESS.values()
    assert len(RUNNABLE) >= 15


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_no_other_commands_than_known_ones(page: Path) -> None:
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for command in commands(page):
        first, *rest = command.split()
        if first == "make":
            assert rest[0] in targets, command
        elif first != "armrace":
            assert command in INSTALLING, command


def test_contributing_names_make_targets_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`make (\w+)`", text))
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"setup", "test", "lint", "bench", "docs"} <= named <= targets


@pytest.mark.parametrize("page", ["README.md", "docs/guide/choose-a-policy.md"])
def test_headline_figures_have_an_error_and_no_worst_attack_is_milder_than_the_others(
    page: str,
) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    table = text.split("written by docs/evidence_tables.py")[1].split("<!-- End of")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    assert {"thompson", "ucb1"} <= {row.split("`")[1] for row in rows}
    for row in rows:
        found = re.findall(r"([\d,]+) \u00b1 [\d,]+", row)
        means = [int(mean.replace(",", "")) for mean in found]
        assert len(means) == row.count("\u00b1") >= 2
        assert means[-1] == max(means)


@pytest.mark.parametrize("name", ["greedy.py", "keep_down.py"])
def test_worked_example_is_short(name: str, tmp_path: Path) -> None:
    write_examples(WORKED_EXAMPLE, tmp_path)
    code = [line for line in (tmp_path / name).read_text().splitlines()[1:] if line.strip()]
    assert len(code) < 40


def test_worked_example_runs_compiled(tmp_path: Path, run_file: RunFile) -> None:
    write_examples(WORKED_EXAMPLE, tmp_path)
    probe = """
import armrace, greedy, keep_down
from armrace.simulation import make_experiment
from armrace.simulation.replication import make_parts, runner_for

experiment = make_experiment(
    policy=greedy.FadingGreedy(), environment=[0.6, 0.5, 0.4], adversary=keep_down.KeepDown(),
    budget=50, horizon=1000, replications=2,
)
armrace.simulate(
    greedy.FadingGreedy(), [0.6, 0.5, 0.4], keep_down.KeepDown(), 50, 1000, replications=2
)
runner = runner_for(make_parts(experiment, 0))
assert len(runner.nopython_signatures) == 1, runner
print("compiled")
"""
    assert run_script(probe, tmp_path, run_file) == "compiled\n"
