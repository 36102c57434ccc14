"""Campaigns: cells in files, divided among processes, with names that tell all they depend on."""

from __future__ import annotations

import threading

import msgspec
import pytest

from armrace.adversaries import TwoPhase
from armrace.environments import Bernoulli
from armrace.files import make_folder
from armrace.files.locks import locked
from armrace.red_team import campaign as campaigns
from armrace.red_team.campaign import Campaign, run_campaign, run_chain
from armrace.red_team.target import EFFORTS
from armrace.simulation.code_digest import search_code


@pytest.fixture
def campaign(effort, monkeypatch):
    monkeypatch.setitem(EFFORTS, "quick", effort)
    return Campaign(
        policies=("ucb1",),
        environments={"pair": Bernoulli(means=(0.4, 0.6))},
        budgets=(20.0, 10.0),
        horizon=500,
        effort="quick",
    )


def test_a_chain_that_another_process_searches_is_left_to_it(campaign, tmp_path):
    (chain,) = campaign.chains()
    make_folder(tmp_path)
    with locked([chain.lock(tmp_path)]):
        assert run_chain(chain, tmp_path) is None
    assert not list(tmp_path.glob("*.json"))


def test_a_campaign_waits_for_chains_that_others_search(campaign, tmp_path, monkeypatch):
    monkeypatch.setattr(campaigns, "_SECONDS_BETWEEN_LOOKS", 0.01)
    (chain,) = campaign.chains()
    holding, release = threading.Event(), threading.Event()

    def hold() -> None:
        with locked([chain.lock(tmp_path)]):
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

    monkeypatch.setattr(campaigns.time, "sleep", count_looks)
    found = run_campaign(campaign, tmp_path, workers=1)
    assert looks
    assert [verdict["budget"] for verdict in found] == [10.0, 20.0]


def test_what_was_found_is_not_searched_again(campaign, tmp_path, monkeypatch):
    found = run_campaign(campaign, tmp_path, workers=1)
    monkeypatch.setattr(campaigns, "hunt", None)
    assert run_campaign(campaign, tmp_path, workers=1) == found


def test_the_name_of_a_file_tells_all_that_a_verdict_depends_on(campaign, tmp_path, monkeypatch):
    (chain,) = campaign.chains()
    cell = chain.cells[0]
    first = cell.file(tmp_path, campaign, [])
    others = [
        cell.file(tmp_path, msgspec.structs.replace(campaign, seed=1), []),
        cell.file(tmp_path, msgspec.structs.replace(campaign, effort="usual"), []),
        cell.file(tmp_path, campaign, [TwoPhase(first="zero")]),
    ]
    monkeypatch.setattr(campaigns, "search_code", lambda: f"{search_code()} changed")
    others.append(cell.file(tmp_path, campaign, []))
    assert len({first, *others}) == 5
