"""Which rewards are held when they come: by their suspicion, or by a standing hold."""

from __future__ import annotations

from collections.abc import Mapping

from armrace.service.model.events import HoldChanged
from armrace_client.answers import StandingHold

__all__ = ["Holds"]


class Holds:
    """The standing holds at a place of the log.

    Args:
        threshold: rewards of a suspicion above this are held; ``None`` for none.
        standing: the standing holds so far.
    """

    def __init__(self, threshold: float | None, standing: list[StandingHold] | None = None) -> None:
        self._threshold = threshold
        self.standing = standing or []

    def take(self, event: HoldChanged) -> None:
        """Begin or end a standing hold."""
        same = event.source, event.labels
        self.standing = [each for each in self.standing if (each.source, each.labels) != same]
        if event.begins:
            hold = StandingHold(event.source, event.labels, event.time, event.reason)
            self.standing.append(hold)

    def hold_back(
        self, source: str | None, labels: Mapping[str, str] | None, suspicion: float | None
    ) -> bool:
        """Whether a reward is held when it comes."""
        if suspicion is not None and self._threshold is not None and suspicion > self._threshold:
            return True
        return bool(self.standing) and any(
            hold.source in (None, source) and hold.labels.items() <= (labels or {}).items()
            for hold in self.standing
        )
