"""Batches: cells in files, divided among processes, with names that tell all they depend on."""

import threading

import msgspec
import pytest

from armrace.adversaries import TwoPhase
from armrace.environments import Bernoulli
from armrace.files import locked, make_folder
from armrace.red_team import batches
from armrace.red_team.batches import SearchBatch, run_batch, run_series
from armrace.red_team.target import EFFORTS
from armrace.simulation.code_digest import search_code


@pytest.fixture
def batch(effort, monkeypatch):
    monkeypatch.setitem(EFFORTS, "quick", effort)
    return SearchBatch(
        policies=("ucb1",),
        environments={"pair": Bernoulli(means=(0.4, 0.6))},
        budgets=(20.0, 10.0),
        horizon=500,
        effort="quick",
    )


def test_a_chain_that_another_process_searches_is_left_to_it(batch, tmp_path):
    (series,) = batch.series()
    make_folder(tmp_path)
    with locked([series.lock(tmp_path)]):
        assert run_series(series, tmp_path) is None
    assert not list(tmp_path.glob("*.json"))


def test_a_batch_waits_for_series_that_others_search(batch, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_SECONDS_BETWEEN_LOOKS", 0.01)
    (series,) = batch.series()
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with locked([series.lock(tmp_path)]):
            holding.set()
            release.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    holding.wait(60)
    looks = []

    def count_looks(seconds: float) -> None:
        looks.append(seconds)
        release.set()
        other.join()

    monkeypatch.setattr(batches.time, "sleep", count_looks)
    found = run_batch(batch, tmp_path, workers=1)
    assert looks
    assert [verdict["budget"] for verdict in found] == [10.0, 20.0]


def test_what_was_found_is_not_searched_again(batch, tmp_path, monkeypatch):
    found = run_batch(batch, tmp_path, workers=1)
    monkeypatch.setattr(batches, "search", None)
    assert run_batch(batch, tmp_path, workers=1) == found


def test_the_name_of_a_file_tells_all_that_a_verdict_depends_on(batch, tmp_path, monkeypatch):
    (series,) = batch.series()
    cell = series.cells[0]
    first = cell.file(tmp_path, batch, [])
    others = [
        cell.file(tmp_path, msgspec.structs.replace(batch, seed=1), []),
        cell.file(tmp_path, msgspec.structs.replace(batch, effort="usual"), []),
        cell.file(tmp_path, batch, [TwoPhase(first="zero")]),
    ]
    monkeypatch.setattr(batches, "search_code", lambda: f"{search_code()} changed")
    others.append(cell.file(tmp_path, batch, []))
    assert len({first, *others}) == 5
