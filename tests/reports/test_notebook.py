"""Notebooks: what they show of every kind of result, and the guide notebook as a whole."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from armrace.learner import Learner
from armrace.reports.exports import notebook_html
from reports.conftest import Results
from reports.test_page import outline

GUIDE = Path(__file__).parents[2] / "examples" / "compare-and-audit.ipynb"


def test_every_kind_of_result_is_shown(results: Results) -> None:
    shown = {
        "above the best": results.comparison,
        "ucb1": results.comparison.results["ucb1"],
        "Suspected": results.plan,
        "best built-in": results.verdicts[0],
        "All 4 claims hold.": results.verification,
        "Replay of sample:open-bandit": results.replay,
        "Audit after 600 rounds": results.comparison.results["ucb1"].audits[0],
    }
    for words, thing in shown.items():
        text = thing._repr_html_()
        outline(text)
        assert words in text


def test_a_learner_and_its_state_are_shown_with_the_names_of_the_arms() -> None:
    race = Learner("multi-layer-race", ["red", "<b>"], horizon=200, seed=1)
    plain = Learner("ucb1", ["red", "<b>"], horizon=200, seed=1)
    for learner in (race, plain):
        for _ in range(40):
            decision = learner.decide()
            learner.learn(decision, float(decision.arm == "red"))
        for thing in (learner, learner.inspect()):
            text = thing._repr_html_()
            outline(text)
            assert "red" in text
            assert "&lt;b&gt;" in text
            assert "<b>" not in text
    assert "40 of 200 decisions" in plain._repr_html_()
    assert "cells are deleted" in race.inspect()._repr_html_()
    assert "cells are deleted" not in plain.inspect()._repr_html_()


def test_a_view_of_anything_else_is_refused() -> None:
    with pytest.raises(TypeError, match="no view of a int"):
        notebook_html(1)


def test_the_guide_notebook_runs(tmp_path: Path) -> None:
    notebook = nbformat.read(GUIDE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output.data["text/html"]
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "text/html" in output.get("data", {})
    ]
    assert len(shown) == 5  # the comparison, its differences, the learner, its state, the audit
    assert (tmp_path / "comparison.html").exists()
