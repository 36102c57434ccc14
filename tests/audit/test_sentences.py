"""The sentences of audits: each allows for honest drift, and says what is certified of what."""

from pathlib import Path

import numpy as np
import pytest

from armrace.audit import ALARMS, Alarm, Audit, audit
from armrace.audit.findings import HIDDEN, MOVED, STILL
from armrace.environments import Table
from armrace.simulation import make_experiment
from armrace.simulation.replication import make_parts, play_out

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {
    "disagreement": {"layers": (0, 3), "direction": "down", "since": 900},
    "change": {"direction": "up", "since": 900, "until": 1200},
    "waves": {},
    "failed-layer": {"layers": (3,)},
}


def alarm_of(kind, **fields):
    example = {**EXAMPLES[kind], **fields}
    return Alarm(kind=kind, arm="red", pulls=(50, 60), means=(0.1, 0.5), chance=0.01, **example)


def audit_of(seen, total):
    return Audit(
        level=0.05, rounds=1000, arms=["red", "blue"], alarms=[alarm_of(kind) for kind in ALARMS],
        certificate=total, arm_certificates=[seen, 0.0], looked_at=["layers", "time"],
    )  # fmt: skip


@pytest.mark.parametrize("kind", ALARMS)
@pytest.mark.parametrize("fields", [{}, {"layers": (0,)}], ids=["usual", "one-layer"])
def test_every_alarm_allows_for_a_world_that_has_moved(kind, fields):
    words = alarm_of(kind, **(fields if kind == "failed-layer" else {})).words
    assert MOVED in words
    assert "guarantee" in words if kind == "failed-layer" else "fixed means" in words
    assert (HIDDEN in words) == (kind == "failed-layer")  # its certificate may need it


def test_what_is_certified_of_learned_rewards_is_told_from_what_is_certified_of_c():
    seen, total = str(audit_of(26.1, 350.0)).splitlines()[-3:-1]
    assert "learned rewards were changed by at least 26.1 in all" in seen
    assert HIDDEN not in seen
    assert "C is at least 350" in total
    assert "played or not" in total
    assert HIDDEN in total


def test_an_audit_without_alarms_does_not_claim_honesty():
    words = str(Audit(level=0.05, rounds=10, arms=[0], alarms=[], certificate=0.0,
                      arm_certificates=[0.0], looked_at=["time"]))  # fmt: skip
    assert "does not prove it honest" in words


@pytest.mark.parametrize("policy", ["multi-layer-race", "ucb1"])
def test_an_honest_sine_of_a_tenth_raises_alarms_that_allow_for_it(policy):
    """Nobody interferes: means go up and down by 0.1, once. One fixed seed."""
    rounds = 20_000
    season = 0.1 * np.sin(2 * np.pi * np.arange(rounds) / rounds)
    means = np.array([0.5, 0.4]) + season[:, None]
    rewards = (np.random.default_rng(0).random((rounds, 2)) < means).astype(float)
    experiment = make_experiment(
        policy=policy, environment=Table(rewards), horizon=rounds, seed=1, audit=0.05
    )
    parts = make_parts(experiment, 0)
    play_out(parts)
    found = audit(parts.policy)
    raised = {"change", "failed-layer"} if policy == "multi-layer-race" else {"change"}
    assert found.kinds() == raised
    assert found.certificate > 100  # though not one reward was changed
    for line in str(found).splitlines()[:-1]:
        assert MOVED in line or line.startswith(STILL)
