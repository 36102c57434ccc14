"""What an audit returns: alarms and certificates, as data and in sentences."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.forensics import sentences
from armrace.reports import NotebookView

AlarmKind = Literal["disagreement", "change", "waves", "failed-layer"]
Direction = Literal["down", "up"]
ALARMS: tuple[AlarmKind, ...] = ("disagreement", "change", "waves", "failed-layer")


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is very unlikely under honest feedback with fixed means."""

    kind: AlarmKind
    arm: str | int | None = None
    layers: tuple[int, ...] = ()
    """The two layers that disagree, the faster first; or the slowest that has failed."""
    direction: Direction | None = None
    """Whether the mean of the faster layer, or of the later period, is above or below the other."""
    since: int | None = None
    """The decisions made when the change began, or when the faster layer deleted the arm."""
    until: int | None = None
    pulls: tuple[int, int] | None = None
    means: tuple[float, float] | None = None
    """Of the faster and the slower layer; before and since; or in bad and in good times."""
    chance: float
    """The smallest level at which the alarm would have been raised. Under honest feedback with
    fixed means, such evidence ever occurs with at most this probability."""

    @property
    def words(self) -> str:
        """The alarm in sentences, with all that may explain it."""
        return sentences.describe_alarm(self)


class Finding(NamedTuple):
    """The result of one family of tests."""

    alarms: list[Alarm]
    by_arm: npt.NDArray[np.float64]
    """Lower bounds on the changes to the rewards of each arm that were learned."""
    total: float
    """A lower bound on C, which also counts changes to arms that were not played."""


def direction_of(mean: float, other: float) -> Direction:
    """Whether the second number lies above the first (up) or not (down)."""
    return "up" if other > mean else "down"


class Audit(msgspec.Struct, NotebookView, frozen=True, kw_only=True):
    """The result of an audit of one run.

    Alarms allow for two explanations: corruption, or means that have moved. Certificates assume
    that means have not moved. See :mod:`armrace.forensics.sentences`.
    """

    level: float
    """The probability with which any alarm or certificate may be wrong, over all times."""
    rounds: int
    arms: list[str | int]
    alarms: list[Alarm]
    certificate: float
    """A lower bound on C: the sum over rounds of the largest change to any arm, played or not.
    Where it is above :attr:`seen_certificate`, it also assumes that layers were hidden."""
    arm_certificates: list[float]
    """Lower bounds on the sum of changes to the rewards of each arm that were learned."""
    looked_at: list[str]
    """``layers``, ``time`` or both."""

    @property
    def alarmed(self) -> bool:
        """Whether there is any alarm."""
        return bool(self.alarms)

    @property
    def seen_certificate(self) -> float:
        """A lower bound on the sum of changes to all rewards that were learned."""
        return float(np.sum(self.arm_certificates))

    def kinds(self) -> set[AlarmKind]:
        """Which kinds of alarm there are."""
        return {alarm.kind for alarm in self.alarms}

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, with the sentences."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for plain, alarm in zip(data["alarms"], self.alarms, strict=True):
            plain["words"] = alarm.words
        return {**data, "seen_certificate": self.seen_certificate, "words": str(self)}

    def __str__(self) -> str:
        """All alarms and certificates, one per line."""
        if not self.alarms:
            return sentences.describe_nothing(self.rounds, self.level)
        return "\n".join(
            [
                *(alarm.words for alarm in self.alarms),
                *sentences.certificate_sentences(self.seen_certificate, self.certificate),
                sentences.describe_level(self.level),
            ]
        )
