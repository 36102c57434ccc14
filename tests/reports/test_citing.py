"""Tables in LaTeX, the paragraph on methods, and references."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.cli.main import run
from armrace.policies import POLICIES
from armrace.reports.citing import bibliography, entries_for
from armrace.simulation import Comparison, Result

OWN_WORDS = {
    "leaf-barrier", "leaf-thompson", "none", "double-impact", "free-ride", "spoil-then-swap",
    "strip", "restarting",
}  # fmt: skip
"""Members whose reference names no paper."""


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return armrace.compare(
        ["ucb1", "exp3"], [0.9, 0.5], "zero-best", budget=20, horizon=2_000, replications=6, seed=1
    )


def made(name: str, regrets: list[float]) -> Result:
    """A result of one policy with given pseudo-regrets."""
    found = armrace.simulate(name, [0.9, 0.5], horizon=2, replications=len(regrets))
    values = np.repeat(regrets, found.rows.height // len(regrets))
    found.rows = found.rows.with_columns(pl.Series("pseudo_regret", values))
    return found


@pytest.mark.parametrize("catalogue", [POLICIES, ADVERSARIES], ids=["policies", "attacks"])
def test_every_member_cites_the_papers_that_it_names(catalogue) -> None:
    for name, member in catalogue.items():
        if member.__module__.startswith("armrace."):
            years = set(re.findall(r"\b((?:19|20)\d\d)\)", member.reference))
            found = entries_for([member])
            assert {entry.year for entry in found} == years, name
            assert bool(found) != (name in OWN_WORDS), name


def test_keys_are_unique_and_every_entry_is_used() -> None:
    entries = bibliography()
    assert len({entry.key for entry in entries}) == len(entries)
    members = [*POLICIES.values(), *ADVERSARIES.values()]
    assert set(entries_for(members)) == set(entries)


def test_a_table_is_bold_where_nothing_is_told_apart_from_the_best() -> None:
    """Means 10 and 10.5 differ by less than their noise, and 50 by far more."""
    results = [made("ucb1", [9, 10, 11, 10]), made("exp3", [12, 9, 10, 11]), made("moss", [50] * 4)]
    table = Comparison(results).to_latex(label="tab:loss")
    assert r"\textbf{ucb1} & \textbf{10} &" in table
    assert r"\textbf{exp3} & \textbf{10.5} &" in table
    assert "\n    moss & 50 &" in table
    assert r"\label{tab:loss}" in table
    for rule in ("toprule", "midrule", "bottomrule"):
        assert table.count(rf"\{rule}") == 1


def test_labels_are_escaped() -> None:
    found = Comparison([made("ucb1", [1, 2])])
    found.results = {r"a_b & 5% \x^2": found.results["ucb1"]}
    assert r"\textbf{a\_b \& 5\% \textbackslash{}x\textasciicircum{}2}" in found.to_latex()


def test_methods_say_what_was_run_and_cite_it(compared: Comparison) -> None:
    words = compared.methods()
    assert r"\texttt{ucb1} \citep{auer2002finite}" in words
    assert "over 2,000 rounds in 6 replications (seed 1)" in words
    assert r"by \texttt{zero-best}" in words
    assert "within a budget of 20" in words
    cited = {key for keys in re.findall(r"\\citep\{(.*?)\}", words) for key in keys.split(",")}
    entries = compared.to_bibtex()
    assert all(f"{{{key},\n" in entries for key in cited)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs LaTeX")
def test_latex_takes_the_table(compared: Comparison, tmp_path: Path) -> None:
    document = (
        "\\documentclass{article}\\usepackage{booktabs,natbib}\\begin{document}\n"
        f"{compared.to_latex()}\n{compared.methods()}\n\\end{{document}}\n"
    )
    (tmp_path / "x.tex").write_text(document, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "x.tex"],
        cwd=tmp_path, capture_output=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0


def test_the_command_prints_bibtex(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cite", "sapo", "adaptive-constant,ucb1"]) == 0
    said = capsys.readouterr().out
    for key in ("auer2016algorithm", "schlisselberg2025improved", "liu2019data", "auer2002finite"):
        assert said.count(f"{{{key},\n") == 1
    assert "@software{armrace,\n" in said
    assert run(["cite", "nothing-such"]) == 2
    assert "there is no policy named 'nothing-such'" in capsys.readouterr().err
