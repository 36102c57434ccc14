"""How tests are handed out to several processes: file by file, the longest first."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Several threads for a small product of matrices wait for one another, at full speed: beside other
# processes, it takes ten times the processor time.

ROOT = Path(__file__).parents[1]

LONGEST = (
    "tests/docs/test_examples.py",
    "tests/reports",
    "tests/docs/test_cluster.py",
    "tests/testing/test_contracts.py",
    "tests/cli/test_follow.py",
    "tests/policies/test_other_parameters.py",
    "tests/simulation/test_compilation.py",
    "tests/verification",
    "tests/simulation/test_executors.py",
    "tests/kernels/test_machine_code.py",
    "tests/benchmarks/test_benchmarks.py",
    "tests/service/test_torture.py",
    "tests/docs/test_site.py",
    "tests/docs/test_two_files.py",
    "tests/docs/test_experiments.py",
    "tests/docs/test_example_programs.py",
    "tests/dashboard/test_pages.py",
    "tests/dashboard/test_demo.py",
    "tests/service/log",
)
"""Files and folders that take long, the longest first, so that no process ends with one of them.

The tests of a folder in this list share what is costly to make, and run in one process. Each takes
some 20 seconds of processor time or more, or waits for long. Two files that compile the same are
not both listed: they would do so at the same time.
"""


def _scope(nodeid: str) -> str:
    """The member of the list that a test belongs to, or its file."""
    file = nodeid.split("::", 1)[0]
    return next((each for each in LONGEST if file == each or file.startswith(f"{each}/")), file)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are found, nor later among what was made then.

    Thousands of tests and modules stay until the end.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # in one of several processes
        places = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: places.get(_scope(item.nodeid), len(LONGEST)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class LongestFirst(LoadScopeScheduling):
        """Keeps the order of the collection, and the tests of a file or listed folder together."""

        def _split_scope(self, nodeid: str) -> str:
            return _scope(nodeid)

    for name in LONGEST:
        assert (ROOT / name).exists(), f"tests/conftest.py lists {name}, which is not there"
    config.option.loadscopereorder = False
    return LongestFirst(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two cores: many tests wait for a server, a browser or a program."""
    return (3 * (os.cpu_count() or 2) + 1) // 2
