"""The import contract covers every algorithm and every attack without a list of them."""

import tomllib
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


@pytest.mark.parametrize(
    ("name", "package"),
    [
        ("algorithms do not know one another", "armrace.policies"),
        ("attacks do not know one another", "armrace.adversaries"),
    ],
)
def test_the_contract_covers_a_whole_package(name: str, package: str) -> None:
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == name]
    assert contract["modules"] == [f"{package}.*"]
    base = (f"{package}.* -> {package}.base", f"{package}.** -> {package}.base")
    assert any(line in contract["ignore_imports"] for line in base)
