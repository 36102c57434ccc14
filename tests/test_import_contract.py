"""The import contract covers every algorithm and every attack."""

import tomllib
from pathlib import Path

import pytest

from armrace.adversaries import ADVERSARIES
from armrace.policies import POLICIES

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


@pytest.mark.parametrize(
    ("name", "catalogue"),
    [
        ("algorithms do not know one another", POLICIES),
        ("attacks do not know one another", ADVERSARIES),
    ],
)
def test_the_contract_names_every_module_of_the_catalogue(name, catalogue):
    contracts = tomllib.loads(PROJECT.read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [contract for contract in contracts if contract["name"] == name]
    assert sorted(contract["modules"]) == sorted(m.__module__ for m in catalogue.values())
