"""The report: valid, escaped, self-contained, with every figure."""

import base64
import hashlib
import html
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import armrace
from armrace.errors import InvalidParameter
from armrace.reports.comparison import (
    layers_table,
    render_grid,
    render_report,
    summary_curves,
)
from armrace.reports.figures import Tile, draw_tiles, own_style
from armrace.simulation import Comparison

VOID = {"meta", "br"}


class Outline(HTMLParser):
    """Checks that tags nest, and keeps names, ids and labels."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.labels: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids += [given["id"]] if given.get("id") else []  # type: ignore[list-item]
        if tag == "svg" and given.get("aria-hidden") != "true":
            self.labels.append(given["aria-label"])  # type: ignore[arg-type]
        self.links += [str(given[k]) for k in ("src", "href", "xlink:href") if k in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def played(budget: float) -> Comparison:
    return armrace.compare(
        ["multi-layer-race", "ucb1"], [0.9, 0.5, 0.1], "zero-best-when-likely", budget=budget,
        horizon=500, replications=3, progress=False,
    )  # fmt: skip


@cache
def compared(budget: float = 5.0) -> Comparison:
    """The same comparison for all tests that only read it."""
    return played(budget)


def render(comparison: Comparison, title: str = "story") -> str:
    sweeps = {0.0: compared(0), 5.0: comparison}
    return render_report(comparison, title, "Once <upon> a time.", "armrace compare & co", sweeps)


def outline(text: str) -> Outline:
    parsed = Outline()
    parsed.feed(text)
    parsed.close()
    assert parsed.open == []
    return parsed


def assert_only_own_script(text: str) -> None:
    """A page has one script, and its policy allows that one alone and no request at all."""
    script = text.split("<script>")[1].split("</script>", maxsplit=1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert text.count("<script") == 1
    assert "default-src 'none'" in text
    assert f"script-src 'sha256-{digest}'" in text


def test_page_is_well_formed_and_self_contained() -> None:
    text = render(compared())
    page = outline(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(page.labels) == 2 * 3  # dots, curves and sweep, for screens and phones
    assert all(page.labels)
    assert len(set(page.ids)) == len(page.ids)
    assert all(link.startswith("#") for link in page.links)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert_only_own_script(text)


def test_what_users_write_is_escaped() -> None:
    text = render(compared(), title="<script>alert(1)</script>")
    outline(text)
    assert_only_own_script(text)
    assert "Once &lt;upon&gt; a time." in text
    assert "armrace compare &amp; co" in text


def programs(page: str) -> list[Any]:
    """What the programs find that a page says run it again."""
    shown = page.split("The whole program")[1]
    names: list[dict[str, Any]] = []
    for program in re.findall(r"<pre[^>]*><code>(.*?)</code></pre>", shown, re.DOTALL):
        names.append({})
        exec(html.unescape(program), names[-1])
    return [each["found"] for each in names]


def test_the_program_of_a_page_runs_it_again() -> None:
    comparison = compared()
    (again,) = programs(render(comparison))
    assert again.table().equals(comparison.table())
    assert armrace.compare(**comparison.spec, progress=False).table().equals(comparison.table())
    both = render_grid([played(5.0), played(0.0)], "t", "s", "c")
    assert [each.spec["budget"] for each in programs(both)] == [5.0, 0.0]


def test_policies_with_attacks_of_their_own_are_run_again_one_by_one() -> None:
    results = [each.results[name] for each, name in ((played(5.0), "ucb1"), (played(0.0), "ucb1"))]
    comparison = Comparison(results)
    with pytest.raises(InvalidParameter, match="policies met different attacks or settings"):
        comparison.spec  # noqa: B018
    again = programs(render_report(comparison, "title"))
    assert [each.rows.equals(r.rows) for each, r in zip(again, results, strict=True)] == [True] * 2


def test_the_program_of_a_replay_runs_it_again(tmp_path: Path) -> None:
    file = tmp_path / "a 'log'.csv"
    rows = "".join(f"{'ab'[n % 2]},{n % 3 % 2},0.5\n" for n in range(200))
    file.write_text("arm,reward,propensity\n" + rows)
    columns = {"arm": "arm", "reward": "reward", "propensity": "propensity"}
    found = armrace.replay(file, ["ucb1"], replications=2, **columns)
    page = found.report(tmp_path / "page.html").read_text()
    (again,) = programs(page)
    assert again.table.equals(found.table)
    found.save(tmp_path / "found.json")
    assert armrace.load(tmp_path / "found.json") == found


def test_curves_are_means_intervals_and_quantiles_over_replications() -> None:
    comparison = compared()
    result = comparison.results["ucb1"]
    last = summary_curves(result, "regret").row(-1, named=True)
    summary = result.figure("regret")
    row = comparison.table("regret").row(by_predicate=pl.col("policy") == "ucb1", named=True)
    assert last["round"] == 500
    assert (last["p05"], last["median"], last["p95"]) == pytest.approx(
        (summary.p05, summary.p50, summary.p95)
    )
    assert (last["mean"], last["low"], last["high"]) == pytest.approx(
        (row["mean"], row["low"], row["high"])
    )


def test_page_of_a_grid_is_well_formed_and_has_a_verdict_for_each_cell() -> None:
    cells = [compared(0), compared(5)]
    text = render_grid(cells, "grid", "A <grid>.", "armrace compare")
    page = outline(text)
    assert len(page.labels) == 2 * 5  # the sweep, and dots and curves of two cells
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)
    for cell in cells:
        assert cell.verdict() in text
    assert outline(render_grid([compared(5), compared(5)], "", "", "")).labels


def test_names_of_arms_are_text_on_pages_and_no_formulas_in_figures() -> None:
    rows = [{"layer": 0, "arm": arm, "pulls": 1, "mean": 0.5, "active": arm == 0} for arm in (0, 1)]
    names = ["$5 off", "<b>$x^2$"]
    shown = layers_table(rows, names)
    assert "<b>" not in shown
    assert 'class="layer deleted">0.500, 1<' in shown
    with own_style():
        drawing = draw_tiles([Tile(0, 0, "paper")], ["0"], [(0.5, names[0]), (1.5, names[1])], 2, 4)
    assert [each.get_text() for each in drawing.axes[0].get_xticklabels()] == [
        r"\$5 off",
        r"<b>\$x^2\$",
    ]
