"""Whatever a user can name is in the documentation."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.environments import ENVIRONMENTS
from armrace.policies import POLICIES
from armrace.service import open_service
from armrace.service.http.application import create_application
from armrace.service.http.endpoints import ENDPOINTS, Endpoint
from armrace.service.http.server import ServerSettings
from armrace.service.model.settings import Settings
from armrace_client.operations import Create, Ruling
from docs.conftest import load_script
from public_modules import PUBLIC

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def named_in(page: str) -> set[str]:
    """Every word in code spans of a page."""
    return {word for span in re.findall(r"`([^`\n]+)`", page) for word in re.findall(r"\w+", span)}


CATALOGUES = [("policies", POLICIES), ("attacks", ADVERSARIES), ("environments", ENVIRONMENTS)]


@pytest.mark.parametrize(("page", "catalogue"), CATALOGUES, ids=[name for name, _ in CATALOGUES])
def test_every_member_of_a_catalogue_is_described(page: str, catalogue: Any) -> None:
    text = read(REFERENCE / f"{page}.md")
    rules = read(REFERENCE / "rules.md")
    for name, member in catalogue.items():
        assert f"\n| `{name}`" in text
        assert f"\n::: {member.__module__}.{member.__name__}\n" in rules


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_described(module: str) -> None:
    names = set(importlib.import_module(module).__all__)
    pages = [read(REFERENCE / f"{page}.md") for page in ("python", "errors")]
    shown = set(re.findall(r"^::: [\w.]+\.(\w+)$", read(REFERENCE / "rules.md"), re.MULTILINE))
    assert names <= shown.union(*map(named_in, pages))


def test_every_command_and_option_is_described() -> None:
    text = read(REFERENCE / "command-line.md")
    commands = load_script("generate").commands()
    assert {"simulate", "compare", "policies", "attacks", "scenarios"} <= commands.keys()
    for name, command in commands.items():
        heading = re.search(rf"^## `armrace {name}\b.*$", text, re.MULTILINE)
        assert heading, name
        section = text[heading.end() :].split("\n## ")[0]
        if name == "serve":
            section = read(REFERENCE / "service.md").split("\n## Settings of the server\n")[1]
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                assert all(f"`{flag}`" in section for flag in option.opts), option.opts


def test_every_endpoint_is_described_with_its_fields() -> None:
    """What the fields mean is in the docstrings of the operations, from which signatures come."""
    page = read(REFERENCE / "service.md")
    settings = page.split("\n## Settings of an experiment\n")[1].split("\n## ")[0]
    for each in ENDPOINTS:
        section = page.split(f"\n### `{each.route.method} {each.path}`\n")[1].split("\n### ")[0]
        if not section.startswith("\nAs `"):
            section += settings if each.kind is Create else ""
            told = set(Ruling.__struct_fields__) if "`Ruling`" in section else set()
            assert set(each.rest.__struct_fields__) <= named_in(section) | told, each.name


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.name)
def test_every_argument_of_an_operation_is_described(endpoint: Endpoint) -> None:
    assert set(endpoint.kind.__struct_fields__) == endpoint.arguments.keys()


def test_every_address_that_the_application_answers_is_described() -> None:
    page = read(REFERENCE / "service.md")
    with open_service(":memory:") as service:
        routes = create_application(service, declared_open=True).app.routes
        paths = [route.path.replace(":path", "") for route in routes]
    assert len(paths) > 25
    for path in paths:
        assert f" {path}`" in page, path


def test_every_setting_is_described() -> None:
    page = read(REFERENCE / "service.md")
    of_experiments, of_servers = page.split("\n## Settings of ")[1:3]
    # What is made of ``context``, ``leaves``, ``arm_values`` and the like, and a secret.
    made = {"schema", "feature_key", "arm_codes"}
    for name in {*Settings.__struct_fields__, *Create.__struct_fields__} - made:
        assert f"\n| `{name}` | " in of_experiments, name
    for name in ServerSettings._fields:
        assert f" `{name}` |" in of_servers, name
    for option in load_script("generate").commands()["serve"].params:
        assert option.name == "help" or f"| `{option.opts[0]}` |" in of_servers
        assert option.envvar is None or f"`{option.envvar}`" in of_servers


def test_every_error_is_described() -> None:
    page = read(REFERENCE / "errors.md")
    found = load_script("service_pages").error_classes()
    assert {"invalid-parameter", "too-often", "contract-broken"} <= {kind.code for kind in found}
    for kind in found:
        assert f"\n| `{kind.code}` | `{kind.__module__}.{kind.__name__}` | " in page


@pytest.mark.parametrize("catalogue", [POLICIES, ADVERSARIES], ids=["policies", "attacks"])
def test_every_policy_and_attack_says_how_it_was_checked(catalogue: Any) -> None:
    for tag, member in catalogue.items():
        if member.__module__.startswith("armrace."):
            assert member.source_note, f"{tag} says no source"
            assert member.reference, tag


def test_every_console_option_of_a_page_exists() -> None:
    """Blocks that are not run, because they start a server for instance, name real options."""
    commands = load_script("generate").commands()
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for line in re.findall(r"^(?:\$ )?armrace ([a-z-]+) (.*)$", read(page), re.MULTILINE):
            name, rest = line
            if name in commands:
                known = {
                    flag for p in commands[name].params for flag in (*p.opts, *p.secondary_opts)
                }
                assert set(re.findall(r"(?<= )--[a-z-]+", f" {rest}")) <= known, (page.name, line)


def test_generated_pages_are_up_to_date() -> None:
    for path, expected in load_script("generate").pages().items():
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


def test_citation_has_this_version_and_the_date_of_its_release() -> None:
    citation = read(ROOT / "CITATION.cff")
    released = re.search(
        rf"^## \[{re.escape(armrace.__version__)}\] - (\S+)$",
        read(ROOT / "CHANGELOG.md"),
        re.MULTILINE,
    )
    assert released is not None
    assert f"\nversion: {armrace.__version__}\n" in citation
    assert f"\ndate-released: {released[1]}\n" in citation
