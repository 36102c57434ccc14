"""The documentation, built once for all tests that look at its pages, and its programs."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from forking import Nursery
from processes import python

RunFile = Callable[[Path, Path], str]
"""Runs the program in a file, in a folder, and returns what it prints when it succeeds."""

SECONDS = 240
PREPARATION = """
import armrace.learner, armrace.reports.exports, armrace.service, armrace.simulation.simulate, numba

numba.njit(lambda x: x + 1)(1)  # loads the compiler
"""
PORT_IN_USE = "ignore:Port 8787 is already in use"
"""What a cluster of Dask says beside another one, such as that of a test in another process."""

ROOT = Path(__file__).parents[2]


def load_script(name: str) -> ModuleType:
    """A program of ``docs/`` as a module; it imports others that lie beside it."""
    if str(ROOT / "docs") not in sys.path:
        sys.path.append(str(ROOT / "docs"))
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, which `make docs` would write; a warning of MkDocs is a failure."""
    folder = tmp_path_factory.mktemp("documentation") / "site"
    done = python(
        *("-m", "mkdocs", "build", "--strict", "--site-dir", folder),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def run_file() -> Iterator[RunFile]:
    """Programs run as a reader would run them, with warnings as errors, but begin prepared."""
    with Nursery.started(PREPARATION, "-W", "error", "-W", PORT_IN_USE) as nursery:

        def run(file: Path, folder: Path) -> str:
            done = nursery.run(file, folder=folder, seconds=SECONDS)
            assert done.returncode == 0, f"{file}\n{done.stdout}\n{done.stderr}"
            return done.stdout

        yield run
