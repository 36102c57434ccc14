"""The benchmarks of the service run; their figures are for a quiet machine."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from processes import python

ROOT = Path(__file__).parents[2]
TINY = (
    *("--seconds", "1", "--rounds", "1", "--batches", "2", "--connections", "4", "--rate", "100"),
    *("--decisions", "2000", "--open", "400", "--experiments", "2", "6", "--servers", "1", "2"),
    *("--arms", "1000", "--neighbour", "2000"),
)
RATIO = r"ratio \d+\.\d+"


def measure(*parts: str) -> str:
    """What the benchmarks print about some parts, in their smallest form."""
    done = python("-m", "benchmarks.service", *parts, *TINY, cwd=ROOT, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_events_leases_long_logs_and_many_logs_are_measured() -> None:
    printed = measure("process", "leases", "history", "restart")
    assert len(re.findall(RATIO, printed)) == 4
    assert "20 changed" in printed
    assert "equal to the replay of the log without these visits: True" in printed
    assert re.search(r"6 experiments against 2: \d+\.\d+ times as long", printed)


@pytest.mark.long
def test_open_decisions_and_neighbours_are_measured() -> None:
    printed = measure("open", "isolation")
    assert "400 decisions open\n" in printed
    assert "4 voided" in printed
    kinds = re.findall(rf"^beside (\w+): .*{RATIO}$", printed, re.MULTILINE)
    assert kinds == ["audits", "listings", "batches", "rulings", "exports"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_servers_are_measured_beside_a_bare_handler_and_on_one_database() -> None:
    printed = measure("http", "rate", "postgres")
    assert re.search(RATIO, printed)
    assert len(re.findall("^PostgreSQL, .* us of the database", printed, re.MULTILINE)) == 2
    assert not re.search(r"[1-9]\d* wrong", printed)


def test_a_part_that_does_not_exist_is_refused() -> None:
    command = [sys.executable, "-m", "benchmarks.service", "nonsense"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part 'nonsense'; choose from process, leases," in done.stderr
