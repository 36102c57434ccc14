"""The sections of a comparison's page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from armrace.adversaries import ADVERSARIES
from armrace.formatting import count
from armrace.red_team.descriptions import describe
from armrace.reports.audits import audit_section
from armrace.reports.colours import GREY, Style
from armrace.reports.corruption import draw_sweep
from armrace.reports.curves import draw_curves
from armrace.reports.descriptions import cell_name, refresh_note
from armrace.reports.layout import figure_section, table
from armrace.reports.race import draw_race
from armrace.reports.rows import MEASURE_NAMES, comparison_styles, reading
from armrace.reports.tables import comparison_table
from armrace.simulation import Comparison, Result
from armrace.specification import display_name

__all__ = [
    "cell_section",
    "curves_section",
    "meanings",
    "own_worst_section",
    "race_section",
    "sweep_section",
    "verdict_and_table",
]

_MEANINGS = {
    "pseudo_regret": "sum over rounds of the gap between the best mean and the mean of the arm "
    "played; an attack changes it only through the choices of the policy",
    "regret": "what the best fixed arm would have collected under attack, minus what the policy "
    "collected under attack; an attack can lower it by lowering all rewards, and it is negative "
    "for a policy that beats every single arm",
    "clean_regret": "as regret, on the rewards before corruption",
    "corruption": "sum over rounds of the largest change to any arm; mean over the runs",
}


def meanings(measure: str) -> str:
    """Explain the columns, beginning with the measure that ranks the policies."""
    ranked = MEASURE_NAMES[measure]
    others = [other for other in _MEANINGS if other != measure]
    terms = {
        ranked: f"ranks the policies: {_MEANINGS[measure]}",
        "above the best": f"difference in {ranked} to the best policy on the same rewards, "
        "replication by replication; these intervals hold jointly with 95%",
        "rank by p95": "the order by the 95th percentile over the replications: which policies "
        "are safe, rather than good on average",
        **{MEASURE_NAMES[other]: _MEANINGS[other] for other in others},
    }
    listed = "".join(f"<dt>{name}</dt><dd>{text}.</dd>" for name, text in terms.items())
    return f'<dl class="note">{listed}</dl>'


def verdict_and_table(comparison: Comparison) -> str:
    """Render the verdict, the table, and an explanation of the columns."""
    told = [label for label, r in comparison.results.items() if "corruption" in r.spec["policy"]]
    notes = [f"Told the budget in advance: {', '.join(told)}."] if told else []
    notes += [note] if (note := refresh_note(comparison)) else []
    words = " ".join(part for part in (_verdict(comparison), reading(comparison)) if part)
    paragraphs = "".join(f"<p class='note'>{escape(note)}</p>" for note in notes)
    return f"<p>{escape(words)}</p>{comparison_table(comparison)}{paragraphs}"


def _verdict(comparison: Comparison) -> str:
    return comparison.verdict() if len(comparison.results) > 1 else ""


def curves_section(comparison: Comparison, name: str = "curves", level: int = 2) -> str:
    """The measure that ranks, over time."""
    measure = MEASURE_NAMES[comparison.measure]
    caption = (
        f"Lines are medians of the {measure} over the replications, bands reach from the 5% to "
        "the 95% quantile. A policy that loses the same amount in every round bends upwards on "
        "this axis."
    )
    if GREY in comparison_styles(comparison).values():
        caption += " Grey lines are the other policies of the table."
    return figure_section(
        f"{measure.capitalize()} over time", draw_curves(comparison), name,
        f"{measure.capitalize()} against rounds, one line per policy. {reading(comparison)}",
        caption, level,
    )  # fmt: skip


def own_worst_section(comparison: Comparison) -> str:
    """Each policy under the worst attack that searches have found for it."""
    rows = [
        f'<tr><th scope="row">{escape(label)}</th>'
        f'<td class="words">{escape(_attack_in_words(result))}</td></tr>'
        for label, result in comparison.results.items()
    ]
    words = (
        "One attack tells little of another. Here each policy meets the worst attack that searches "
        "have found for it in a similar setting, with the same budget and on the same rewards: a "
        "lower bound on its worst case. armrace redteam searches in this very setting."
    )
    return (
        f"<section><h2>Each under its own worst attack</h2><p>{escape(words)}</p>"
        f"{comparison_table(comparison)}<details><summary>What the attacks do</summary>"
        f"{table(('policy', 'attack'), rows)}</details></section>"
    )


def _attack_in_words(result: Result) -> str:
    return describe(ADVERSARIES.make(result.spec["adversary"]))


def sweep_section(sweeps: Mapping[float, Comparison], styles: Mapping[str, Style]) -> str:
    """Regret against corruption; ``sweeps`` maps budgets to the comparison at that budget."""
    if not any(sweeps):
        return ""
    budgets = sorted(sweeps)
    largest = sweeps[budgets[-1]]
    measure = MEASURE_NAMES[largest.measure]
    attack = display_name(next(iter(largest.results.values())).spec["adversary"]["name"])
    runs = sorted({r.replications for c in sweeps.values() for r in c.results.values()})
    caption = (
        f"Mean {measure} at the end over {' or '.join(map(str, runs))} replications; bars reach "
        "from the 5% to the 95% quantile. A robust policy rises slowly and without a jump; "
        "policies that must know the corruption are told the budget."
    )
    if GREY in styles.values():
        caption += " Grey lines are the other policies of the table."
    caption += f" {refresh_note(*sweeps.values())}".rstrip()
    return figure_section(
        f"{measure.capitalize()} against corruption: {attack}", draw_sweep(sweeps, styles),
        f"corruption-{attack}",
        f"Mean {measure} of each policy at the budgets {', '.join(map(count, budgets))}.", caption,
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
    """One attack at one budget of a grid: figures, and the curves folded away."""
    first = next(iter(comparison.results.values()))
    curves = curves_section(comparison, f"curves-{position}", level=3)
    return (
        f'<section id="cell-{position}"><h2>{escape(cell_name(first.spec))}</h2>'
        f"{verdict_and_table(comparison)}{audit_section(comparison, level=3)}"
        f"<details><summary>Curves over time</summary>{curves}</details></section>"
    )
