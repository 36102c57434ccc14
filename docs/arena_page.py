"""Write the figures of ``docs/arena_cells.ndjson`` as tables.

``python docs/arena_page.py`` writes all of them to ``docs/arena_budgets.csv``, and three tables of
``docs/arena.md``: the first two and that of the leaders. ``docs/replays.py`` makes the figures. A
test compares page and files.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
import polars as pl
from grid import CHEAP, series_of
from replays import FILE, PARTS

from armrace.formatting import count
from armrace.red_team.batches import worst_standings

PAGE = FILE.with_name("arena.md")
BUDGET_TABLE = FILE.with_name("arena_budgets.csv")
SHOWN = [(name, budget) for name in sorted(CHEAP) for budget in (100.0, 1000.0)]
LEADERS = (
    "optimistic-log-barrier",
    "optimistic-log-barrier, optimism 0.1",
    "lb-inf",
    "tsallis-inf",
)
CHOSEN_AMONG = (*LEADERS, "exp3", "sharp-race", "thompson", "multi-layer-race", "ucb1")
"""The policies whose single cells the page shows."""
_SUMMARY = "| policy | mean | p95 | clicks, C = 100 |"
_OTHERS = "| all others | mean | p95 |"
_OF_LEADERS = "| leaders, "
_NAMES = {"guarded": "guarded, base tsallis-inf"}
"""What the page calls policies whose name alone would not say enough."""


class Figures(NamedTuple):
    """What an attack costs on held-out seeds; the error of some searches was not kept."""

    mean: float
    stderr: float | None
    p95: float
    replications: int

    def __str__(self) -> str:
        error = "" if self.stderr is None else f" ± {count(round(self.stderr))}"
        return f"{count(round(self.mean))}{error} / {count(round(self.p95))}"


Cells = dict[tuple[str, str, float], Figures]


def read_cells() -> Cells:
    """The figures of each environment, policy and budget, in the order of the page."""
    found = {}
    for line in FILE.read_bytes().splitlines():
        row = msgspec.json.decode(line)
        environment, policy, budget = row["cell"]
        found[environment, policy, budget] = Figures(*(row[name] for name in Figures._fields))
    cells = [cell.key[:3] for series in series_of(PARTS, (), ()) for cell in series.cells]
    environments = list(dict.fromkeys(environment for environment, _, _ in cells))
    ordered = sorted(dict.fromkeys(cells), key=lambda cell: environments.index(cell[0]))
    return {
        (environment, _NAMES.get(policy, policy), budget): found[environment, policy, budget]
        for environment, policy, budget in ordered
    }


def with_tables(text: str, cells: Cells) -> str:
    """The page with its tables written from the figures of all cells."""
    frame = pl.DataFrame(
        [
            {"environment": e, "policy": p, "budget": b, "mean": f.mean, "p95": f.p95}
            for (e, p, b), f in cells.items()
        ]
    ).with_columns(all_lost=1e9)
    three = worst_standings(frame.filter(pl.col("environment").is_in(CHEAP)))
    ranks = three.to_dicts()
    chosen = (_summary(cells, row) for row in ranks if row["policy"] in CHOSEN_AMONG)
    text = _replaced(text, _SUMMARY, chosen)
    others = (_relative(row) for row in ranks if row["policy"] not in CHOSEN_AMONG)
    text = _replaced(text, _OTHERS, others)
    own = worst_standings(frame.filter(pl.col("policy").is_in(LEADERS)))
    ranked = sorted(own.to_dicts(), key=lambda row: LEADERS.index(row["policy"]))
    return _replaced(text, _OF_LEADERS, map(_relative, ranked))


def budget_table(cells: Cells) -> str:
    """The figures of all cells as a CSV file, a line for each environment, policy and budget."""
    lines = ["environment,policy,budget,runs,mean,stderr,p95"]
    for (environment, policy, budget), each in cells.items():
        error = "" if each.stderr is None else f"{each.stderr:.1f}"
        figures = f"{each.replications},{each.mean:.1f},{error},{each.p95:.1f}"
        lines.append(f'{environment},"{policy}",{budget:g},{figures}')
    return "\n".join([*lines, ""])


def _relative(row: dict[str, float | str]) -> str:
    return f"| `{row['policy']}` | {row['mean']:.2f} | {row['tail']:.2f} |"


def _summary(cells: Cells, row: dict[str, float | str]) -> str:
    policy = str(row["policy"])
    texts = [str(cells[name, policy, budget]) for name, budget in SHOWN]
    return f"{_relative(row)} {' | '.join(texts)} |"


def _replaced(text: str, heading: str, rows: Iterable[str]) -> str:
    """The page with other rows in the table whose first line begins as ``heading`` does."""
    begin = text.index(heading)
    first, rule, *_ = text[begin:].split("\n\n", maxsplit=1)[0].splitlines()
    end = text.index("\n\n", begin)
    return text[:begin] + "\n".join([first, rule, *rows]) + text[end:]


def main() -> None:
    """Write the page and the file."""
    cells = read_cells()
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), cells), encoding="utf-8")
    BUDGET_TABLE.write_text(budget_table(cells), encoding="utf-8")


if __name__ == "__main__":
    main()
