"""What the learner must have learned, worked out from the log by the checker."""

from __future__ import annotations

from armrace.online import Assigned, Learner
from armrace.online import Decision as LearnersDecision
from torture.books import Log
from torture.world import FIRST_HORIZON

__all__ = ["learn"]

_SEED_STEP = 1_000_003
_TAKES_AND_LOSES_ARMS = {"ucb1": True, "optimistic-log-barrier": True, "sharp-race": False}


class _Course:
    """The generations of an experiment, one after the other."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._policy = log.settings["policy"]
        self.number = -1
        self.arms = len(log.settings["arms"])
        self.waiting: dict[int, tuple[int, LearnersDecision | None]] = {}
        """Open decisions with their generation."""
        self.begin(log.settings["horizon"] or FIRST_HORIZON, 1)

    def begin(self, horizon: int, end: int) -> None:
        """Start a generation with the arms that are there after ``end`` records."""
        log, places = self._log, self._unretired(end)
        self.number += 1
        seed = (log.settings["seed"] + _SEED_STEP * self.number) % 2**63
        self.learner = Learner(self._policy, places, horizon, seed, log=False)
        for place in places:
            if log.status_at(end, log.arms[place]) == "paused":
                self.learner.pause_arm(place)

    def _unretired(self, end: int) -> list[int]:
        log = self._log
        return [p for p in range(self.arms) if log.status_at(end, log.arms[p]) != "retired"]

    def settle(self, time: int) -> None:
        """Learn the decisions whose window has closed by then, in their order."""
        log, missing = self._log, self._log.settings["missing"]
        for place in [p for p in self.waiting if log.decided[p].time + log.window <= time]:
            generation, made = self.waiting.pop(place)
            if made is None or generation != self.number:
                continue
            if log.counts(place):
                self.learner.learn(made, log.rewarded[place][1].steps / 2**20)
            elif missing == "drop":
                self.learner.drop(made)
            else:
                self.learner.learn(made, missing)

    def decide(self, place: int) -> None:
        """Count a decision."""
        event = self._log.decided[place]
        if event.ticket is None:
            self.waiting[place] = self.number, None
            return
        assigned = Assigned(self.learner.decisions, tuple(event.ticket), event.taken)
        self.waiting[place] = self.number, self.learner.apply(assigned)
        unknown = self._log.settings["horizon"] is None
        over = unknown and self.learner.decisions >= self.learner.horizon
        if over and len(self._unretired(place)) > 1:  # the last arm is chosen for good
            self.begin(2 * self.learner.horizon, place)

    def add_arm(self, end: int) -> None:
        """Take on an arm, or begin again if the policy cannot."""
        self.arms += 1
        if _TAKES_AND_LOSES_ARMS[self._policy["name"]]:
            self.learner.add_arm(self.arms - 1)
        else:
            self.begin(self.learner.horizon, end)

    def change_arm(self, arm: int, status: str, end: int) -> None:
        """Tell the learner of an arm that goes or comes back, or begin again without it."""
        if not _TAKES_AND_LOSES_ARMS[self._policy["name"]]:
            if status == "retired" and len(self._unretired(end)) > 1:
                self.begin(self.learner.horizon, end)
        elif status == "active":
            self.learner.resume_arm(arm)
        else:
            self.learner.pause_arm(arm)

    def learn_at_once(self, decision: int) -> None:
        """Learn a reward when it comes, if it counts in the end."""
        generation, made = self.waiting[decision]
        if self._log.counts(decision):
            if made is not None and generation == self.number:
                self.learner.learn(made, self._log.rewarded[decision][1].steps / 2**20)
            self.waiting[decision] = generation, None


def learn(log: Log) -> tuple[int, Learner]:
    """Learn what counts in the end, when the settings say: at once, or when the window closes.

    Returns:
        The number of the last generation, and its learner.
    """
    course = _Course(log)
    immediate = log.settings["settle"] == "immediate"
    rewards = {place: decision for decision, (place, _) in log.rewarded.items()}
    for place, event in enumerate(log.events, 1):
        course.settle(event[1])
        if place in log.decided:
            course.decide(place)
        elif log.is_arm_added(event):
            course.add_arm(place)
        elif log.is_arm_changed(event):
            course.change_arm(event[3], event[4], place)
        elif immediate and place in rewards:
            course.learn_at_once(rewards[place])
    return course.number, course.learner
