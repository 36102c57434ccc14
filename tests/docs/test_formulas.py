"""Formulas stay in their sentences, wherever in a line of the source they stand."""

import re
from html.parser import HTMLParser
from pathlib import Path

import markdown
import pytest

from docs.conftest import load_script

DOCS = Path(__file__).parents[2] / "docs"
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
FORMULA = re.compile(r"\$[^$]+\$")
HOLDERS = {"p", "li", "td", "th", "h1", "h2", "h3"}


def render(source: str) -> str:
    module = load_script("mathml")
    named = module.on_page_markdown(source)
    page = markdown.markdown(named, extensions=["tables", "fenced_code", "toc"])
    return str(module.on_page_content(page))


class Formulas(HTMLParser):
    """The elements around each formula, and the text beside it in the nearest one."""

    def __init__(self) -> None:
        super().__init__()
        self.path: list[str] = []
        self.found: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "math":
            self.found.append(list(self.path))
        if tag not in ("br", "img", "hr", "input"):
            self.path.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self.path and self.path.pop() != tag:
            pass


@pytest.mark.parametrize(
    "page",
    [page for page in sorted(DOCS.rglob("*.md")) if "$" in page.read_text()],
    ids=lambda page: page.name,
)
def test_every_formula_of_a_page_is_part_of_a_paragraph(page: Path) -> None:
    source = page.read_text(encoding="utf-8")
    formulas = Formulas()
    formulas.feed(render(source))
    assert len(formulas.found) == len(FORMULA.findall(CODE.sub("", source)))
    assert all(HOLDERS & set(path) for path in formulas.found)


def test_code_keeps_its_dollar_signs() -> None:
    assert "<math" not in render("`a $b$ c`\n\n```text\n$ armrace $ verify\n```\n")
