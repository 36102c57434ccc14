"""What the learner must have learned, worked out from the log by the checker."""

from base64 import b64decode

from armrace.contexts import Schema
from armrace.kernels.generics import NO_FEATURES, Context, Ticket
from armrace.learner import Decision as LearnersDecision
from armrace.learner import Learner
from torture.books import AFRESH, ARM_ADDED, ARM_CHANGED, Log
from torture.world import FIRST_HORIZON

_SEED_STEP = 1_000_003
_KEEPS_ARMS = {"sharp-race", "leaf-barrier", "leaf-thompson", "expert-barrier"}
"""Policies that cannot lose an arm while they run, or are not told; the first takes none either."""


class _Course:
    """The generations of an experiment, one after the other."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._policy = log.settings["policy"]
        schema = log.settings.get("schema")
        self._schema = schema and Schema.declare(**schema)
        self._codes = [b64decode(code) for code in log.settings.get("arm_codes", ())]
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
        shape = self._schema.shape if self._schema else NO_FEATURES
        self.learner = Learner(self._policy, places, horizon, seed, log=False, shape=shape)
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
            visitor = self._visitor(place)
            if log.counts(place):
                self.learner.learn(made, log.rewarded[place][1].steps / 2**20, visitor)
            elif missing == "drop":
                self.learner.drop(made)
            else:
                self.learner.learn(made, missing, visitor)

    def _visitor(self, place: int) -> Context | None:
        code = self._log.decided[place].code
        if not code or not self._schema.arm_features:
            return code and Context(self._schema.vector(code[0]), code[1])
        end, width = 2 * len(self._schema.features), 2 * len(self._schema.arm_features)
        told = [code[0][start : start + width] for start in range(end, len(code[0]), width)]
        arms = [told[arm] if arm < len(told) else self._codes[arm] for arm in self.learner.arms]
        return Context(self._schema.vector_of_arms(code[0][:end], arms), code[1])

    def decide(self, place: int) -> None:
        """Count a decision, unless it was voided."""
        event = self._log.decided[place]
        if self._log.is_void(place):
            return
        made = None
        if event.ticket is not None:
            ticket = Ticket(*event.ticket)
            made = self.learner.recount(ticket, not event.lease, self._visitor(place))
        self.waiting[place] = self.number, made

    def add_arm(self, end: int) -> None:
        """Take on an arm, or begin again if the policy cannot."""
        self.arms += 1
        self._codes.append(self._log.events[end - 1][5])
        if self._policy["name"] != "sharp-race":
            self.learner.add_arm(self.arms - 1)
        else:
            self.begin(self.learner.horizon, end)

    def change_arm(self, arm: int, status: str, end: int) -> None:
        """Tell the learner of an arm that goes or comes back, or begin again without it."""
        if self._policy["name"] in _KEEPS_ARMS:
            if status == "retired" and len(self._unretired(end)) > 1:
                self.begin(self.learner.horizon, end)
        elif arm in self.learner.arms:  # else it was retired before this generation
            (self.learner.resume_arm if status == "active" else self.learner.pause_arm)(arm)

    def learn_at_once(self, decision: int) -> None:
        """Learn a reward when it comes, if it counts in the end."""
        if decision in self.waiting and self._log.counts(decision):
            generation, made = self.waiting[decision]
            if made is not None and generation == self.number:
                paid = self._log.rewarded[decision][1].steps / 2**20
                self.learner.learn(made, paid, self._visitor(decision))
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
        if not log.is_of_void(place):  # time does not pass by what counts as never made
            course.settle(event[1])
        if place in log.decided:
            course.decide(place)
        elif event[0] == ARM_ADDED:
            course.add_arm(place)
        elif event[0] == ARM_CHANGED:
            course.change_arm(event[2], event[3], place)
        elif event[0] == AFRESH:
            course.begin(event[2], place)
        elif immediate and place in rewards:
            course.learn_at_once(rewards[place])
    return course.number, course.learner
