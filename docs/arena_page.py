"""Write new searches into the tables of ``docs/arena.md``.

``python docs/arena_page.py FOLDER``, where the folder holds verdicts of ``docs/grid.py``. A verdict
takes the place of its cell in the table of five budgets, and a figure of ``docs/strip.py`` does
where it is larger; the tables that follow from that one, the
first of the page and that of the leaders, are computed again from its figures. Without a folder
only that is done. A test compares the page with what its own figures give.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import polars as pl
from grid import BUDGETS, CHEAP, verdicts

from armrace.formatting import count, figure
from armrace.red_team.standings import worst_standings

PAGE = Path(__file__).with_name("arena.md")
SHOWN = [(name, budget) for name in sorted(CHEAP) for budget in (100.0, 1000.0)]
LEADERS = (
    "optimistic-log-barrier",
    "optimistic-log-barrier, optimism 0.1",
    "lb-inf",
    "tsallis-inf",
)
_CELLS = "| environment | policy | C = 32 |"
_SUMMARY = "| policy | mean | p95 | clicks, C = 100 |"
_OF_LEADERS = "| leaders, "
_NAMES = {"guarded": "guarded, base tsallis-inf"}
"""What the page calls policies whose name alone would not say enough."""

Cells = dict[tuple[str, str, float], tuple[float, float]]


def read_cells(text: str) -> Cells:
    """The mean and the 95th percentile of each environment, policy and budget on the page."""
    found: Cells = {}
    for line in _rows(text, _CELLS):
        environment, policy, *values = _split(line)
        for budget, value in zip(BUDGETS, values, strict=True):
            mean, tail = (float(part.replace(",", "")) for part in value.split(" / "))
            found[environment, policy.strip("`"), budget] = mean, tail
    return found


def with_tables(text: str, cells: Cells) -> str:
    """The page with its tables written from the figures of all cells."""
    frame = pl.DataFrame(
        [
            {"environment": e, "policy": p, "budget": b, "mean": m, "p95": t, "all_lost": 1e9}
            for (e, p, b), (m, t) in cells.items()
        ]
    )
    pairs = dict.fromkeys((environment, policy) for environment, policy, _ in cells)
    text = _replaced(text, _CELLS, (_row(cells, *pair) for pair in pairs))
    three = worst_standings(frame.filter(pl.col("environment").is_in(CHEAP)))
    text = _replaced(text, _SUMMARY, (_summary(cells, row) for row in three.to_dicts()))
    own = worst_standings(frame.filter(pl.col("policy").is_in(LEADERS)))
    ranked = sorted(own.to_dicts(), key=lambda row: LEADERS.index(row["policy"]))
    leaders = (f"| `{r['policy']}` | {r['mean']:.2f} | {r['tail']:.2f} |" for r in ranked)
    return _replaced(text, _OF_LEADERS, leaders)


def _row(cells: Cells, environment: str, policy: str) -> str:
    texts = [_pair(cells[environment, policy, budget]) for budget in BUDGETS]
    return f"| {environment} | `{policy}` | {' | '.join(texts)} |"


def _summary(cells: Cells, row: dict[str, float | str]) -> str:
    policy = str(row["policy"])
    texts = [_pair(cells[name, policy, budget]) for name, budget in SHOWN]
    return f"| `{policy}` | {row['mean']:.2f} | {row['tail']:.2f} | {' | '.join(texts)} |"


def _pair(values: tuple[float, float]) -> str:
    return " / ".join(count(round(value)) for value in values)


def _split(line: str) -> list[str]:
    return [part.strip() for part in line.strip().strip("|").split(" | ")]


def _rows(text: str, heading: str) -> list[str]:
    """The rows of the table whose first line begins as ``heading`` does."""
    table = text[text.index(heading) :].split("\n\n", maxsplit=1)[0]
    return table.splitlines()[2:]


def _replaced(text: str, heading: str, rows: Iterable[str]) -> str:
    old = "\n".join(_rows(text, heading))
    return text.replace(old, "\n".join(rows))


def main(*folders: str) -> None:
    """Write the page, and say which cells have changed."""
    text = PAGE.read_text(encoding="utf-8")
    cells = read_cells(text)
    for folder in folders:
        for (environment, policy, budget, horizon), found in verdicts(Path(folder)).items():
            key, new = (environment, _NAMES.get(policy, policy), budget), found["held_out"]
            if key in cells and horizon == 100_000:
                before, cells[key] = cells[key], (new["mean"], new["p95"])
                print(f"{environment}, {policy}, C = {count(budget)}: {_change(before, new)}")
        for environment, policy, budget, new in _under_strip(Path(folder)):
            key = environment, _NAMES.get(policy, policy), budget
            if new["mean"] > cells[key][0]:
                before, cells[key] = cells[key], (new["mean"], new["p95"])
                print(
                    f"strip: {policy}, {environment}, C = {count(budget)}: {_change(before, new)}"
                )
    # Twice, so that summaries follow from the rounded figures that the page shows.
    text = with_tables(text, cells)
    PAGE.write_text(with_tables(text, read_cells(text)), encoding="utf-8")


def _under_strip(folder: Path) -> Iterator[tuple[str, str, float, dict[str, float]]]:
    """What ``docs/strip.py`` has played."""
    file = folder / "strip.ndjson"
    for line in file.read_bytes().splitlines() if file.exists() else ():
        played = msgspec.json.decode(line)
        yield (*played["cell"], played["held_out"])


def _change(before: tuple[float, float], new: dict[str, float]) -> str:
    ratio = new["mean"] / before[0]
    return f"{figure(before[0])} -> {figure(new['mean'])} ± {figure(new['stderr'])}, x{ratio:.2f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
