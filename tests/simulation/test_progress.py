"""Progress without a terminal: a line a minute, none in a short run, none if not wanted."""

import sys

import pytest

from armrace.simulation import progress
from armrace.simulation.progress import compiling_told, progress_bar


def show(shown):
    with progress_bar("verifying", shown) as report:
        report(0.25)
        report(0.5, "verifying lemma 1")


def test_a_line_a_minute_elsewhere_than_on_a_terminal(capsys, monkeypatch):
    minutes = iter([0.0, 59.0, 61.0, 61.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(minutes))
    show(None)
    assert capsys.readouterr().err == "armrace: verifying lemma 1, 50%\n"


@pytest.mark.parametrize("shown", [False, None])
def test_nothing_is_said_of_a_short_run_or_if_not_wanted(capsys, monkeypatch, shown):
    if shown is False:
        monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    show(shown)
    assert capsys.readouterr().err == ""


def test_standard_error_may_be_closed(monkeypatch, capsys):
    """Nothing is printed on standard output in its place, which a program may read as JSON."""
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    show(None)
    with compiling_told("ucb1", 10.0, None):
        pass
    assert capsys.readouterr().out == ""
