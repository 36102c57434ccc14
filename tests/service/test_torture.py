"""The service in a simulated world of faults; and the checker, on a service that is broken."""

from __future__ import annotations

from collections import Counter

import pytest

from armrace.errors import ArmraceError
from torture.breakages import BREAKAGES
from torture.checker import Contradiction, check
from torture.world import World

SEEDS = 50
TELLING = range(38, 98)


def run(seed: int) -> World:
    world = World(seed)
    world.run()
    check(world)
    return world


def test_no_run_contradicts_what_clients_were_told():
    worlds = []
    for seed in range(SEEDS):
        try:
            worlds.append(run(seed))
        except BaseException as error:
            raise AssertionError(f"seed {seed} fails") from error
    answers = [answer for world in worlds for answer in world.history]
    outcomes = {answer.outcome for answer in answers if answer.kind == "reward"}
    assert outcomes == {"accepted", "duplicate", "reward-conflict", "decision-expired"}
    kept = Counter(answer.kind for answer in answers if not isinstance(answer.outcome, str))
    assert sum(bool(answer.outcome) for answer in answers if answer.kind == "retract") > SEEDS / 2
    for kind in ("release", "preview", "add_arm", "pause_arm", "resume_arm", "retire_arm", "pause"):
        assert kept[kind] > SEEDS / 20, kind
    assert sum(answer.after - answer.before > 1 for answer in answers) > SEEDS
    assert len(answers) > 60 * SEEDS


def test_a_seed_replays():
    one, other = run(3), run(3)
    assert one.store.records == other.store.records
    strip = [(each.kind, each.asked, each.answered) for each in one.history]
    assert strip == [(each.kind, each.asked, each.answered) for each in other.history]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda each: each.__name__)
def test_a_broken_service_is_caught(breakage, monkeypatch):
    breakage(monkeypatch.setattr)
    for seed in TELLING:
        try:
            run(seed)
        except (Contradiction, ArmraceError):
            return
    pytest.fail(f"{breakage.__name__} was not noticed in {len(TELLING)} seeds")
