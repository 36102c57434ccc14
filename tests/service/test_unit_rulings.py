"""Rulings about units: a table of visits finds what reading the log finds."""

import random

import msgspec
import pytest

from armrace.service.log.chain import Head
from armrace.service.operations import rulings
from armrace.service.table import VisitTable, _Units
from serving import is_replay

UNITS = [f"unit {number}" for number in range(40)]


def visit(service, clock, rng, rounds):
    """Visits with and without units, of which some rewards are held; they may come in parts."""
    adds_up = service.describe("ads").settings.get("accumulate")
    for _ in range(rounds):
        clock.move(1)
        unit, source = rng.choice([None, *UNITS]), rng.choice(["web", "app"])
        made = service.decide("ads", unit=unit, source=source)
        if rng.random() < 0.6 and not made.repeated:
            for part in ("first", "second")[: rng.randint(1, 2)] if adds_up else (None,):
                sent = {
                    "source": rng.choice([None, "app"]),
                    "suspicion": rng.choice([None, 0.1, 0.9]),
                }
                service.reward(made, rng.random(), **sent, part=part)


@pytest.fixture(params=[False, True], ids=["whole", "in parts"])
def used(service, clock, request):
    more = {"window": 50, "quarantine": 0.5, "seed": 1, "accumulate": request.param}
    service.create("ads", ["a", "b"], 0, policy="ucb1", **more)
    visit(service, clock, random.Random(3), 200)
    service.hold("ads", sources=["app"], standing=True)
    visit(service, clock, random.Random(4), 100)
    return service


@pytest.fixture
def reads(monkeypatch):
    """How many records are read for each table, however short the log is."""
    monkeypatch.setattr(rulings, "_WORTH_TABLE", 0)
    rulings._kept_table.clear()
    read, sizes = VisitTable.read, []

    def counted(table, reader, start, end):
        sizes.append(end - start.sequence)
        read(table, reader, start, end)

    monkeypatch.setattr(VisitTable, "read", counted)
    return sizes


def test_a_table_finds_what_reading_the_log_finds(used, clock, reads, monkeypatch):
    rng = random.Random(5)
    for number in range(12):
        verb = rng.choice(["void", "retract", "hold", "release"])
        names = [*rng.sample(UNITS, 6), "nobody", "0" * 32, used.rows("ads")[number].unit or "x"]
        asked = {"units": names, "reasons": [f"rule {n}" for n in range(len(names))]}
        asked["since"] = rng.choice([None, clock.now - 150_000])
        asked["until"] = rng.choice([None, clock.now - 90_000])
        asked |= {"early": True} if verb == "hold" and rng.random() < 0.5 else {}
        found = []
        for worth in (0, 10**9):
            monkeypatch.setattr(rulings, "_WORTH_TABLE", worth)
            found.append(getattr(used, verb)("ads", **asked, preview=True))
        assert msgspec.to_builtins(found[0]) == msgspec.to_builtins(found[1])
        monkeypatch.setattr(rulings, "_WORTH_TABLE", 0)
        done = getattr(used, verb)("ads", **asked)
        assert (done.visits, done.changed) == (found[1].visits, found[1].changed)
        visit(used, clock, rng, 8)
    assert is_replay(used)
    # The log is read once, and then only what has come.
    assert max(reads[1:]) < 30 < reads[0]
    assert len(reads) >= 24


def test_a_preview_of_before_is_ruled_on_as_it_was_shown(used, clock, reads):
    shown = used.void("ads", units=UNITS, preview=True)
    visit(used, clock, random.Random(6), 20)
    done = used.void("ads", units=UNITS, head=shown.head)
    assert done.changed == shown.changed
    assert used.void("ads", units=UNITS).changed > 0


def test_a_table_of_a_log_that_was_rewritten_is_read_again(used, reads):
    """After a failover, say, another log may end with the same record number."""
    right = used.void("ads", units=UNITS[:9], preview=True).visits
    for before in (0, 1):
        (table,) = rulings._kept_table.values()
        sequence = table.head.sequence - before
        table.head, table.unit = Head(sequence, b"\1" * len(table.head.digest)), _Units()
        assert used.void("ads", units=UNITS[:9], preview=True).visits == right > 0
