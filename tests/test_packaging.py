"""The package as others get it: built, installed with its base dependencies alone, and run.

`make package` does the same with pip and a new virtual environment.
"""

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
from packaging.requirements import Requirement

import armrace
import armrace_client
from processes import python

ROOT = Path(__file__).parents[1]
PACKAGES = [ROOT / "src" / "armrace", ROOT / "client" / "src" / "armrace_client"]
PROJECT, CLIENT = (
    tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in (ROOT, ROOT / "client")
)
HOMES = {"no home": {}, "a home that is not there": {"HOME": "/nonexistent"}}
DROP_CAPABILITY, OVERRIDE_PERMISSIONS = 24, 1
"""Of Linux's ``prctl``: with the second dropped, permissions of files apply to root too."""


def build(project: Path, folder: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution of a project."""
    done = python("-m", "build", "--no-isolation", "--outdir", str(folder), str(project))
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution of the whole."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the client alone."""
    return build(ROOT / "client", tmp_path_factory.mktemp("client"))[0]


def modules_of(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def files_of(package: Path) -> set[str]:
    return {
        path.relative_to(package.parent).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_the_package_and_nothing_else(built: tuple[Path, Path]) -> None:
    wheel, _ = built
    expected = set().union(*map(files_of, PACKAGES))
    assert {"armrace/py.typed", "armrace_client/py.typed"} <= expected
    assert modules_of(wheel) == expected
    assert wheel.name == f"armrace-{armrace.__version__}-py3-none-any.whl"


def test_the_wheel_of_the_client_holds_the_client_alone(client: Path) -> None:
    assert modules_of(client) == files_of(PACKAGES[1])
    assert client.name == f"armrace_client-{armrace.__version__}-py3-none-any.whl"
    assert armrace_client.__version__ == armrace.__version__
    (name,) = (n for n in zipfile.ZipFile(client).namelist() if n.endswith("/METADATA"))
    needed = re.findall(
        r"^Requires-Dist: ([\w-]+)", zipfile.ZipFile(client).read(name).decode(), re.M
    )
    assert set(needed) == {"httpx2", "msgspec"}
    assert {each.split(">")[0] for each in CLIENT["dependencies"]} <= {
        each.split(">")[0] for each in PROJECT["dependencies"]
    }


def test_the_client_runs_with_its_own_dependencies_alone(client: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    link_distributions(packages, CLIENT["dependencies"])
    zipfile.ZipFile(client).extractall(packages)
    script = """
import sys
from armrace_client import Client, ArmraceError
try:
    Client("http://127.0.0.1:9", retries=0).names()
except ArmraceError as error:
    print(error.code, sorted({"armrace", "numpy", "numba"} & sys.modules.keys()))
"""
    done = python("-S", "-c", script, cwd=tmp_path, env={"PYTHONPATH": str(packages)})
    assert done.stdout == "service-unreachable []\n", done.stderr


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


def base_distributions(dependencies: list[str]) -> list[Distribution]:
    """Dependencies with theirs, as they are installed here, without any extra."""
    found: dict[str, Distribution] = {}
    waiting = list(dependencies)
    while waiting:
        name = re.split(r"[^\w.-]", waiting.pop(), maxsplit=1)[0].lower().replace("_", "-")
        if name not in found:
            found[name] = distribution(name)
            requirements = found[name].requires or []
            needed = [Requirement(each) for each in requirements]
            waiting += [
                each.name
                for each in needed
                if each.marker is None or each.marker.evaluate({"extra": ""})
            ]
    return list(found.values())


def link_distributions(packages: Path, dependencies: list[str]) -> None:
    """Make links in a folder to dependencies that are installed here."""
    for each in base_distributions(dependencies):
        for top in {file.parts[0] for file in each.files or [] if file.parts[0] != ".."}:
            origin = Path(str(each.locate_file(top)))
            if origin.exists() and not (packages / top).exists():
                (packages / top).symlink_to(origin)


@pytest.fixture(scope="module")
def environment(built: tuple[Path, Path]) -> Iterator[Path]:
    """A virtual environment with the wheel and its base dependencies, which nobody may change."""
    folder = Path(tempfile.mkdtemp(prefix="armrace-package-"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3*/site-packages")
    link_distributions(packages, PROJECT["dependencies"])
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
    service = ("apsw", "prometheus_client", "starlette", "uvicorn", "psycopg")
    extras = (*service, "scipy", "distributed", "pytest")
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
