"""The checker: what clients were told, against what the log holds.

It shares no code with the fold. It reads the log as data, works out for itself what each answer had
to be and what the learner must have learned, and names the first contradiction. An answer is judged
by the log as it was when the operation was performed: it knows how many records there were before
and after.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from torture.books import Contradiction, Log, require
from torture.learning import learn
from torture.world import START, World

__all__ = ["Contradiction", "check"]

_STATUSES = {"add_arm": "active", "resume_arm": "active", "pause_arm": "paused"}
_STATUSES["retire_arm"] = "retired"
_RULINGS = {"retract": False, "release": True}
_PHASES = {"pause": "paused", "resume": "running"}


def check(world: World) -> None:
    """Check a finished run.

    Raises:
        Contradiction: something is wrong; the message says what.
    """
    log = Log(world)
    judge = _Judge(world, log)
    told: set[tuple[int, str]] = set()
    for answer in world.history:
        if (answer.attempt, answer.kind) not in told:  # else it is a copy
            told.add((answer.attempt, answer.kind))
            judge.check(answer)
    _check_states(world)


class _Judge:
    """Checks answers one by one."""

    def __init__(self, world: World, log: Log) -> None:
        self._log = log
        self._keys = world.keyring.signing_keys()
        self._slack = 0 if world.kinds.shared_clock else world.kinds.skew
        """By how much the time of the log may differ from the true time."""
        self._made: Counter[int] = Counter()
        self._accepted: Counter[int] = Counter()
        self._ruled: set[int] = set()
        self._check_ruled(world)

    def _check_ruled(self, world: World) -> None:
        """Every ruling of the log concerns the rewards that were to be ruled about just then."""
        asked = {each.arguments[1]: each for each in world.history if each.kind in _RULINGS}
        for place, event in self._log.ruled:
            require(event.reason in asked, f"record {place} is a ruling of nobody")
            source = asked[event.reason].arguments[0]
            right = self._log.concerned(place - 1, source, event.counts)
            require(sorted(event.decisions) == right, f"record {place} rules about others")

    def check(self, answer: Any) -> None:
        if answer.kind == "decide":
            self._check_decision(answer)
        elif answer.kind == "reward":
            self._check_reward(answer)
        elif answer.kind in _STATUSES:
            self._check_arm(answer)
        elif answer.kind in _PHASES:
            found = self._log.phase_at(answer.after)
            refused = isinstance(answer.outcome, str)
            require(not refused and found == _PHASES[answer.kind], f"{answer.kind} is not kept")
        else:
            self._check_ruling(answer)

    def _sequence(self, token: str) -> int:
        return self._keys.read("main", token).sequence

    def _check_decision(self, answer: Any) -> None:
        log, (request, unit) = self._log, answer.arguments
        if answer.outcome == "not-running":
            require(log.phase_at(answer.before) == "paused", "decide was refused while it runs")
            return
        require(not isinstance(answer.outcome, str), f"decide answered {answer.outcome}")
        sequence = self._sequence(answer.outcome.decision)
        event = log.decided.get(sequence)
        require(event is not None, f"decision {sequence} was acknowledged and is not kept")
        words = f"decision {sequence}"
        require(sequence <= answer.after, f"{words} was acknowledged before it was kept")
        own = event.request == request or (unit is not None and event.unit == unit)
        require(own, f"{words} is another's")
        require(answer.outcome.arm == log.arms[event.arm], f"{words} showed another arm")
        require(answer.outcome.probability == event.probability, f"{words} had other odds")
        if not answer.outcome.repeated:
            require(answer.before < sequence, f"{words} was made before, and called new")
            self._made[sequence] += 1
            require(self._made[sequence] == 1, f"{words} was made twice")
            require(event.request == request, f"{words} is another's, and called new")
        else:
            late = answer.asked - self._slack
            require(event.time + log.window > late, f"{words} had closed, and was repeated")
            if event.request != request:
                status = log.status_at(answer.before, log.arms[event.arm])
                require(status == "active", f"{words} of a unit shows an arm that is {status}")

    def _check_reward(self, answer: Any) -> None:
        """Each answer is the one that a register written at most once gives."""
        log, value = self._log, answer.arguments[1]
        decision = self._sequence(answer.arguments[0])
        place, event = log.rewarded.get(decision, (math.inf, None))
        same = event is not None and event.steps == round(value * 2**20)
        words = f"the reward {value} of decision {decision} was answered {answer.outcome}"
        if answer.outcome == "accepted":
            require(answer.before < place <= answer.after, f"{words} and is not kept then")
            require(same, f"{words}, with another value kept")
            require(event.source == answer.arguments[2], f"{words}, of another source")
            require(event.suspicion == answer.arguments[3], f"{words}, with another suspicion")
            self._accepted[decision] += 1
            require(self._accepted[decision] == 1, f"{words} twice")
        elif answer.outcome == "duplicate":
            require(place <= answer.after and same, f"{words}, without a first one")
        elif answer.outcome == "reward-conflict":
            require(place <= answer.after, f"{words} without a reward to be in conflict with")
            require(not same, f"{words} with the same value")
            found = log.contradicted.get(decision, [])
            kept = [each for each in found if answer.before < each <= answer.after]
            require(bool(kept), f"{words} and is not counted")
        elif answer.outcome == "decision-expired":
            late = answer.answered + self._slack
            made = log.decided[decision].time
            require(late >= made + log.window, f"{words} within the window")
            require(place > answer.before, f"{words}, but it had a reward")
        else:
            raise Contradiction(words)

    def _check_arm(self, answer: Any) -> None:
        log, status = self._log, _STATUSES[answer.kind]
        (arm,) = answer.arguments
        if isinstance(answer.outcome, str):
            changed = log.status_at(answer.before, arm) != log.status_at(answer.after, arm)
            require(not changed, f"{answer.kind} of {arm} was refused, and changed it")
            return
        if answer.kind == "add_arm" and answer.outcome.status == "paused":
            status = "paused"  # it was there
        require(answer.outcome.status == status, f"{answer.kind} answered {answer.outcome.status}")
        require(log.status_at(answer.after, arm) == status, f"{answer.kind} of {arm} is not kept")

    def _check_ruling(self, answer: Any) -> None:
        source, reason = answer.arguments
        words = f"a {answer.kind} of {answer.outcome} rewards"
        require(isinstance(answer.outcome, int), words)
        kept = [
            (place, event)
            for place, event in self._log.ruled
            if event.reason == reason and answer.before < place <= answer.after
        ]
        if answer.kind == "preview":
            places = range(answer.before, answer.after + 1)
            possible = {len(self._log.concerned(each, source, False)) for each in places}
            require(not kept and answer.outcome in possible, f"{words} is another's")
            return
        counts = _RULINGS[answer.kind]
        if not answer.outcome:
            places = range(answer.before, answer.after + 1)
            none = any(not self._log.concerned(each, source, counts) for each in places)
            require(none, f"{words}, but some were to be ruled about")
            return
        # Tries of the same ruling may be served between its turns, so that the last one is its own.
        place, event = max(kept, default=(0, None))
        require(event is not None and place not in self._ruled, f"{words} is not kept")
        self._ruled.add(place)
        require(event.counts == counts, f"{words} is kept as another")
        require(len(event.decisions) == answer.outcome, f"{words} is kept for others")


def _check_states(world: World) -> None:
    world.now += 10_000_000
    with world.scaled_down():
        views, states = [], []
        services = [node.service or world.make_service(node.clock) for node in world.nodes]
        views = [service.describe("ads") for service in services]
        for service in services:
            service.names()
            states.append(service.ledger._state.save())
        fresh = world.make_service(lambda: world.now)
        states.append(fresh.ledger._state.save())
        log = Log(world)
        require(len(set(states)) == 1, "the folded log is not the live state")
        for view in views:
            _check_view(view, log)
        live = fresh.ledger._state.find("main", "ads").generation
    number, expected = learn(log)
    require(live.number == number, "another number of generations")
    found, right = live.learner.snapshot().state, expected.snapshot().state
    require(found == right, "the learner learned something else")


def _check_view(view: Any, log: Log) -> None:
    """Compare figures that anybody can count with those of the service."""
    require(view.created == START, "the experiment is another")
    require(view.decisions == len(log.decided), "decisions are miscounted")
    require(view.open == 0, "decisions are open after their window")
    conflicts = sum(len(each) for each in log.contradicted.values())
    require(view.conflicts == conflicts, "conflicts are miscounted")
    made = Counter(event.arm for event in log.decided.values())
    counted = Counter(event.arm for place, event in log.decided.items() if log.counts(place))
    for place, arm in enumerate(view.arms):
        require(arm.arm == log.arms[place], "arms are in another order")
        require(arm.status == log.status_at(len(log.events), arm.arm), "an arm is as it was")
        require(arm.decisions == arm.closed == made[place], "an arm's decisions are miscounted")
        require(arm.rewarded == counted[place], "the rewards that count are miscounted")
        total = sum(
            log.rewarded[each][1].steps / 2**20
            for each, event in log.decided.items()
            if event.arm == place and log.counts(each)
        )
        missing, learned = view.settings["missing"], counted[place]
        if missing != "drop":
            total, learned = total + missing * (made[place] - learned), made[place]
        mean = total / learned if learned else None
        require(arm.mean == mean, "a mean of rewards is wrong")
