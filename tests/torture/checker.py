"""The checker: what clients were told, against what the log holds.

It shares no code with the fold. It reads the log as data, works out for itself what each answer had
to be and what the learner must have learned, and names the first contradiction.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any

import msgspec

from armrace.online import Assigned, Learner
from torture.world import WINDOW_SECONDS, World

__all__ = ["Contradiction", "check"]

_CREATED, _DECIDED, _REWARDED, _RETRACTED, _RELEASED = range(5)
_CONTRADICTED, _DECIDED_AHEAD = 9, 11
_WINDOW = 1000 * WINDOW_SECONDS


class Contradiction(AssertionError):
    """An answer, the log and the state do not agree."""


def _require(kept: bool, words: str) -> None:
    if not kept:
        raise Contradiction(words)


class _Log:
    """The log as plain lists: the kind of an event, its time, its experiment, and the rest."""

    def __init__(self, world: World) -> None:
        digest, self.events = bytes(16), {}
        for place, record in enumerate(world.store.records, 1):
            _require(record.sequence == place, f"sequence {record.sequence} is at place {place}")
            digest = hashlib.blake2b(digest + record.payload, digest_size=16).digest()
            _require(record.digest == digest, f"record {place} breaks the chain")
            event = msgspec.msgpack.decode(record.payload)
            # What follows the request says how a decision was drawn ahead.
            self.events[place] = [_DECIDED, *event[1:10]] if event[0] == _DECIDED_AHEAD else event
        times = [event[1] for event in self.events.values()]
        _require(times == sorted(times), "time goes back")
        self.decided = {s: e for s, e in self.events.items() if e[0] == _DECIDED}
        self.rewarded: dict[int, list[Any]] = {}
        self.rulings: dict[int, bool] = {}
        self.ruled: list[tuple[int, list[int]]] = []
        self.contradicted = {e[3] for e in self.events.values() if e[0] == _CONTRADICTED}
        for event in self.events.values():
            if event[0] == _REWARDED:
                _require(event[3] not in self.rewarded, f"decision {event[3]} is rewarded twice")
                self.rewarded[event[3]] = event
            elif event[0] in (_RETRACTED, _RELEASED):
                self.rulings.update(dict.fromkeys(event[3], event[0] == _RELEASED))
                self.ruled.append((event[0], event[3]))

    def counts(self, decision: int) -> bool:
        """Whether there is a reward that counts, in the end."""
        event = self.rewarded.get(decision)
        if event is None:
            return False
        suspicious = event[6] is not None and event[6] > 0.5
        return self.rulings.get(decision, not suspicious)


def check(world: World) -> None:
    """Check a finished run.

    Raises:
        Contradiction: something is wrong; the message says what.
    """
    log = _Log(world)
    _check_decisions(world, log)
    _check_rewards(world, log)
    _check_rulings(world, log)
    _check_states(world, log)


def _check_decisions(world: World, log: _Log) -> None:
    by_request: dict[str, list[int]] = {}
    for sequence, event in log.decided.items():
        by_request.setdefault(event[9], []).append(sequence)
    for request, sequences in by_request.items():
        times = [log.events[each][1] for each in sequences]
        apart = all(b - a >= _WINDOW for a, b in pairwise(times))
        _require(apart, f"{request} led to several decisions at a time")
    names: dict[str, set[str]] = {}
    for answer in world.history:
        if answer.kind == "decide":
            _require(not isinstance(answer.outcome, str), f"decide answered {answer.outcome}")
            sequence = _sequence(world, answer.outcome.decision)
            event = log.decided.get(sequence)
            _require(event is not None, f"decision {sequence} was acknowledged and is not kept")
            _require(event[9] == answer.arguments[0], f"decision {sequence} is another's")
            arm = ["a", "b", "c"][event[3]]
            _require(answer.outcome.arm == arm, f"decision {sequence} showed another arm")
            names.setdefault(answer.outcome.decision, set()).add(answer.arguments[0])
    _require(all(len(each) == 1 for each in names.values()), "two requests share a decision")


def _sequence(world: World, token: str) -> int:
    return world.keyring.signing_keys().read("main", token).sequence


def _check_rewards(world: World, log: _Log) -> None:
    """Each answer is the one that a register written at most once gives."""
    for answer in world.history:
        if answer.kind != "reward":
            continue
        decision, value = _sequence(world, answer.arguments[0]), answer.arguments[1]
        event = log.rewarded.get(decision)
        words = f"the reward {value} of decision {decision} was answered {answer.outcome}"
        if answer.outcome in ("accepted", "duplicate"):
            _require(event is not None, f"{words} and is not kept")
            _require(event[4] == round(value * 2**20), f"{words}, with another value kept")
            _require(event[1] <= answer.answered, f"{words} before it was kept")
        elif answer.outcome == "reward-conflict":
            _require(decision in log.contradicted, f"{words} and is not counted")
            _require(event is not None, f"{words} without a reward to be in conflict with")
            _require(event[4] != round(value * 2**20), f"{words} with the same value")
            _require(event[1] <= answer.answered, f"{words} before the other was kept")
        elif answer.outcome == "decision-expired":
            made = log.events[decision][1]
            _require(answer.answered >= made + _WINDOW, f"{words} within the window")
            _require(event is None or event[1] >= answer.asked, f"{words}, but it had a reward")
        else:
            raise Contradiction(words)
    for decision, event in log.rewarded.items():
        inside = log.events[decision][1] <= event[1] < log.events[decision][1] + _WINDOW
        _require(inside, f"decision {decision} was rewarded outside its window")


def _check_rulings(world: World, log: _Log) -> None:
    for answer in world.history:
        if answer.kind in ("retract", "release") and answer.outcome:
            kind = _RETRACTED if answer.kind == "retract" else _RELEASED
            source = answer.arguments[0]
            kept = any(
                found == kind
                and len(decisions) == answer.outcome
                and all(log.rewarded[each][5] == source for each in decisions)
                for found, decisions in log.ruled
            )
            _require(kept, f"a {answer.kind} of {answer.outcome} rewards is not kept")


def _check_states(world: World, log: _Log) -> None:
    world.now += 10_000_000
    views, states = [], []
    for node in world.nodes:
        service = world.make_service() if node.service is None else node.service
        views.append(service.describe("ads"))
        service.names()
    for node in world.nodes:
        if node.service is not None:
            node.service.names()
            states.append(node.service.ledger._state.save())
    fresh = world.make_service()
    states.append(fresh.ledger._state.save())
    _require(len(set(states)) == 1, "the folded log is not the live state")
    closed = [each for each in log.decided if log.counts(each)]
    _require(
        all(sum(arm.rewarded for arm in view.arms) == len(closed) for view in views),
        "the rewards that count are miscounted",
    )
    expected = _learn(world, _Log(world))
    live = fresh.ledger._state.find("main", "ads").generation.learner
    _require(
        live.snapshot().state == expected.snapshot().state, "the learner learned something else"
    )


def _learn(world: World, log: _Log) -> Learner:
    """Learn what counts in the end, when the settings say: at once, or when the window closes."""
    settings = log.events[1][5]
    immediate = settings["settle"] == "immediate"
    learner = Learner(settings["policy"], [0, 1, 2], 1000, settings["seed"], log=False)
    waiting: dict[int, Any] = {}
    learned: set[int] = set()
    for sequence, event in log.events.items():
        for place in [p for p in waiting if log.events[p][1] + _WINDOW <= event[1]]:
            made = waiting.pop(place)
            if place not in learned:
                counts = log.counts(place)
                learner.learn(made, log.rewarded[place][4] / 2**20 if counts else 0.0)
        if event[0] == _DECIDED:
            ticket = tuple(event[4])
            waiting[sequence] = learner.apply(Assigned(learner.decisions, ticket, event[5]))
        elif event[0] == _REWARDED and immediate and log.counts(event[3]):
            learned.add(event[3])
            learner.learn(waiting[event[3]], event[4] / 2**20)
    return learner
