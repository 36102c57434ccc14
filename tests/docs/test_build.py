"""The documentation builds, its links lead somewhere, and it needs nobody else's server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
EXTERNAL_ASSET = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//""")


def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", h).strip().lower()) for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in LINK.findall(prose(page)):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.is_file(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


def test_it_builds_without_warnings_and_stands_alone(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        assert not EXTERNAL_ASSET.search(page.read_text(encoding="utf-8")), page.name


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """Pages of the guide and decisions are found by patterns, so that none is forgotten."""
    home = (site / "decisions" / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "decisions").glob("[0-9]*.md"):
        assert f'href="{page.stem}.html" class="md-nav__link"' in home, page.name
    start = (site / "guide" / "getting-started.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs" / "guide").glob("*.md"):
        if page.stem != "getting-started":
            assert f'href="{page.stem}.html" class="md-nav__link"' in start, page.name


def test_the_navigation_has_few_tabs() -> None:
    """Six tabs take a row from 700 pixels on."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    assert len(re.findall(r"^  - ", nav, re.MULTILINE)) <= 6


def test_the_home_page_says_how_to_install() -> None:
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert "$ python -m pip install '.[service]'\n" in home
