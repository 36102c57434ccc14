"""The table of a comparison as HTML, the smallest mean regret first."""

from __future__ import annotations

from html import escape

from armrace.reports.drawing import colour
from armrace.reports.formatting import figure, interval, parameters
from armrace.simulation import Comparison, Result

__all__ = ["comparison_table", "reading"]

_COLUMNS = (
    "policy",
    "mean regret",
    "95% interval",
    "p05",
    "median",
    "p95",
    "max",
    "pseudo-regret",
    "clean regret",
    "attack spent",
)


def comparison_table(comparison: Comparison) -> str:
    """One row a policy, with the colour that its lines have."""
    order = list(comparison.results)
    head = "".join(f'<th scope="col">{column}</th>' for column in _COLUMNS)
    rows = []
    for label in comparison.table("regret")["policy"]:
        ink = colour(order.index(label))
        rows.append(_row(label, ink, comparison.results[label]))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(label: str, ink: str, result: Result) -> str:
    regret = result.figure("regret")
    cells = [figure(regret.mean), interval(result, "regret")]
    cells += [figure(number) for number in (regret.p05, regret.p50, regret.p95, regret.max)]
    cells += [figure(result.figure(m).mean) for m in ("pseudo_regret", "clean_regret")]
    cells.append(figure(result.figure("corruption").mean))
    title = escape(parameters(result.spec["policy"]), quote=True)
    name = f'<th scope="row" title="{title}"><span style="background:{ink}"></span>{escape(label)}'
    return f"<tr>{name}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def reading(comparison: Comparison) -> str:
    """What the table says, in a sentence."""
    table = comparison.table("regret")
    if table.height < 2:
        return ""
    best, worst = table.row(0, named=True), table.row(-1, named=True)
    return (
        f"{best['policy']} has the smallest mean regret, {figure(best['mean'])}; "
        f"{worst['policy']} the largest, {figure(worst['mean'])}."
    )
