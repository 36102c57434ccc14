"""The service in a simulated world of faults; and the checker, on a service that is broken."""

from collections import Counter

import pytest

from armrace.errors import ArmraceError
from armrace_client.operations import (
    AddArm,
    Delete,
    Hold,
    Pause,
    PauseArm,
    RecordDecision,
    Release,
    Report,
    ResumeArm,
    RetireArm,
    Retract,
    Reward,
    StartAfresh,
    TakeLease,
    Void,
)
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
    rewards = [answer.outcome for answer in answers if isinstance(answer.operation, Reward)]
    statuses = {each if isinstance(each, str) else each.status for each in rewards}
    assert {"accepted", "duplicate", "reward-conflict", "decision-expired"} <= statuses
    kept = Counter(type(each.operation) for each in answers if not isinstance(each.outcome, str))
    for kind in (Retract, Void, Hold, Release):
        ruled = [each.outcome for each in answers if isinstance(each.operation, kind)]
        assert sum(not isinstance(each, str) and each.changed > 0 for each in ruled) > SEEDS / 20
    for kind in (
        AddArm,
        PauseArm,
        ResumeArm,
        RetireArm,
        Pause,
        StartAfresh,
        Delete,
        RecordDecision,
    ):
        assert kept[kind] > SEEDS / 20, kind
    assert min(kept[TakeLease], kept[Report]) > SEEDS
    assert sum(answer.after - answer.before > 1 for answer in answers) > SEEDS
    assert len(answers) > 60 * SEEDS


def test_a_seed_replays():
    one, other = run(3), run(3)
    assert one.store.commits == other.store.commits
    told = [(each.operation, each.asked, each.answered) for each in one.history]
    assert told == [(each.operation, each.asked, each.answered) for each in other.history]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda each: each.__name__)
def test_a_broken_service_is_caught(breakage, monkeypatch):
    breakage(monkeypatch.setattr)
    for seed in TELLING:
        try:
            run(seed)
        except (Contradiction, ArmraceError):
            return
    pytest.fail(f"{breakage.__name__} was not noticed in {len(TELLING)} seeds")
