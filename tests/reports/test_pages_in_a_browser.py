"""Every kind of page as readers see it: in chromium, light and dark, on desks, phones and paper."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from playwright.sync_api import Browser, Locator, Page

import armrace
from armrace.reports.arena import heat_maps
from armrace.reports.kit import document, rerun_section
from armrace.reports.theme import DARK, LIGHT
from armrace.simulation.arena import GRIDS
from armrace.simulation.scenarios import find_scenario
from browsing import DESK, PHONE, overflow, severe_violations

KINDS = ["compare", "grid", "plan", "redteam", "verify", "arena", "replay"]

_COLLISIONS = """() => {
  const shared = (a, b, low, high) => Math.min(a[high], b[high]) - Math.max(a[low], b[low]);
  const found = [];
  for (const svg of document.querySelectorAll("figure svg")) {
    if (!svg.getClientRects().length) continue;
    const texts = Array.from(svg.querySelectorAll("text"));
    const boxes = texts.map((text) => text.getBoundingClientRect());
    boxes.forEach((one, i) => boxes.slice(0, i).forEach((other, j) => {
      const width = shared(one, other, "left", "right");
      const height = shared(one, other, "top", "bottom");
      if (width > 1.5 && height > 0.3 * Math.min(one.height, other.height))
        found.push(`${texts[i].textContent} / ${texts[j].textContent}`);
    }));
  }
  return found;
}"""

_SMALLEST_TEXT = """() => {
  let least = Infinity;
  for (const svg of document.querySelectorAll("figure svg")) {
    if (!svg.getClientRects().length) continue;
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    for (const text of svg.querySelectorAll("text"))
      least = Math.min(least, parseFloat(getComputedStyle(text).fontSize) * scale);
  }
  return least;
}"""

_UNFOLD = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@contextmanager
def opened(
    browser: Browser, file: Path, size: dict[str, int], scheme: str = "light"
) -> Iterator[Page]:
    """Open a page with everything unfolded, without a network."""
    context = browser.new_context(viewport=size, color_scheme=scheme, offline=True)  # type: ignore[arg-type]
    page = context.new_page()
    requested: list[str] = []
    problems: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    try:
        page.goto(file.as_uri())
        page.evaluate(_UNFOLD)
        yield page
        assert requested == [file.as_uri()]
        assert problems == []
    finally:
        context.close()


@pytest.fixture(scope="module", params=KINDS)
def shown(request, browser, pages):
    """Each kind of page, opened once for the tests that only look at it."""
    with opened(browser, pages[request.param], DESK) as page:
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_accessible_in_light_and_dark(shown, scheme):
    shown.set_viewport_size(DESK)
    shown.emulate_media(color_scheme=scheme)
    assert severe_violations(shown) == []
    assert overflow(shown) <= 0
    assert shown.evaluate(_COLLISIONS) == []


def test_a_page_can_be_read_on_a_phone(shown):
    shown.set_viewport_size(PHONE)
    shown.emulate_media(color_scheme="light")
    assert overflow(shown) <= 0
    assert shown.evaluate(_COLLISIONS) == []
    assert shown.evaluate(_SMALLEST_TEXT) >= 9
    assert severe_violations(shown) == []


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_a_comparison_begins_with_a_sentence_a_picture_and_a_table_that_fits(
    browser, tmp_path, size
):
    newcomers = find_scenario("helpful-answers")
    spec = {"environment": newcomers.environment, "horizon": 400, "replications": 3}
    found, quiet = (
        armrace.compare(newcomers.policies, adversary="swap-best", budget=b, progress=False, **spec)
        for b in (20, 0)
    )
    file = found.report(tmp_path / "page.html", title="story", sweeps={0.0: quiet}, worst=[found])
    with opened(browser, file, size) as page:
        first = page.locator("main > section").first
        assert page.locator(".verdict p").count() == 1
        assert first.locator("figure").count() == first.locator("table").count() == 1
        frame = first.locator(".frame").evaluate("each => [each.clientWidth, each.scrollWidth]")
        assert frame[0] == frame[1]
        if size == DESK:
            assert first.evaluate("each => each.getBoundingClientRect().bottom") <= DESK["height"]


def test_a_command_breaks_between_its_words_and_is_copied_as_it_is(browser, tmp_path):
    words = ["armrace", "redteam", *(f"--attack-set first-word-{n}=0.12" for n in range(9))]
    command, file = " ".join(words), tmp_path / "page.html"
    file.write_text(document("a command", [rerun_section(command)]))
    with opened(browser, file, PHONE) as page:
        copied = page.evaluate(
            "() => { getSelection().selectAllChildren(document.querySelector('pre code'));"
            " return getSelection().toString(); }"
        )
        assert copied == command
        lines = page.evaluate(
            "() => Array.from(document.querySelectorAll('pre.command span'), (each) =>"
            " each.getClientRects()[0].height / parseFloat(getComputedStyle(each).lineHeight))"
        )
        assert lines == pytest.approx([1.0] * len(command.split()), abs=0.05)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_heat_maps_of_the_whole_arena_are_legible(browser, tmp_path, size):
    grid = GRIDS["usual"]
    policies = list(grid.policies)
    rows = [
        (*cell[1:], policy, grid.replications, 10.0 * place, 1.0, 1.0 + place)
        for cell in grid.cells()
        for place, policy in enumerate(policies)
    ]
    columns = ["environment", "attack", "budget", "policy", "replications"]
    columns += ["pseudo_regret_mean", "pseudo_regret_stderr", "relative"]
    maps = heat_maps(pl.DataFrame(rows, schema=columns, orient="row"), policies)
    file = tmp_path / "heat.html"
    file.write_text(document("heat", [f"<figure>{maps}</figure>"]))
    with opened(browser, file, size) as page:
        assert page.locator("svg.heat rect").count() == 6 * 29 * len(policies)
        assert page.evaluate(_SMALLEST_TEXT) >= 9
        assert page.evaluate(_COLLISIONS) == []
        assert overflow(page) <= 0


def test_layers_are_folded_and_long_tables_scroll_in_their_frames(browser, pages):
    page = browser.new_page(viewport=DESK)
    page.goto(pages["compare"].as_uri())
    layers = page.locator("details", has=page.get_by_role("heading", name="layers"))
    assert layers.count() >= 1
    assert not page.locator("details[open]").count()
    page.goto(pages["verify"].as_uri())
    page.evaluate(_UNFOLD)
    frames = page.evaluate(
        "Array.from(document.querySelectorAll('.frame'), (each) => [each.clientHeight, "
        "each.scrollHeight, getComputedStyle(each).overflowY])"
    )
    assert all(shown <= 36 * 16 + 2 for shown, _, _ in frames)
    assert {how for _, _, how in frames} == {"auto"}
    page.close()


def test_figures_turn_dark_with_the_page(browser, pages):
    for scheme, theme in (("light", LIGHT), ("dark", DARK)):
        with opened(browser, pages["compare"], DESK, scheme) as page:
            ink = page.evaluate(
                "getComputedStyle(document.querySelector('.at-desk text[fill*=\"--ink\"]')).fill"
            )
            paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (ink, paper) == (rgb(theme["ink"]), rgb(theme["paper"]))


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_a_table_is_sorted_by_keyboard(browser, pages):
    with opened(browser, pages["compare"], DESK) as page:
        table = full_table(page)
        heading = table.locator("thead th").filter(has_text="median")
        heading.locator("button").focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") == "ascending"
        rising = column(page, "median")
        page.keyboard.press("Space")
        assert heading.get_attribute("aria-sort") == "descending"
        assert column(page, "median") == rising[::-1]
        assert rising == sorted(rising)
        table.locator("thead button").first.focus()
        page.keyboard.press("Enter")
        assert heading.get_attribute("aria-sort") is None
        names = table.locator("tbody th").all_inner_texts()
        assert names == sorted(names)


def full_table(page: Page) -> Locator:
    return page.locator("table").filter(has_text="median").first


def column(page: Page, name: str) -> list[float]:
    table = full_table(page)
    heads = [text.split("\n")[0].strip() for text in table.locator("thead th").all_inner_texts()]
    place = heads.index(name)
    rows = table.locator("tbody tr").all()
    return [float(row.locator("th, td").nth(place).inner_text().replace(",", "")) for row in rows]


@pytest.mark.parametrize("kind", ["compare", "arena"])
def test_a_page_prints_in_light_with_its_wide_figures(browser, pages, kind):
    with opened(browser, pages[kind], DESK, "dark") as page:
        assert page.pdf(format="A4").startswith(b"%PDF")
        page.emulate_media(media="print")
        page.set_viewport_size({"width": 680, "height": 900})  # A4 less its margins
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == rgb(
            LIGHT["paper"]
        )
        assert page.locator("figure .at-desk").first.is_visible()
        assert not page.locator("figure .at-phone").first.is_visible()
        assert overflow(page) <= 0


def test_scripts_other_than_the_pages_own_do_not_run(browser, pages, tmp_path):
    text = (
        pages["compare"].read_text().replace("Once &lt;b", "<script>document.title=1</script>&lt;b")
    )
    changed = tmp_path / "changed.html"
    changed.write_text(text)
    context = browser.new_context()
    page = context.new_page()
    page.goto(changed.as_uri())
    assert page.title() == "armrace: story"
    assert page.locator("thead button").count() > 0
    context.close()
