"""The peers, side by side: one table of what each takes for the same things.

A simulated round of UCB1, Thompson sampling, EXP3 and Tsallis-INF where they have it, one decision
with its reward, the import and the memory; armrace beside them, and the plain C loop as the limit.
Parameters are each library's own defaults where the algorithms differ in them: this is about
time, and ``benchmarks.agreement_with_peers`` is about whether they do the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

import armrace
from benchmarks.footprint import import_milliseconds, peak_megabytes
from benchmarks.libraries import PEERS, Peer, Unavailable, interpreter, play
from benchmarks.live import learner_microseconds
from benchmarks.plain_c import compile_program, compiler, run_program
from benchmarks.problem import ARMS, HARD, run_armrace
from benchmarks.speed import HORIZON

__all__ = ["ALGORITHMS", "OURS", "Library", "libraries", "side_by_side_table"]

ALGORITHMS = {
    "ucb1": "UCB1",
    "thompson": "Thompson",
    "exp3": "EXP3",
    "tsallis-inf": "Tsallis-INF",
}
OURS = "armrace"
_ROUNDS, _REPEATS = 5_000, 3
_TURNS = 3
_LIVE_BLOCKS = 20


@dataclass
class Library:
    """What one library takes; what it lacks is not there, what failed is in ``note``."""

    name: str
    version: str = ""
    nanoseconds: dict[str, float] = field(default_factory=dict)
    """A simulated round, by armrace's name of the algorithm."""
    microseconds: dict[str, float] = field(default_factory=dict)
    """A decision and its reward, likewise."""
    import_milliseconds: float | None = None
    megabytes: float | None = None
    note: str = ""

    def to_builtins(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def libraries() -> Iterator[Library]:
    """The limit, armrace, and all peers in turn."""
    if compiler() is not None:
        yield _plain_c()
    yield _armrace()
    for peer in PEERS:
        yield _peer(peer)


def _plain_c() -> Library:
    program = compile_program("ucb1")
    runs = [run_program(program, HARD, HORIZON, 1, seed) for seed in range(_TURNS)]
    return Library("plain C", nanoseconds={"ucb1": min(r.nanoseconds(HORIZON) for r in runs)})


def _armrace() -> Library:
    ours = Library(OURS, armrace.__version__)
    for name in ALGORITHMS:
        run_armrace(name, HARD, 1, 1, seed=0)  # compiles, or loads what is compiled
        runs = [run_armrace(name, HARD, HORIZON, 1, seed) for seed in range(_TURNS)]
        ours.nanoseconds[name] = min(run.nanoseconds(HORIZON) for run in runs)
        ours.microseconds[name] = learner_microseconds(name, ARMS, _LIVE_BLOCKS)
    ours.import_milliseconds = import_milliseconds("armrace.simulation", _REPEATS)
    ours.megabytes = peak_megabytes("ucb1", _ROUNDS)
    return ours


def _peer(peer: Peer) -> Library:
    theirs = Library(peer.name)
    try:
        for name in ALGORITHMS:
            measured = play(peer, name, _ROUNDS, _REPEATS)
            theirs.version = measured["version"]
            if measured["has"]:
                theirs.nanoseconds[name] = min(measured["seconds"]) / _ROUNDS * 1e9
                theirs.microseconds[name] = measured["live"][str(ARMS)]
                theirs.megabytes = max(theirs.megabytes or 0.0, measured["megabytes"])
        theirs.import_milliseconds = import_milliseconds(peer.module, _REPEATS, interpreter(peer))
    except Unavailable as reason:
        theirs.note = str(reason)
    return theirs


def side_by_side_table(rows: list[Library]) -> Table:
    """A column a library, with its ratio to armrace behind each figure."""
    ours = next(row for row in rows if row.name == OURS)
    table = Table(title="the peers, side by side (in brackets: times armrace)")
    table.add_column("")
    for row in rows:
        table.add_column(f"{row.name}\n{row.version}", justify="right")
    for name, title in ALGORITHMS.items():
        cells = (_cell(row.nanoseconds.get(name), ours.nanoseconds[name]) for row in rows)
        table.add_row(f"{title}, ns a round", *cells)
    for name, title in ALGORITHMS.items():
        cells = (_cell(row.microseconds.get(name), ours.microseconds[name]) for row in rows)
        table.add_row(f"{title}, us a decide + learn", *cells)
    imports = (_cell(row.import_milliseconds, ours.import_milliseconds) for row in rows)
    table.add_row("import, ms", *imports)
    table.add_row("peak memory, MB", *(_cell(row.megabytes, ours.megabytes) for row in rows))
    if any(row.note for row in rows):
        table.add_row("", *(row.note for row in rows))
    return table


def _cell(value: float | None, ours: float | None) -> str:
    """A figure and its ratio, or nothing where there is none.

    >>> _cell(8800.0, 55.0), _cell(None, 55.0)
    ('8,800 (160)', '')
    """
    if value is None or not ours:
        return ""
    return f"{_shown(value)} ({_shown(value / ours)})"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
