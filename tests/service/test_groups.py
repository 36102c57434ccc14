"""Sources, units and labels: counted as the rows of an export say, and told apart."""

import random
import threading
import time
from collections import defaultdict

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.service import table as table_module
from armrace.service.operations import groups as groups_module
from armrace_client.operations import Visit


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Figures that are made for each question."""
    monkeypatch.setattr(groups_module, "_SECONDS", -1.0)


def play(service, clock, rounds=300, seed=1):
    """Visits of all kinds, with rulings between them."""
    rng = random.Random(seed)
    service.create("ads", ["a", "b", "c"], 0, policy="ucb1", window=50, quarantine=0.5, seed=1)
    for number in range(rounds):
        clock.move(1)
        source = rng.choice(["web", "app", "bot", None])
        labels = rng.choice([None, {"site": f"s{rng.randrange(4)}"}])
        unit = rng.choice([None, f"unit {rng.randrange(40)}"])
        made = service.decide("ads", source=source, labels=labels, unit=unit)
        if rng.random() < 0.6 and not made.repeated:
            clock.move(rng.choice([0, 0, 3]))
            more = {"source": rng.choice([None, "late"]), "suspicion": rng.choice([None, 0.9])}
            service.reward(made, rng.random(), labels={"site": "s9"} if rng.random() < 0.1 else {},
                           **more)  # fmt: skip
        if number == 100:
            service.hold("ads", sources=["app"], standing=True)
        if number == 150:
            service.void("ads", sources=["bot"], until=clock.now - 20_000)
            service.retract("ads", sources=["web"], since=clock.now - 50_000)
        if number == 200:
            service.release("ads", sources=["app"], standing=True)
            service.release("ads", sources=["bot"], until=clock.now - 120_000)


def expected(service, key, since=0, until=2**60):
    """The figures of each group, from the rows of an export."""
    found = defaultdict(lambda: defaultdict(int))
    for row in service.rows("ads"):
        if not since <= row.time < until:
            continue
        group = found[key(row)]
        group["voided"] += row.void
        if row.void:
            continue
        group["visits"] += 1
        group[f"shown {row.arm}"] += 1
        if row.reward is not None:
            group["rewarded"] += 1
            group["sum"] += row.reward
            group["counted"] += row.counts
            group[f"arm {row.arm}"] += 1
    return found


KEYS = {
    "source": lambda row: row.source,
    "unit": lambda row: row.unit,
    "label:site": lambda row: row.labels.get("site"),
}


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("ranged", [False, True])
@pytest.mark.parametrize("at_once", [20_000, 50])
def test_groups_are_counted_as_an_export_says(service, clock, monkeypatch, by, ranged, at_once):
    monkeypatch.setattr(table_module, "_MOST_AT_ONCE", at_once)
    play(service, clock)
    span = {"since": clock.now - 250_000, "until": clock.now - 30_000} if ranged else {}
    answer = wait(service, by=by, most=1000, **span)
    wanted = expected(service, KEYS[by], **span)
    assert {each.name for each in answer.groups} == set(wanted)
    for each in answer.groups:
        group = wanted[each.name]
        for name in ("visits", "rewarded", "counted", "voided"):
            assert getattr(each, name) == group[name], (each.name, name)
        assert each.rewarded == each.counted + each.held + each.retracted
        if each.rewarded:
            assert each.mean == pytest.approx(group["sum"] / group["rewarded"], abs=1e-5)
        assert each.arms == [group[f"arm {arm}"] for arm in "abc"]
        assert each.shown == [group[f"shown {arm}"] for arm in "abc"]
        assert sum(each.delays) == each.rewarded
    assert answer.visits == sum(group["visits"] for group in wanted.values())
    assert answer.labels == ["site"]


def wait(service, name="ads", **asked):
    """Ask until the log has been read."""
    for _ in range(2000):
        answer = service.groups(name, **asked)
        if answer.progress == 1.0:
            return answer
        assert answer.groups == []
        time.sleep(0.005)
    raise AssertionError("the log is not read.")


def test_a_table_follows_the_log_and_its_rulings(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=50)
    assert service.groups("ads").groups == []
    made = service.decide("ads", source="web")
    assert service.groups("ads").groups[0].visits == 1
    service.reward(made, 1.0)
    assert service.groups("ads").groups[0].rewarded == 1
    service.hold("ads", sources=["web"])
    assert service.groups("ads").groups[0].held == 1
    service.void("ads", sources=["web"])
    (group,) = service.groups("ads").groups
    assert (group.visits, group.voided, group.moved) == (0, 1, 0.0)


def test_a_log_that_grows_faster_than_it_is_read_is_shown_all_the_same(service, clock, monkeypatch):
    monkeypatch.setattr(table_module, "_MOST_AT_ONCE", 20)
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=50)
    for _ in range(100):
        service.decide("ads", source="web")
    assert wait(service).visits == 100
    go_on, read = threading.Event(), table_module.VisitTable.read

    def slowly(table, *given):
        go_on.wait(30)
        read(table, *given)

    monkeypatch.setattr(table_module.VisitTable, "read", slowly)
    before = clock.now
    clock.move(10)
    for _ in range(50):
        service.decide("ads", source="web")
    answer = service.groups("ads")
    assert (answer.progress, answer.visits, answer.time) == (1.0, 100, before)
    go_on.set()
    for _ in range(2000):
        answer = service.groups("ads", since=0)  # figures of a range that was not asked for before
        if answer.visits == 150:
            break
        time.sleep(0.005)
    assert (answer.visits, answer.time) == (150, clock.now)


def test_groups_are_searched_sorted_and_shown_in_pages(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=50)
    for number in range(30):
        clock.move(1)
        visits = [Visit(source=f"Net {number:02d}", unit=f"unit {number}")] * (1 + number % 7)
        service.decide_batch("ads", visits)
    names = [each.name for each in service.groups("ads", sort="name", skip=10, most=5).groups]
    assert names == [f"Net {number}" for number in range(10, 15)]
    newest = service.groups("ads", sort="newest", most=2)
    assert ([each.name for each in newest.groups], newest.found) == (["Net 29", "Net 28"], 30)
    assert service.groups("ads", search="nET 1").found == 10
    (unit,) = service.groups("ads", by="unit", search="unit 7").groups
    hashes = [row.unit for row in service.rows("ads") if row.source == "Net 07"]
    assert unit.name == hashes[0]
    assert service.groups("ads", by="unit", search=hashes[0][:9]).groups == [unit]
    assert service.groups("ads", by="unit", search="unit 99").found == 0
    assert service.groups("ads", by="label:none").groups == []
    with pytest.raises(InvalidParameter, match="by must be source, unit or label:NAME"):
        service.groups("ads", by="visitor")


def test_the_forger_differs_and_moves_most_and_honest_sources_do_not_differ(service, clock):
    """Honest sources exceed the bounds with a probability below 1e-3 each; the seed is fixed."""
    rng = random.Random(5)
    service.create("ads", ["a", "b", "c"], 0, policy="tsallis-inf", window=60, seed=3)
    for _ in range(40):
        sources = [f"net {rng.randrange(60)}" for _ in range(90)] + ["clicker"] * 10
        made = service.decide_batch("ads", [Visit(source=each) for each in sources]).made()
        clock.move(2)
        for visit, source in zip(made, sources, strict=True):
            forged = source == "clicker"
            if (
                (visit.arm == "b")
                if forged
                else rng.random() < {"a": 0.3, "b": 0.1, "c": 0.1}[visit.arm]
            ):
                service.reward(visit, 1.0)
        clock.move(61)
    for sort in ("difference", "moved"):
        found = service.groups("ads", sort=sort)
        assert found.groups[0].name == "clicker"
        assert found.groups[0].moved_arm == "b"
    assert [each.name for each in found.groups if each.differs] == ["clicker"]
    assert found.groups[0].differs[0] == "arms"
    # What it has moved is what a void takes back.
    before = {arm.arm: arm.mean for arm in service.describe("ads").arms}
    service.void("ads", sources=["clicker"])
    after = {arm.arm: arm.mean for arm in service.describe("ads").arms}
    assert found.groups[0].moved == pytest.approx(before["b"] - after["b"], abs=1e-4)


def test_of_a_long_log_the_latest_visits_are_looked_at(service, clock, monkeypatch):
    monkeypatch.setattr(table_module, "MOST_VISITS", 100)
    play(service, clock)
    answer = service.groups("ads", most=1000)
    assert answer.begins > service.describe("ads").created
    rows = expected(service, KEYS["source"], since=answer.begins)
    assert {e.name: e.visits for e in answer.groups} == {n: g["visits"] for n, g in rows.items()}


def test_units_are_numbered_as_they_come_and_sorted_by_their_hashes():
    rng, units, came = random.Random(2), table_module._Units(), []
    pool = [bytes(16), *(rng.randbytes(16) for _ in range(60))]
    for size in (1, 0, 40, 7, 200):
        came += rng.choices(pool[: 10 + len(came)], k=size)
        units.column.extend(np.frombuffer(b"".join(came[-size:]), "V16") if size else [], size)
        places = units.places()
        different = list(dict.fromkeys(came))
        assert places.tolist() == [different.index(each) for each in came]
        names = [each.hex() if any(each) else None for each in different]
        assert [units[place] for place in range(len(units))] == names
        order = units.order(np.arange(len(units)))
        assert order.tolist() == sorted(order, key=lambda at: names[at] or "")
    for text in (
        "",
        "x",
        *(name[:n] for name in names[-9:] if name for n in (1, 7, 16, 17, 32, 33)),
    ):
        fits = [text != "" and (name or "").startswith(text) for name in names]
        assert units.beginning_with(text).tolist() == fits
