"""A sweep over attacks and budgets in a folder: interrupted, it resumes where it stopped.

The command line does the work; the second run finds the results of the first.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

SWEEP = [
    *("compare", "--policies", "optimistic-log-barrier,ucb1", "--means", "0.6,0.4"),
    *("--attack", "zero-best,double-impact", "--horizon", "20000", "--replications", "10"),
    *("--seed", "1", "--no-worst", "--no-report"),
]


def sweep(folder: Path, budgets: str) -> None:
    """Run the sweep for some budgets; what the folder holds is not played again."""
    options = ["--budget", budgets, "--folder", "runs"]
    command = [sys.executable, "-m", "armrace", *SWEEP, *options]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def main() -> None:
    """Run a part of the sweep, then all of it, and count what was played again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sweep(folder, "100")
        first = {file: file.stat().st_mtime_ns for file in (folder / "runs").rglob("*.parquet")}
        sweep(folder, "100,300")
        again = {file: file.stat().st_mtime_ns for file in (folder / "runs").rglob("*.parquet")}
        kept = sum(again.get(file) == time for file, time in first.items())
        print(
            f"{len(first)} results of the first run, {kept} of them kept, {len(again)} at the end"
        )


if __name__ == "__main__":
    main()
