"""The package as others get it: built, installed with its base dependencies alone, and run.

`make package` does the same with pip and a new virtual environment.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest

import armrace

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "armrace"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOMES = {"no home": {}, "a home that is not there": {"HOME": "/nonexistent"}}
DROP_CAPABILITY, OVERRIDE_PERMISSIONS = 24, 1
"""Of Linux's ``prctl``: with the second dropped, permissions of files apply to root too."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {
        f"armrace/{path.relative_to(SOURCES).as_posix()}"
        for path in SOURCES.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert "armrace/py.typed" in expected
    assert {name for name in names if ".dist-info/" not in name} == expected
    assert wheel.name == f"armrace-{armrace.__version__}-py3-none-any.whl"


def test_the_source_distribution_builds_the_same_and_carries_the_documents(
    built: tuple[Path, Path],
) -> None:
    _, source = built
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "SECURITY.md",
        "pyproject.toml",
    }
    assert wanted <= names
    assert not [name for name in names if name.startswith((".venv", "site/", "dist/"))]


def test_metadata_says_which_versions_of_python_it_runs_on(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    (name,) = (n for n in zipfile.ZipFile(wheel).namelist() if n.endswith("/METADATA"))
    metadata = zipfile.ZipFile(wheel).read(name).decode()
    for version in ("3.11", "3.12", "3.13"):
        assert f"Classifier: Programming Language :: Python :: {version}\n" in metadata
    assert "Classifier: Typing :: Typed\n" in metadata
    assert "Requires-Python: >=3.11\n" in metadata


def base_distributions() -> list[Distribution]:
    """The base dependencies with theirs, as they are installed here, without any extra."""
    found: dict[str, Distribution] = {}
    waiting = list(PROJECT["dependencies"])
    while waiting:
        name = re.split(r"[^\w.-]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name not in found:
            found[name] = distribution(name)
            requirements = found[name].requires or []
            waiting += [each for each in requirements if ";" not in each]
    return list(found.values())


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path]) -> Iterator[Path]:
    """A virtual environment with the wheel and its base dependencies, which nobody may change."""
    folder = Path(tempfile.mkdtemp(prefix="armrace-package-"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    for each in base_distributions():
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] != ".."}:
            origin = Path(str(each.locate_file(top)))
            if origin.exists() and not (packages / top).exists():
                (packages / top).symlink_to(origin)
    zipfile.ZipFile(built[0]).extractall(packages)
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o555 if path.is_dir() or path.parent.name == "bin" else 0o444)
    yield folder
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder)


def obey_permissions() -> None:
    """Called in the child process: root may then write only where its permissions allow it."""
    ctypes.CDLL(None).prctl(DROP_CAPABILITY, OVERRIDE_PERMISSIONS, 0, 0, 0)


@pytest.fixture(scope="module")
def temporary() -> Iterator[Path]:
    """Where temporary files may be written, such as the machine code of the first comparison."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def run_there(environment: Path, *arguments: str, **variables: str) -> str:
    """Run a program with no variables but these, as one who may not change the environment."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [str(environment / "bin" / "python"), *arguments],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "TMPDIR": folder, **variables},
            preexec_fn=obey_permissions if os.geteuid() == 0 else None,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_cannot_be_written(environment: Path) -> None:
    script = """
import armrace, pathlib
try:
    (pathlib.Path(armrace.__file__).parent / "new").write_text("")
except PermissionError:
    print("refused")
"""
    assert run_there(environment, "-c", script) == "refused\n"


def test_nothing_but_base_dependencies_is_there(environment: Path) -> None:
    script = "import importlib.util as u; print([n for n in %r if u.find_spec(n)])"
    extras = ("apsw", "starlette", "uvicorn", "httpx", "psycopg", "scipy", "distributed", "pytest")
    assert run_there(environment, "-c", script % (extras,)) == "[]\n"
    assert run_there(environment, "-m", "armrace", "--version") == (
        f"armrace {armrace.__version__} (figures {armrace.FIGURES})\n"
    )


@pytest.mark.parametrize(
    "home",
    [
        pytest.param(HOMES["no home"], id="no home", marks=pytest.mark.long),
        pytest.param(HOMES["a home that is not there"], id="a home that is not there"),
    ],
)
def test_a_comparison_runs_without_a_home_where_nothing_can_be_written(
    environment: Path, temporary: Path, home: dict[str, str]
) -> None:
    printed = run_there(
        environment,
        *("-m", "armrace", "compare", "--policies", "ucb1", "--means", "0.6,0.4"),
        *("--attack", "zero-best", "--budget", "20", "--horizon", "1000"),
        *("--replications", "2", "--no-worst", "--json", "-"),
        TMPDIR=str(temporary),
        **home,
    )
    assert '"ucb1"' in printed
