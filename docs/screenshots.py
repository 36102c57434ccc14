"""Remake the pictures of ``docs/images``: ``make pictures``.

The dashboard shows the story of ``armrace serve --demo``, stepped through at once instead of over
minutes. The plot shows what policies lose under the worst attack known for each. Pictures end
where a section of the page ends. It needs chromium and playwright.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from docs.experiments.segment_attack import Shop
from playwright.sync_api import Browser, FloatRect, Page

from armrace.cli.compare import under_own_worst
from armrace.cli.main import run
from armrace.cli.outputs import run_cells
from armrace.dashboard.demo import (
    BOTS,
    DAY,
    EXPERIMENT,
    DemoClock,
    DemoVisitors,
    create_experiments,
)
from armrace.formatting import count
from armrace.reports.charts import Chart, Line, Panel, Sign, linear_axis
from armrace.reports.figures import draw_figure, own_style
from armrace.reports.theme import LIGHT, style_of
from armrace.service import Keyring, MemoryStore, Service
from armrace.simulation import Scenario
from armrace.simulation.scenarios import find_scenario
from armrace.statistics import mean_interval
from browsing import DESK, PHONE, chromium
from hosting import hosted

IMAGES = Path(__file__).parent / "images"
_FEW, _FLOOD, _RECOVERED = 1.95 * DAY, 2.95 * DAY, 3.7 * DAY
"""Moments of the demonstration: a few bots, a flood, and after its visits are voided."""
_PAGE = f"/experiment?name={EXPERIMENT}"
_PREVIEW = f"/preview?name={EXPERIMENT}&source={BOTS}"
_SETTLED = 1500
"""Milliseconds until charts are drawn."""

_BUDGETS, _RUNS = (0, 50, 100, 200, 300), 100
_POLICIES = ("optimistic-log-barrier", "tsallis-inf", "ucb1", "thompson")


def main() -> None:
    """Remake all pictures."""
    draw_plot(IMAGES / "corruption.png")
    with chromium() as browser, story() as world:
        world.play(_FEW)
        show_few_bots(browser, world)
        world.play(_FLOOD)
        show_flood(browser, world)
        with page_of(browser, world, _PREVIEW) as page:
            page.get_by_label("Reason").fill("ratings from a data centre")
            page.get_by_role("button", name=re.compile("Void .* visits")).click()
            page.get_by_text("were voided").wait_for()
        world.play(_RECOVERED)
        with page_of(browser, world, _PAGE) as page:
            save(page, "dashboard-recovered", "#part-traffic")
        with page_of(browser, world, f"/actions?name={EXPERIMENT}") as page:
            save(page, "dashboard-actions", "main section")
        show_segments(browser)
        show_report(browser)


# --- the dashboard ------------------------------------------------------------------------


class World(NamedTuple):
    """The demonstration, which stands still between steps."""

    service: Service
    visitors: DemoVisitors
    clock: DemoClock
    address: str
    key: str

    def play(self, until: float) -> None:
        """Let visitors come until a moment of the demonstration."""
        while self.clock.seconds < until:
            self.visitors.step(0.25)


@contextmanager
def story() -> Iterator[World]:
    """Serve the demonstration before the first visitor comes."""
    keyring, clock = Keyring(), DemoClock()
    key = keyring.create(["admin"], label="fraud team")[1]
    service = Service(MemoryStore(), keyring, clock=clock)
    create_experiments(service)
    with hosted(service, note=clock.note) as address:
        yield World(service, DemoVisitors(service, clock), clock, address, key)


def show_few_bots(browser: Browser, world: World) -> None:
    """Picture the pages while an alarm is up and the traffic stays."""
    with page_of(browser, world, _PAGE) as page:
        save(page, "dashboard-light", "#part-traffic")
    with page_of(browser, world, _PAGE, color_scheme="dark") as page:
        save(page, "dashboard-dark", "#part-traffic")
    with page_of(browser, world, _PAGE, viewport=PHONE) as page:
        save(page, "dashboard-narrow", "#part-traffic")
    with page_of(browser, world, "/") as page:
        save(page, "dashboard-list", "#part-experiments")


def show_flood(browser: Browser, world: World) -> None:
    """Picture the pages once the flood has moved the traffic."""
    with page_of(browser, world, _PAGE) as page:
        save(page, "dashboard-flood", "#part-traffic")
        save(page, "dashboard-audit", "#part-audit section", whole=True)
    with page_of(browser, world, "/experiment?name=mail-subject") as page:
        save(page, "dashboard-matrix", "#part-matrix section:last-child", whole=True)
    with page_of(browser, world, f"/sources?name={EXPERIMENT}") as page:
        save(page, "dashboard-sources", "table.sources")
    with page_of(browser, world, _PREVIEW) as page:
        save(page, "dashboard-preview", ".sides")


def show_segments(browser: Browser) -> None:
    """Picture the segments of a shop of which bots attack one."""
    shop = Shop()
    shop.open(50)
    with hosted(shop.service) as address:
        page = browser.new_page(viewport=DESK)
        page.goto(f"{address}/experiment?name=banners")
        page.wait_for_timeout(_SETTLED)
        save(page, "dashboard-segments", "#part-leaves section", whole=True)
        page.close()


@contextmanager
def page_of(browser: Browser, world: World, path: str, **options: Any) -> Iterator[Page]:
    """Open a page, signed in."""
    context = browser.new_context(**{"viewport": DESK, **options})
    page = context.new_page()
    page.goto(f"{world.address}/sign-in")
    page.get_by_label("Key").fill(world.key)
    page.get_by_role("button", name="Sign in").click()
    page.goto(world.address + path)
    page.wait_for_timeout(_SETTLED)
    yield page
    context.close()


def save(page: Page, name: str, last: str, *, whole: bool = False) -> None:
    """Save a page down to the end of an element, or the element alone.

    Args:
        page: the page.
        name: of the picture.
        last: a selector of the element.
        whole: whether only the element is shown.
    """
    box = page.locator(last).bounding_box()
    size = page.viewport_size
    assert box is not None
    assert size is not None
    margin = 24.0
    top = max(0.0, box["y"] - margin) if whole else 0.0
    height = box["y"] + box["height"] + margin - top
    area = FloatRect(x=0.0, y=top, width=float(size["width"]), height=height)
    page.screenshot(path=IMAGES / f"{name}.png", full_page=True, clip=area)


def show_report(browser: Browser) -> None:
    """Picture the first screen of the report of ``armrace compare``."""
    file = IMAGES / "report.html"
    run(["compare", "--no-sweep", "--report", str(file), "--force"])
    page = browser.new_page(viewport=DESK)
    page.goto(file.as_uri())
    save(page, "report", "main section:nth-of-type(1)")
    page.close()
    file.unlink()


# --- the plot -----------------------------------------------------------------------------


def draw_plot(file: Path) -> None:
    """Draw what each policy loses under the worst attack known for it, against the budget."""
    answers = find_scenario("helpful-answers")
    means = answers.environment.to_builtins()["means"]
    most = (max(means) - min(means)) * answers.horizon
    lines = []
    for name in _POLICIES:
        style = style_of(name)
        losses = [worst_loss(answers, name, budget) for budget in _BUDGETS]
        heights = [float(each.mean()) for each in losses]
        low, high = np.array([mean_interval(each) for each in losses]).T.tolist()
        lines.append(
            Line(name, style.ink, _BUDGETS, heights, low, high, band=True, dashes=style.dashes,
                 width=2, marker="o")
        )  # fmt: skip
        print(name, dict(zip(_BUDGETS, map(round, heights), strict=True)))
    panel = Panel(
        linear_axis(
            f"forged among {answers.horizon:,} ratings (means of {_RUNS} runs)", 0, _BUDGETS[-1]
        ),
        linear_axis("helpful answers lost", 0, 1.12 * most, "{:,.0f}".format),
        lines,
        signs=[Sign(f"{count(most)}: all there is to lose", y=most, ink="rule-strong")],
    )
    with own_style(11):
        drawing = draw_figure(Chart([panel], 330))
        drawing.savefig(file, dpi=150, facecolor=LIGHT["paper"])


def worst_loss(answers: Scenario, policy: str, budget: int) -> Any:
    """Return the pseudo-regrets under the worst attack known, on seeds that did not choose it."""
    longer = msgspec.structs.replace(answers, replications=_RUNS)
    shared = longer.experiments([policy], budget=budget, seed=2)
    cells = [under_own_worst(shared, None, 1), shared] if budget else [shared]
    samples = [cell[0].sample("pseudo_regret") for cell in run_cells(cells, 1)]
    return max(samples, key=np.mean)


if __name__ == "__main__":
    main()
