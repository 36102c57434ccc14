"""Every link of the companion leads somewhere: to code, to a claim, to an erratum, to a figure."""

import pkgutil
import re
from pathlib import Path

import pytest

from armrace.reproduction import PAPERS, Item
from armrace.verification.verify import QUICK, make_claims

ROOT = Path(__file__).parents[2]
PAPER = PAPERS["lykouris-mirrokni-paes-leme-2018"]


@pytest.fixture(scope="module")
def claims() -> set[tuple[str, str]]:
    return {(claim.claim, claim.policy) for claim in make_claims(None, QUICK, 0)}


@pytest.fixture(scope="module")
def errata() -> set[int]:
    page = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    return {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}


@pytest.mark.parametrize("item", PAPER.items, ids=lambda item: item.name)
def test_every_link_leads_somewhere(
    item: Item, claims: set[tuple[str, str]], errata: set[int]
) -> None:
    assert item.code
    for place in item.code:
        assert pkgutil.resolve_name(place).__doc__, place
    assert claims.issuperset(item.claims)
    assert errata.issuperset(item.errata)
    assert item.study in {"", *(study.name for study in PAPER.studies)}


def test_the_paper_is_there_from_its_model_to_its_appendix(errata: set[int]) -> None:
    names = [item.name for item in PAPER.items]
    numbered = [*(f"Theorem {n}" for n in range(1, 7)), *(f"Lemma {n}" for n in range(1, 5))]
    assert set(numbered) <= set(names)
    assert {number for item in PAPER.items for number in item.errata} == errata
    assert {item.study for item in PAPER.items} >= {study.name for study in PAPER.studies}
