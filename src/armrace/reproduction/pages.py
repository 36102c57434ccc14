"""How a reproduction is shown: figures, the page of ``armrace reproduce``, and Markdown."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from armrace.formatting import count, duration
from armrace.reports import kit
from armrace.reports.charts import (
    Axis,
    Bar,
    Chart,
    Line,
    Panel,
    Plot,
    budget_axis,
    linear_axis,
    log_axis,
    mean_line,
    regret_axis,
    row_axis,
)
from armrace.reports.theme import SERIES, Style
from armrace.reproduction.running import Reproduction, find_paper
from armrace.reproduction.studies import Finding, Paper, Reproduced, Study

_DASHED = (5, 3)
_WIDE_RANGE = 30.0
"""From this ratio of the ends on, a horizontal axis is logarithmic."""


def pairs(reproduction: Reproduction) -> Iterator[tuple[Study, Reproduced]]:
    """Yield each study that was run, as it is declared and as it came out."""
    known = {study.name: study for study in find_paper(reproduction.paper).studies}
    for done in reproduction.studies:
        yield known[done.study], done


def study_plot(study: Study, done: Reproduced) -> Plot:
    """Draw a study: a line for each policy or setting, dashed where it is computed."""
    frame = done.frame
    least = 1.0 if study.scale == "log" else None
    lines, names = [], frame["line"].unique(maintain_order=True).to_list()
    for number, name in enumerate(names):
        own = frame.filter(pl.col("line") == name).sort("x")
        computed = own["runs"].max() == 0
        style = Style(SERIES[number % len(SERIES)], _DASHED if computed else ())
        marker = "" if computed or own.height > 1 + _WIDE_RANGE else "o"
        lines.append(mean_line(name, style, "x", own, least=least, marker=marker))
    if study.across == "rows":
        return _row_plot(study, frame, names)
    chart = Chart([Panel(_across(study, frame), _upwards(study, lines), lines)])
    return Plot(
        study.name,
        study.title,
        chart,
        lambda: frame,
        f"{study.label} against {study.across}, a line for each of {', '.join(names)}.",
        f"{study.title} ({study.source}): {study.label} against {study.across}; bars are 95% "
        "intervals, dashed lines are computed.",
    )


def _row_plot(study: Study, frame: pl.DataFrame, names: list[str]) -> Plot:
    """Draw a row for each line: its mean and interval."""
    bars = [
        Bar(place, SERIES[0], row["mean"], row["low"], row["high"])
        for place, row in enumerate(frame.iter_rows(named=True))
    ]
    top = 1.02 * max(bar.mean or 0.0 for bar in bars)
    panel = Panel(linear_axis(study.label, 0.0, top), row_axis(names), bars=bars)
    return Plot(
        study.name,
        study.title,
        Chart([panel], height=90 + 22 * len(names)),
        lambda: frame,
        f"{study.label} for each of {', '.join(names)}.",
        f"{study.title} ({study.source}): {study.label}; bars are 95% intervals.",
    )


def _across(study: Study, frame: pl.DataFrame) -> Axis:
    places = sorted(set(frame["x"]))
    low, high = places[0], places[-1]
    if low > 0 and high > _WIDE_RANGE * low:
        return log_axis(study.across, 0.8 * low, 1.25 * high)
    if low == 0 and high > _WIDE_RANGE * places[1]:
        return budget_axis(study.across, places)
    return linear_axis(study.across, low, high)


def _upwards(study: Study, lines: list[Line]) -> Axis:
    if study.scale == "log":
        return regret_axis(study.label, lines)
    tops = [y for line in lines for y in (*line.y, *line.high) if y is not None]
    lows = [y for line in lines for y in (*line.y, *line.low) if y is not None]
    return linear_axis(study.label, min(0.0, *lows), 1.05 * max(tops))


def reproduction_plots(reproduction: Reproduction) -> list[Plot]:
    """Return the figure of each study."""
    return [study_plot(study, done) for study, done in pairs(reproduction)]


def verdict_of(finding: Finding) -> str:
    """Say in a word whether a statement is so here."""
    return "agrees" if finding.agrees else "differs"


def finding_words(finding: Finding) -> str:
    """Return a statement with its verdict, the numbers, and the reason where it differs."""
    why = f" {finding.why}" if finding.why else ""
    return f"{verdict_of(finding)}: {finding.said}: {finding.shown}.{why}"


def setting_words(reproduction: Reproduction) -> str:
    """Return form, seed, runs and time in a sentence."""
    runs = sum(done.runs for done in reproduction.studies)
    form = "quick" if reproduction.quick else "full"
    return (
        f"{form.capitalize()} form: {count(runs)} runs, seed {reproduction.seed}, "
        f"{duration(reproduction.seconds)}; armrace {reproduction.version}, figures "
        f"{reproduction.figures}."
    )


def command_of(reproduction: Reproduction) -> str:
    """Return the command line that gives the same figures."""
    known = [study.name for study in find_paper(reproduction.paper).studies]
    done = [each.study for each in reproduction.studies]
    some = "" if done == known else f" --study {','.join(done)}"
    form = " --quick" if reproduction.quick else ""
    return f"armrace reproduce {reproduction.paper}{some}{form} --seed {reproduction.seed}"


def render_reproduction(reproduction: Reproduction) -> str:
    """Render the page as HTML."""
    paper = find_paper(reproduction.paper)
    read = [words.replace("`", "") for words in (paper.sources, *paper.notes)]
    sections = [
        kit.header(paper.reference, reproduction.verdict, setting_words(reproduction)),
        kit.section("What was read", [kit.paragraphs(read)]),
    ]
    for study, done in pairs(reproduction):
        words = kit.paragraphs([f"{study.source}. {study.published}", study.setting])
        found = kit.items([finding_words(finding) for finding in done.findings])
        figure = kit.plot_figure(study_plot(study, done))
        sections.append(kit.section(study.title, [words, found, figure]))
    sections.append(kit.rerun_section(command_of(reproduction)))
    return kit.document(f"{paper.name}, reproduced", sections)


def markdown_of(reproduction: Reproduction) -> str:
    """Write the page of the documentation: the verdicts, and the paper in its order if listed."""
    paper = find_paper(reproduction.paper)
    lines = [
        f"# {paper.reference}", "", f"{paper.sources}", "",
        "```console", f"$ {command_of(reproduction)}",
        "```", "", f"**{reproduction.verdict}** {setting_words(reproduction)}", "",
    ]  # fmt: skip
    for note in paper.notes:
        lines += [note, ""]
    if paper.items:
        lines += ["## The paper in its order", "", *_items(paper)]
    for study, done in pairs(reproduction):
        lines += [f"## {study.title}", "", f"*{study.source}.* {study.published}", ""]
        lines += [study.setting, ""] if study.setting else []
        lines += ["| published | here | |", "|---|---|---|"]
        for each in done.findings:
            why = f". {each.why}" if each.why else ""
            lines.append(f"| {each.said} | {each.shown}{why} | {verdict_of(each)} |")
        lines += ["", f"![{study_plot(study, done).caption}]({paper.name}-{study.name}.svg)", ""]
    return "\n".join(lines)


def _items(paper: Paper) -> Iterator[str]:
    """Yield what the paper defines and proves, with links to code, claims, errata and figures."""
    titles = {study.name: study.title for study in paper.studies}
    for item in paper.items:
        code = ", ".join(f"`{place.replace(':', '.')}`" for place in item.code)
        claims = "; ".join(f"{claim} (`{policy}`)" for claim, policy in item.claims)
        errata = ", ".join(f"[{number}](../errata.md)" for number in item.errata)
        title = titles.get(item.study, "")
        parts = {
            "In armrace": code,
            "Tried by `armrace verify`": claims or "no claim",
            "Errata": errata,
            "Figure": f"[{title}](#{_anchor(title)})" if title else "",
        }
        yield f"**{item.name}** (section {item.place}). {item.said}"
        yield ""
        yield from (f"- {words}: {links}." for words, links in parts.items() if links)
        yield ""


def _anchor(title: str) -> str:
    """Return the anchor that MkDocs gives a heading.

    >>> _anchor("The race, layer by layer")
    'the-race-layer-by-layer'
    """
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -")
    return "-".join(kept.split())
