"""Whatever a user can name is in the documentation."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.environments import ENVIRONMENTS
from armrace.online import Learner
from armrace.planning import Plan, make_question
from armrace.policies import POLICIES
from armrace.service import Service
from armrace.verification import Verification, verify

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
PUBLIC = (
    "armrace",
    "armrace.adversaries",
    "armrace.checking",
    "armrace.environments",
    "armrace.errors",
    "armrace.evaluation",
    "armrace.extending",
    "armrace.forensics",
    "armrace.logs",
    "armrace.online",
    "armrace.planning",
    "armrace.policies",
    "armrace.service",
    "armrace.simulation",
    "armrace.statistics",
    "armrace.theory",
    "armrace.verification",
)


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named_in(page: str) -> set[str]:
    """Every word in code spans of a page."""
    return {word for span in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", span)}


def generator() -> ModuleType:
    specification = importlib.util.spec_from_file_location("generate", ROOT / "docs/generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


CATALOGUES = [("policies", POLICIES), ("attacks", ADVERSARIES), ("environments", ENVIRONMENTS)]


@pytest.mark.parametrize(("page", "catalogue"), CATALOGUES, ids=[name for name, _ in CATALOGUES])
def test_every_member_of_a_catalogue_is_described(page: str, catalogue: Any) -> None:
    text = read(REFERENCE / f"{page}.md")
    readme = read(ROOT / "README.md")
    for name, member in catalogue.items():
        assert f"\n## `{name}`\n" in text
        assert f"`{name}`" in readme
        for parameter in member.parameters():
            assert f"| `{parameter.name}` |" in text.split(f"\n## `{name}`\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_described(module: str) -> None:
    names = set(importlib.import_module(module).__all__)
    pages = ("python", *(page for page, _ in CATALOGUES))
    assert names <= set().union(*(named_in(read(REFERENCE / f"{page}.md")) for page in pages))


@pytest.mark.parametrize(
    "function",
    [
        armrace.simulate,
        armrace.compare,
        armrace.replay,
        Learner.__init__,
        Service.create,
        make_question,
        verify,
    ],
)
def test_every_argument_is_described(function: Any) -> None:
    arguments = set(inspect.signature(function).parameters) - {"self"}
    assert arguments <= named_in(read(REFERENCE / "python.md"))


@pytest.mark.parametrize(
    "kind",
    [armrace.Result, armrace.Comparison, armrace.Replay, Learner, Plan, Service, Verification],
)
def test_every_attribute_is_described(kind: type) -> None:
    attributes = {name for name in vars(kind) if not name.startswith("_")} - {"from_outcomes"}
    assert attributes <= named_in(read(REFERENCE / "python.md"))


def test_every_command_and_option_is_described() -> None:
    text = read(REFERENCE / "command-line.md")
    commands = generator().commands()
    assert {"simulate", "compare", "policies", "attacks", "scenarios"} <= commands.keys()
    for name, command in commands.items():
        heading = re.search(rf"^## `armrace {name}\b.*$", text, re.MULTILINE)
        assert heading, name
        section = text[heading.end() :].split("\n## ")[0]
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                assert all(f"`{flag}`" in section for flag in option.opts), option.opts


def test_generated_pages_are_up_to_date() -> None:
    for path, expected in generator().pages().items():
        assert read(path) == expected, f"run python docs/generate.py: {path.name} has changed"


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    index = read(folder / "index.md")
    for page in folder.glob("[0-9]*.md"):
        assert f"({page.name})" in index
        assert read(page).startswith(f"# {page.name[:3]}: ")


def test_changelog_has_this_version() -> None:
    unfinished = ".dev" in armrace.__version__
    heading = "[Unreleased]\n" if unfinished else f"[{armrace.__version__}] - "
    assert f"\n## {heading}" in read(ROOT / "CHANGELOG.md")
