"""The site, built once: it stands alone, and a browser shows it well, on a desk and on a phone."""

import functools
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.environments import ENVIRONMENTS
from armrace.learner import Learner
from armrace.planning import Plan
from armrace.policies import POLICIES
from armrace.service import Service
from armrace.verification import Verification
from armrace_client import Client, LeasedExperiment
from browsing import DESK, PHONE, chromium, overflow, severe_violations
from docs.test_completeness import named_in

DOCS = Path(__file__).parents[2] / "docs"
THEORY = ("theory.html", "errata.html")
KINDS = (
    "index.html",
    "errata.html",
    "guide/under-attack.html",
    "reference/errors.html",
)
"""One page of each kind, for checks that take long."""
GENERATED = ("reference/signatures.html",)
"""Takes as long as all other kinds together."""
IN_THE_DARK = ("index.html", "guide/under-attack.html")
"""Text, tables and code, whose colours all pages share."""

SEARCHES = {
    "void forged visits": "guide/under-attack.html",
    "optimistic-log-barrier": "reference/rules.html",
    "what a forger may know": "guide/what-a-forger-may-know.html",
    "ARMRACE_PORT": "reference/service.html",
    "errata": "errata.html",
    "unwritable-output": "reference/errors.html",
}
EXTERNAL_ASSET = re.compile(r"""<(?:script|link|img)[^>]+(?:src|href)=["'](?:https?:)?//""")
LONELY = """() => {
  const rectangles = (block, formula) => {
    const found = [];
    let words = false;
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (formula.contains(node) || !node.data.trim()) continue;
      words ||= /[^\\s.,;]/.test(node.data);
      const range = document.createRange();
      range.selectNodeContents(node);
      found.push(...range.getClientRects());
    }
    return words ? found : [];
  };
  const beside = (a, b) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 4;
  return [...document.querySelectorAll(".md-content math")].map((formula) => {
    const block = formula.closest("p, li, td, th, h1, h2, h3, h4, dd");
    const own = formula.getBoundingClientRect();
    if (block === null) return ["outside of a paragraph", formula.textContent];
    const others = rectangles(block, formula);
    if (others.length === 0) return [block.tagName, formula.textContent];
    const display = getComputedStyle(formula).display;
    if (display.startsWith("block")) return ["a block", formula.textContent];
    if (others.some((each) => beside(own, each)) || /T[DH]/.test(block.tagName)) return null;
    return own.width > 0.5 * block.clientWidth ? null : ["a line of its own", formula.textContent];
  }).filter((each) => each !== null);
}"""
"""Formulas that are alone: in a block without any other text, or in a line that has room."""


EMPTY_INDEX = {"config": {"lang": ["en"], "separator": " ", "pipeline": []}, "docs": []}


def open_context(browser: Browser, **options: Any) -> BrowserContext:
    """Open a context whose pages search nothing.

    Every page that is opened would read the index of the whole site, which takes as much processor
    time as all the rest.
    """
    context = browser.new_context(**options)
    context.route("**/search/search_index.json", lambda route: route.fulfill(json=EMPTY_INDEX))
    return context


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def pages(site: Path) -> list[str]:
    found = sorted(page.relative_to(site).as_posix() for page in site.rglob("*.html"))
    assert len(found) > 55
    return [page for page in found if page != "404.html"]


def test_it_builds_without_warnings_and_stands_alone(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    for page in pages:
        assert not EXTERNAL_ASSET.search(page.read_text(encoding="utf-8")), page.name


MEMBERS = [
    armrace.Result,
    armrace.Comparison,
    armrace.Replay,
    Client,
    Learner,
    LeasedExperiment,
    Plan,
    Service,
    Verification,
]


@pytest.mark.parametrize("kind", MEMBERS)
def test_every_attribute_is_described(site: Path, kind: type) -> None:
    """On the page of signatures, or, operations of the service, on its page."""
    page = (site / "reference" / "signatures.html").read_text(encoding="utf-8")
    full = f"{kind.__module__}.{kind.__qualname__}."
    described = {each.removeprefix(full) for each in re.findall(r'id="([\w.]+)"', page)}
    for name in ("service", "python"):
        described |= named_in((DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8"))
    own = [base for base in kind.__mro__ if base.__module__.startswith(("armrace.", "armrace_"))]
    names = {name for base in own for name in vars(base) if not name.startswith("_")}
    assert names - {"from_outcomes"} <= described


def test_every_parameter_of_a_catalogue_is_described(site: Path) -> None:
    page = (site / "reference" / "rules.html").read_text(encoding="utf-8")
    for catalogue in (POLICIES, ADVERSARIES, ENVIRONMENTS):
        for member in catalogue.values():
            section = page.split(f'id="{member.__module__}.{member.__name__}"')[1].split("<h3")[0]
            for parameter in member.parameters():
                assert f">{parameter.name}</code></td>" in section, parameter.name


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """Pages of the guide and decisions are found by patterns, so that none is forgotten."""
    home = (site / "decisions" / "index.html").read_text(encoding="utf-8")
    for page in (DOCS / "decisions").glob("[0-9]*.md"):
        assert f'href="{page.stem}.html" class="md-nav__link"' in home, page.name
    start = (site / "guide" / "getting-started.html").read_text(encoding="utf-8")
    for page in (DOCS / "guide").glob("*.md"):
        if page.stem != "getting-started":
            assert f'href="{page.stem}.html" class="md-nav__link"' in start, page.name


@pytest.mark.parametrize("decisions", [False, pytest.param(True, marks=pytest.mark.long)])
def test_no_page_is_wider_than_a_phone_and_none_asks_another_host(
    browser: Browser, address: str, pages: list[str], decisions: bool
) -> None:
    """Decisions, which are nearly half of the pages, hold little but text."""
    chosen = [name for name in pages if name.startswith("decisions/") == decisions]
    context = open_context(browser, viewport=PHONE, reduced_motion="reduce")
    page = context.new_page()
    asked: set[str] = set()
    page.on("request", lambda request: asked.add(request.url))
    wide = {}
    for name in chosen:
        page.goto(address + name)
        if overflow(page) > 0:
            wide[name] = overflow(page)
    context.close()
    assert wide == {}
    assert {url for url in asked if not url.startswith((address, "data:", "blob:"))} == set()
    assert len(asked) > len(chosen) > 15


def formulas_set_alone(source: str) -> list[str]:
    """The formulas that are a whole paragraph, item or cell of the source."""
    plain = re.sub(r"```.*?```", "", source, flags=re.DOTALL)
    alone = re.findall(r"(?<=\n\n)(?:- )?\$([^$]+)\$[.,]?(?=\n\n|\n- |$)", plain)
    for row in re.findall(r"^\|(.*)\|$", plain, re.MULTILINE):
        alone += [cell.strip()[1:-1] for cell in row.split("|") if _is_formula(cell.strip())]
    return alone


def _is_formula(cell: str) -> bool:
    return len(cell) > 2 and cell[0] == cell[-1] == "$" and cell.count("$") == 2


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("name", THEORY)
def test_a_formula_stands_alone_only_where_the_source_sets_it_alone(
    browser: Browser, address: str, name: str, size: dict[str, int]
) -> None:
    context = open_context(browser, viewport=size)
    page = context.new_page()
    page.goto(address + name)
    found = page.evaluate(LONELY)
    context.close()
    source = (DOCS / name.replace(".html", ".md")).read_text(encoding="utf-8")
    torn = [each for each in found if each[0] not in ("P", "LI", "TD", "TH")]
    assert torn == []
    assert len(found) == len(formulas_set_alone(source)), found


def test_a_formula_that_is_torn_out_of_its_sentence_is_found(browser: Browser) -> None:
    context = open_context(browser, viewport=DESK)
    page = context.new_page()
    page.set_content(
        "<div class='md-content'><p>The mean is below</p><math><mi>x</mi></math><p>always.</p>"
        "<p>So it <math style='display: block math'><mi>y</mi></math> is.</p>"
        "<p>So it<br><math><mi>z</mi></math><br>is.</p></div>"
    )
    found = page.evaluate(LONELY)
    context.close()
    assert [each[0] for each in found] == ["outside of a paragraph", "a block", "a line of its own"]


@pytest.mark.parametrize(
    ("scheme", "names"),
    [
        ("light", KINDS),
        ("dark", IN_THE_DARK),
        pytest.param("light", GENERATED, marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious(
    browser: Browser, address: str, scheme: Any, names: tuple[str, ...]
) -> None:
    context = open_context(browser, viewport=DESK, color_scheme=scheme, reduced_motion="reduce")
    page = context.new_page()
    found = {}
    for name in names:
        page.goto(address + name)
        page.wait_for_selector("main")
        found[name] = severe_violations(page)
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    context.close()
    assert {name: each for name, each in found.items() if each} == {}
    brightness = sum(map(int, re.findall(r"\d+", colour)[:3]))
    assert brightness < 200 if scheme == "dark" else brightness > 600


def test_axe_finds_nothing_serious_on_a_phone(browser: Browser, address: str) -> None:
    context = open_context(browser, viewport=PHONE, color_scheme="dark", reduced_motion="reduce")
    page = context.new_page()
    page.goto(address + "guide/choose-a-policy.html")
    page.wait_for_selector(".md-typeset__scrollwrap[tabindex]")
    assert severe_violations(page) == []
    context.close()


def search(page: Page, words: str) -> list[str]:
    """The pages that a search finds, best first."""
    found = ".md-search-result__item > a"
    for text in ("", words):
        page.fill(".md-search__input", text)
        page.press(".md-search__input", "End")  # the theme listens to keys, not to filling
        state = "attached" if text else "detached"  # what the search before this one has found
        page.wait_for_selector(found, state=state, timeout=120_000)
    links = page.eval_on_selector_all(found, "found => found.map((each) => each.href)")
    return [str(link) for link in links]


def test_search_finds_the_right_page(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport=DESK, reduced_motion="reduce")
    page = context.new_page()
    page.goto(address + "index.html")
    page.click(".md-search__input")
    missed = {}
    for words, expected in SEARCHES.items():
        first = [link.split("?")[0].removeprefix(address) for link in search(page, words)][:3]
        if expected not in first:
            missed[words] = first
    context.close()
    assert missed == {}
