"""The page of a plan: well formed, with every policy, and the crosses where policies are lost."""

import re
from typing import Any

import pytest

from armrace.planning import Plan, plan
from armrace.reports.studies import plan_plots, render_plan
from reports.test_page import assert_only_own_script, outline

ASKED: dict[str, Any] = {
    "means": [0.9, 0.5, 0.5],
    "traffic": 1000,
    "days": 4,
    "policies": ["ucb1", "active-arm-elimination", "thompson", "barbat"],
    "attacks": ["swap-best", "zero-best-when-likely"],
    "replications": 3,
    "progress": False,
}


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan(**ASKED, forged=0.01)


def test_page_is_well_formed_and_self_contained(found: Plan) -> None:
    text = render_plan(found, "armrace plan <&>")
    page = outline(text)
    assert len(page.labels) == 2  # for screens and phones
    assert all(page.labels)
    assert len(set(page.ids)) == len(page.ids)
    assert "armrace plan &lt;&amp;&gt;" in text
    assert_only_own_script(text)
    assert "None" not in re.sub(r"<pre.*?</pre>", "", text, flags=re.DOTALL)
    assert "suspected: 40" in text
    assert "any attack that fixes its answer for every arm before the arm is drawn" in text


def test_every_policy_and_every_figure_is_there(found: Plan) -> None:
    text = render_plan(found, "")
    for policy in ASKED["policies"]:
        assert policy in text.split("<h2>Policies</h2>")[1].split("</table>")[0]
    assert text.split("<h2>All figures</h2>")[1].count('<th scope="row">') == found.cells.height


def test_a_cross_is_where_a_policy_was_lost(found: Plan) -> None:
    chart = plan_plots(found)[0].chart
    assert chart is not None
    crosses = [line.x[0] for line in chart.panels[0].lines if line.marker == "x"]
    lost = found.table["lost_at"].drop_nulls().to_list()
    assert sorted(crosses) == sorted(lost)
    assert max(crosses) > 0
