"""The package of the guide is built, installed and used as its page says, without a network."""

import os
import re
import zipfile
from pathlib import Path

import pytest

from processes import python

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "your-own-policy-and-attack.md"
BLOCK = re.compile(r"^```(python|toml|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDED = ("greedy.py", "keep_down.py", "test_greedy.py")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the package, with the files of the page."""
    folder = tmp_path_factory.mktemp("armrace-greedy")
    for language, text in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        name = re.match(r"# (\w+\.py)\n", text)
        if language == "toml":
            (folder / "pyproject.toml").write_text(text, encoding="utf-8")
        elif name and name[1] in NEEDED:
            (folder / name[1]).write_text(text, encoding="utf-8")
    assert {path.name for path in folder.iterdir()} == {*NEEDED, "pyproject.toml"}
    return folder


@pytest.fixture(scope="module")
def installed(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages in which the wheel is installed."""
    wheels = tmp_path_factory.mktemp("wheels")
    done = python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels), cwd=package)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = wheels.glob("armrace_greedy-1.0-*.whl")
    folder = tmp_path_factory.mktemp("installed")
    zipfile.ZipFile(wheel).extractall(folder)
    assert not (folder / "test_greedy.py").exists()
    return folder


def run(arguments: list[str], folder: Path, installed: Path) -> str:
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = python("-m", *arguments, cwd=folder, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_policy_and_its_attack_are_named_like_any_other(
    installed: Path, tmp_path: Path
) -> None:
    assert "fading-greedy" in run(["armrace", "policies", "--json", "-"], tmp_path, installed)
    (commands,) = (text for kind, text in BLOCK.findall(PAGE.read_text()) if kind == "sh")
    compare = commands.splitlines()[1].split()
    assert compare[:2] == ["armrace", "compare"]
    short = ["--horizon", "500", "--replications", "2", "--no-worst", "--json", "-"]
    printed = run([*compare, *short], tmp_path, installed)
    assert '"fading-greedy"' in printed
    assert '"keep-down"' in printed


def test_its_tests_pass(package: Path, installed: Path, tmp_path: Path) -> None:
    """Some of them: the page's own blocks run all checks of the policy."""
    options = [
        "-q",
        "-k",
        "json or attack",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(tmp_path),
    ]
    printed = run(["pytest", *options, str(package / "test_greedy.py")], tmp_path, installed)
    assert "2 passed" in printed
