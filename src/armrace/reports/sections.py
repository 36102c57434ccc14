"""The sections of a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from armrace.formatting import count
from armrace.reports.audits import audit_section
from armrace.reports.corruption import draw_sweep
from armrace.reports.curves import draw_curves
from armrace.reports.descriptions import cell_name
from armrace.reports.highlighting import GREY
from armrace.reports.layout import figure_section
from armrace.reports.race import draw_race
from armrace.reports.rows import comparison_inks, reading
from armrace.reports.tables import comparison_table
from armrace.simulation import Comparison, Result

__all__ = [
    "cell_section",
    "curves_section",
    "figures_of",
    "meanings",
    "race_section",
    "sweep_section",
]

_MEANINGS = {
    "regret": "what the best fixed arm would have collected under attack, minus what was collected "
    "under attack; it is negative for a policy that was better than every single arm",
    "above the best": "how much larger the regret is than the best policy's on the same rewards, "
    "replication by replication; these intervals hold jointly with 95%",
    "rank by p95": "the order by the 95th percentile over the replications: who is safe, rather "
    "than good on average",
    "pseudo-regret": "sum over rounds of the gap between the best mean and the mean of the arm "
    "played, which no attack distorts",
    "clean regret": "as regret, on the rewards before corruption",
    "attack spent": "sum over rounds of the largest change to any arm; mean over the runs",
}


def meanings() -> str:
    """What the columns mean."""
    listed = "".join(f"<dt>{name}</dt><dd>{text}.</dd>" for name, text in _MEANINGS.items())
    return f'<dl class="note">{listed}</dl>'


def figures_of(comparison: Comparison) -> str:
    """The verdict and the table."""
    told = [label for label, r in comparison.results.items() if "corruption" in r.spec["policy"]]
    note = f"<p class='note'>Told the budget in advance: {', '.join(told)}.</p>" if told else ""
    words = " ".join(part for part in (reading(comparison), _verdict(comparison)) if part)
    return f"<p>{escape(words)}</p>{comparison_table(comparison)}{note}"


def _verdict(comparison: Comparison) -> str:
    return comparison.verdict("regret") if len(comparison.results) > 1 else ""


def curves_section(comparison: Comparison, name: str = "curves", level: int = 2) -> str:
    """Regret over time."""
    caption = (
        "Lines are medians over the replications, bands reach from the 5% to the 95% quantile. "
        "A straight line on ordinary axes bends upwards here: that is a policy which goes on "
        "losing."
    )
    if GREY in comparison_inks(comparison).values():
        caption += " Grey lines are the other policies of the table."
    return figure_section(
        "Regret over time", draw_curves(comparison), name,
        f"Regret against rounds, one line a policy. {reading(comparison)}", caption, level,
    )  # fmt: skip


def sweep_section(sweeps: Mapping[float, Comparison], colours: Mapping[str, str]) -> str:
    """Regret against corruption; ``sweeps`` maps budgets to the comparison at that budget."""
    if not any(sweeps):
        return ""
    budgets = sorted(sweeps)
    first = next(iter(sweeps[budgets[-1]].results.values()))
    attack = str(first.spec["adversary"]["name"])
    runs = sorted({r.replications for c in sweeps.values() for r in c.results.values()})
    caption = (
        f"Mean regret at the end over {' or '.join(map(str, runs))} replications; bars reach from "
        "the 5% to the 95% quantile. A robust policy rises slowly and without a jump; policies "
        "that must know the corruption are told the budget."
    )
    absent = [label for label in colours if label not in sweeps[budgets[0]].results]
    if absent:
        caption += " Only the policies with a colour are run again at other budgets"
        dear = [label for label in absent if colours[label] != GREY]
        caption += f", without {', '.join(dear)}, whose distribution is dear." if dear else "."
    return figure_section(
        f"Regret against corruption: {attack}", draw_sweep(sweeps, colours), f"corruption-{attack}",
        f"Mean regret of each policy at the budgets {', '.join(map(count, budgets))}.", caption,
    )  # fmt: skip


def race_section(label: str, result: Result) -> str:
    """The layers of a race."""
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
    return figure_section(f"The layers of {label}", drawing, f"race-{label}", description, caption)


def cell_section(comparison: Comparison, position: int) -> str:
    """One attack at one budget among others: figures, and the curves for those who ask."""
    first = next(iter(comparison.results.values()))
    curves = curves_section(comparison, f"curves-{position}", level=3)
    return (
        f'<section id="cell-{position}"><h2>{escape(cell_name(first.spec))}</h2>'
        f"{figures_of(comparison)}{audit_section(comparison, level=3)}"
        f"<details><summary>Regret over time</summary>{curves}</details></section>"
    )
