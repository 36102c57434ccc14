"""The report: one HTML file with everything inside, to read offline, print or send."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files

import msgspec
from matplotlib.figure import Figure

from armrace import __version__
from armrace.reports.corruption import draw_sweep
from armrace.reports.curves import draw_curves
from armrace.reports.drawing import inline_svg, own_style
from armrace.reports.formatting import count, parameters
from armrace.reports.race import draw_race, has_layers
from armrace.reports.tables import comparison_table, reading
from armrace.simulation import Comparison, Result

__all__ = ["render_report", "specification"]

_MEANINGS = {
    "regret": "what the best fixed arm would have collected under attack, minus what was collected "
    "under attack; it is negative for a policy that was better than every single arm",
    "pseudo-regret": "sum over rounds of the gap between the best mean and the mean of the arm "
    "played, which no attack distorts",
    "clean regret": "as regret, on the rewards before corruption",
    "attack spent": "sum over rounds of the largest change to any arm; mean over the runs",
}


def render_report(
    comparison: Comparison,
    title: str,
    summary: str,
    command: str,
    sweeps: Mapping[float, Comparison],
) -> str:
    """The whole page; ``sweeps`` maps budgets to the same comparison at that budget."""
    first = next(iter(comparison.results.values()))
    with own_style():
        sections = [
            _header(title, summary, first),
            _table_section(comparison),
            _curves_section(comparison),
            _sweep_section(sweeps),
            *(_race_section(label, r) for label, r in comparison.results.items() if has_layers(r)),
            _rerun_section(comparison, command),
        ]
    style = files("armrace.reports").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>armrace: {escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>armrace {__version__}</footer>\n</body>\n</html>\n"
    )


def _header(title: str, summary: str, result: Result) -> str:
    spec = result.spec
    setting = (
        f"Attack {parameters(spec['adversary'])} with a budget of {count(spec['budget'])}; "
        f"{count(result.replications)} replications of {count(result.horizon)} rounds; seed "
        f"{spec['seed']}."
    )
    lines = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{escape(summary)}</p>",
        f'<p class="setting">{escape(setting)}</p>',
    ]
    if result.interrupted:
        lines.append(
            f'<p class="warning">Interrupted after {result.replications} of '
            f"{spec['replications']} replications.</p>"
        )
    return "\n".join([*lines, "</header>"])


def _table_section(comparison: Comparison) -> str:
    meanings = "".join(f"<dt>{name}</dt><dd>{text}.</dd>" for name, text in _MEANINGS.items())
    told = [label for label, r in comparison.results.items() if "corruption" in r.spec["policy"]]
    note = f"<p class='note'>Told the budget in advance: {', '.join(told)}.</p>" if told else ""
    return (
        f"<section><h2>Figures at the end</h2><p>{escape(reading(comparison))}</p>"
        f'<div class="wide">{comparison_table(comparison)}</div>{note}'
        f'<dl class="note">{meanings}</dl></section>'
    )


def _figure(heading: str, drawing: Figure, name: str, description: str, caption: str) -> str:
    return (
        f"<section><h2>{escape(heading)}</h2><figure>"
        f"{inline_svg(drawing, name, description)}"
        f"<figcaption>{escape(caption)}</figcaption></figure></section>"
    )


def _curves_section(comparison: Comparison) -> str:
    caption = (
        "Lines are medians over the replications, bands reach from the 5% to the 95% quantile. "
        "A straight line on ordinary axes bends upwards here: that is a policy which goes on "
        "losing."
    )
    return _figure(
        "Regret over time", draw_curves(comparison), "curves",
        f"Regret against rounds, one line a policy. {reading(comparison)}", caption,
    )  # fmt: skip


def _sweep_section(sweeps: Mapping[float, Comparison]) -> str:
    if not sweeps:
        return ""
    budgets = ", ".join(count(budget) for budget in sorted(sweeps))
    runs = sorted({r.replications for c in sweeps.values() for r in c.results.values()})
    caption = (
        f"Mean regret at the end with 95% intervals, over {' or '.join(map(str, runs))} "
        "replications. A robust policy rises slowly and without a jump; policies that must know "
        "the corruption are told the budget."
    )
    return _figure(
        "Regret against corruption", draw_sweep(sweeps), "corruption",
        f"Mean regret of each policy at the budgets {budgets}.", caption,
    )  # fmt: skip


def _race_section(label: str, result: Result) -> str:
    active = result.race.filter(result.race["active"]).height
    caption = (
        "State at the end of the first replication: estimated mean and number of pulls of each arm "
        "in each layer; red cells are deleted. An arm that a layer deletes is deleted from all "
        "faster layers above it; an empty layer plays an active arm of the first layer that has "
        "one. Layers and arms count from 0 here; the paper counts layers from 1. The star marks "
        "the best arm; true means are below the names."
    )
    description = (
        f"Layers by arms of {label}: {active} of {result.race.height} cells are still active."
    )
    drawing = draw_race(result)
    return _figure(f"The layers of {label}", drawing, f"race-{label}", description, caption)


def _rerun_section(comparison: Comparison, command: str) -> str:
    text = msgspec.json.format(msgspec.json.encode(specification(comparison)), indent=2).decode()
    return (
        "<section><h2>Run it again</h2><p>The same figures, bit for bit, on any machine:</p>"
        f'<pre class="command"><code>{escape(command)}</code></pre>'
        "<p>or in Python, as <code>armrace.compare(**specification)</code>, with</p>"
        f"<pre><code>{escape(text)}</code></pre></section>"
    )


def specification(comparison: Comparison) -> dict[str, object]:
    """The arguments of ``armrace.compare`` that make this comparison."""
    results = list(comparison.results.values())
    shared = {k: v for k, v in results[0].spec.items() if k not in {"name", "policy"}}
    return {"policies": [result.spec["policy"] for result in results], **shared}
