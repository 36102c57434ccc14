"""How rewards that wait are delivered: in batches, one by one where a batch is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from armrace.errors import ArmraceError, InvalidParameter, ServiceUnreachable
from armrace.service.answers import Decision, RewardAnswer
from armrace.service.arguments import RewardItem

__all__ = ["LARGEST_BATCH", "PAUSE_SECONDS", "Delivery", "Send", "check_item", "check_room"]

LARGEST_BATCH = 500
PAUSE_SECONDS = 0.5
"""How long to wait before a batch is sent again that the service did not answer."""


Send = Callable[[Sequence[RewardItem]], list[RewardAnswer]]


def check_room(room: int, when_full: str) -> None:
    """Refuse settings of a queue that make no sense.

    Args:
        room: how many rewards may wait.
        when_full: what to do if as many wait.
    """
    if when_full not in ("block", "raise"):
        raise InvalidParameter(f"when_full must be block or raise; got {when_full!r:.100}.")
    if not isinstance(room, int) or room < 1:
        raise InvalidParameter(f"room must be a whole number of at least 1; got {room!r:.100}.")


def check_item(
    decision: Decision | str, value: float, source: str | None, suspicion: float | None
) -> RewardItem:
    """Return a reward as it is sent; refuse what would make the service refuse its batch.

    Args:
        decision: the decision, or its signed name.
        value: the reward.
        source: where it comes from.
        suspicion: how suspicious it is.
    """
    if not isinstance(decision, (Decision, str)):
        raise InvalidParameter(f"decision must be a decision or its name; got {decision!r:.100}.")
    if source is not None and not isinstance(source, str):
        raise InvalidParameter(f"source must be text; got {source!r:.100}.")
    number = _finite("reward", value)
    if suspicion is not None:
        suspicion = _finite("suspicion", suspicion)
    return RewardItem(decision, number, source, suspicion)


def _finite(name: str, value: Any) -> float:
    """Return a number, which may be of NumPy, as a plain one."""
    number = math.nan
    if hasattr(value, "__float__") and not isinstance(value, str):
        number = float(value)
    if not math.isfinite(number):  # JSON has no other numbers
        raise InvalidParameter(f"{name} must be a finite number; got {value!r:.100}.")
    return number


class Delivery:
    """Says what to send next and keeps what was refused; the sending is left to the caller."""

    def __init__(self) -> None:
        self.refused: list[tuple[RewardItem, RewardAnswer]] = []
        self._left: list[list[RewardItem]] = []
        self._failure: ArmraceError | None = None
        self._failures = 0

    def begin(self, batch: list[RewardItem]) -> None:
        """Take a batch that is to be sent."""
        self._left = [batch]

    @property
    def next_part(self) -> list[RewardItem]:
        """What to send next; empty when all of the batch is answered."""
        return self._left[0] if self._left else []

    @property
    def unsent(self) -> int:
        """How many rewards of the batch are not answered."""
        return sum(map(len, self._left))

    def note(self, outcome: list[RewardAnswer] | ArmraceError) -> bool:
        """Take the answers to a part, or its error; return whether to pause before the next one."""
        if isinstance(outcome, ServiceUnreachable):
            return True
        part, *self._left = self._left
        if isinstance(outcome, list):
            self._note_answers(part, outcome)
        elif len(part) > 1:  # one member may be the reason why all are refused
            self._left = [[item] for item in part]
        else:
            self._failure, self._failures = outcome, self._failures + 1
            self.refused.append((part[0], RewardAnswer("invalid", str(outcome))))
        return False

    def _note_answers(self, part: list[RewardItem], answers: list[RewardAnswer]) -> None:
        for item, answer in zip(part, answers, strict=True):
            if answer.status not in ("accepted", "duplicate"):
                self.refused.append((item, answer))

    def check(self) -> None:
        """Raise an error if the service would not take requests, a revoked key for instance."""
        if self._failure is not None:
            raise type(self._failure)(
                f"{self._failures} rewards could not be delivered, see refused; "
                f"the last because {self._failure}"
            )
