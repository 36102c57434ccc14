"""The sections of a comparison's page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from armrace.adversaries import ADVERSARIES
from armrace.red_team.verdict import describe
from armrace.reports.audits import audit_section
from armrace.reports.curves import curves_plot
from armrace.reports.descriptions import cell_name, never_searched, refresh_note
from armrace.reports.dots import dots_plot
from armrace.reports.layout import fold, meanings_list, row, table
from armrace.reports.plots import plot_section
from armrace.reports.rows import MEASURE_NAMES
from armrace.reports.tables import comparison_table
from armrace.simulation import Comparison, Result

__all__ = ["cell_section", "figures_section", "meanings", "own_worst_section", "verdict_of"]

_MEANINGS = {
    "pseudo_regret": "sum over rounds of the gap between the best mean and the mean of the arm "
    "played; an attack changes it only through the choices of the policy",
    "regret": "what the best fixed arm would have collected under attack, minus what the policy "
    "collected under attack; an attack can lower it by lowering all rewards, and it is negative "
    "for a policy that beats every single arm",
    "clean_regret": "as regret, on the rewards before corruption",
    "corruption": "sum over rounds of the largest change to any arm; mean over the runs",
}


def meanings(*comparisons: Comparison) -> str:
    """Explain the columns, beginning with the measure that ranks, and what attacks see."""
    measure = comparisons[0].measure
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
    if note := refresh_note(*comparisons):
        terms["attack"] = note.removesuffix(".")
    return meanings_list((name, f"{text}.") for name, text in terms.items())


def verdict_of(comparison: Comparison) -> str:
    """What the comparison shows, in words; empty for a single policy."""
    return comparison.verdict() if len(comparison.results) > 1 else ""


def figures_section(comparison: Comparison, others: Sequence[Comparison], verdict: str) -> str:
    """All figures under the attack that policies share, a verdict unless it is empty, and columns.

    The explanation of the columns also covers ``others``, which the page shows elsewhere.
    """
    attack = cell_name(next(iter(comparison.results.values())).spec)
    words = f"<p>{escape(verdict)}</p>" if verdict else ""
    return (
        f"<section><h2>All policies under {escape(attack)}</h2>{words}"
        f"{comparison_table(comparison)}{_notes(comparison)}{meanings(comparison, *others)}"
        "</section>"
    )


def _notes(comparison: Comparison) -> str:
    told = [label for label, r in comparison.results.items() if "corruption" in r.spec["policy"]]
    return _note(f"Told the budget in advance: {', '.join(told)}." if told else "")


def _note(words: str) -> str:
    return f'<p class="note">{escape(words)}</p>' if words else ""


def own_worst_section(comparison: Comparison) -> str:
    """Each policy under the worst of the attacks that were tried on it."""
    rows = [
        row(label, [f'<td class="words">{escape(_attack_in_words(result))}</td>'])
        for label, result in comparison.results.items()
    ]
    words = (
        "Each policy meets the attack that costs it most of those that were tried on it: the "
        "worst that searches have found for it in similar settings, and some others, all with the "
        "same budget and on the same rewards. A worse attack may exist; armrace redteam searches "
        "for one in exactly this setting."
    )
    note = never_searched(comparison)
    label = "Figures under each policy's own worst attack"
    attacks = table(("policy", "attack"), rows, "What the attacks do")
    return (
        f"<section><h2>Each policy under its own worst attack</h2><p>{escape(words)}</p>"
        f"{comparison_table(comparison, label)}{_note(note)}"
        f"{fold('What the attacks do', attacks)}</section>"
    )


def _attack_in_words(result: Result) -> str:
    return describe(ADVERSARIES.make(result.spec["adversary"]))


def cell_section(comparison: Comparison, position: int) -> str:
    """One attack at one budget of a grid: figures, and the plots folded away."""
    first = next(iter(comparison.results.values()))
    name = cell_name(first.spec)
    plots = (
        dots_plot(comparison, name=f"end-{position}"),
        curves_plot(comparison, f"curves-{position}"),
    )
    return (
        f'<section id="cell-{position}"><h2>{escape(name)}</h2>'
        f"<p>{escape(verdict_of(comparison))}</p>"
        f"{comparison_table(comparison, f'Figures: {name}')}{_notes(comparison)}"
        f"{audit_section(comparison, level=3)}"
        f"{''.join(plot_section(plot, 3, folded=True) for plot in plots)}</section>"
    )
