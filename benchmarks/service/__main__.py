"""Run the benchmarks of the service and print their figures."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.service import history, isolation, sizing, throughput

_BY_WRK = {"http", "postgres"}


def _parts(asked: argparse.Namespace) -> dict[str, Callable[[Path], None]]:
    """Return what can be measured, each as a function of a folder that it may write to."""
    seconds, rounds = asked.seconds, asked.rounds
    return {
        "process": lambda _: throughput.in_process(asked.batches),
        "leases": lambda _: throughput.by_leases(asked.batches),
        "http": lambda _: throughput.over_http(seconds, rounds, asked.connections),
        "rate": lambda _: throughput.at_a_rate(seconds, rounds, asked.rate),
        "postgres": lambda _: throughput.on_postgres(seconds, asked.servers, asked.connections),
        "history": lambda folder: history.measure(folder, asked.decisions, rounds),
        "open": lambda folder: history.measure_open(folder, asked.open),
        "size": lambda folder: sizing.measure(folder, asked.experiments[0], asked.open),
        "restart": lambda folder: history.measure_many(folder, tuple(asked.experiments), rounds),
        "isolation": lambda _: isolation.measure(asked.arms, asked.neighbour, seconds, rounds),
    }


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("parts", nargs="*", help="what to measure; by default everything")
    parser.add_argument("--seconds", type=int, default=5, help="of each load")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of bare handler and service, and starts of a server"
    )
    parser.add_argument("--batches", type=int, default=100, help="of 100 events, in process")
    parser.add_argument("--connections", type=int, default=32, help="to each server")
    parser.add_argument("--rate", type=int, default=3000, help="of the load at a fixed rate")
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2, 4], help="on PostgreSQL")
    parser.add_argument("--decisions", type=int, default=1_000_000, help="of the long log")
    parser.add_argument("--open", type=int, default=100_000, help="decisions that are open")
    parser.add_argument(
        "--experiments", type=int, nargs=2, default=[100, 10_000], help="of two stores"
    )
    parser.add_argument("--arms", type=int, default=10_000, help="of a neighbour's experiment")
    parser.add_argument("--neighbour", type=int, default=100_000, help="visits of its long log")
    asked = parser.parse_args()
    parts = _parts(asked)
    chosen = asked.parts or list(parts)
    if unknown := set(chosen) - parts.keys():
        parser.error(f"there is no part {min(unknown)!r}; choose from {', '.join(parts)}.")
    if shutil.which("wrk") is None and _BY_WRK.intersection(chosen):
        parser.error(f"{', '.join(sorted(_BY_WRK))} need the program wrk (apt-get install wrk).")
    for part in chosen:
        with tempfile.TemporaryDirectory() as folder:
            parts[part](Path(folder))


if __name__ == "__main__":
    main()
