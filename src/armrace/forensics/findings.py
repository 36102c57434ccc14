"""What an audit finds: alarms, a certificate, and both in plain words."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import round_down

__all__ = ["ALARMS", "Alarm", "AlarmKind", "Audit", "Direction", "Finding", "direction_of"]

AlarmKind = Literal["disagreement", "change", "waves", "failed-layer"]
Direction = Literal["down", "up"]
ALARMS: tuple[AlarmKind, ...] = ("disagreement", "change", "waves", "failed-layer")

_UNBELIEVABLE = 1e-12


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that honest feedback would not have shown."""

    kind: AlarmKind
    arm: str | int | None = None
    layers: tuple[int, ...] = ()
    """The two layers that disagree, the faster first; or the slowest that has failed."""
    direction: Direction | None = None
    """Where the corrupted rewards went: in the faster layer, or in the stretch since ``since``."""
    since: int | None = None
    """The round after which it began; for a disagreement, that by which it was there."""
    until: int | None = None
    pulls: tuple[int, int] | None = None
    means: tuple[float, float] | None = None
    """Of the faster and the slower layer; before and since; or in bad and in good times."""
    chance: float
    """The least level at which the alarm would have been raised: honest feedback ever shows
    something like it with no larger probability."""

    @property
    def words(self) -> str:
        """The alarm as a sentence."""
        return _WORDS[self.kind](self)


class Finding(NamedTuple):
    """What one family of tests says."""

    alarms: list[Alarm]
    by_arm: npt.NDArray[np.float64]
    """How much the rewards of each arm were changed at least."""
    total: float
    """How much corruption there was at least, in all."""


def direction_of(mean: float, other: float) -> Direction:
    """Which way it goes from the first to the second."""
    return "up" if other > mean else "down"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said of the feedback of one run."""

    level: float
    """The probability with which any alarm or certificate may be wrong, over all times."""
    rounds: int
    arms: list[str | int]
    alarms: list[Alarm]
    certificate: float
    """The total corruption is at least this."""
    arm_certificates: list[float]
    """How much the rewards of each arm were changed at least, in all."""
    looked_at: list[str]
    """``layers``, ``time`` or both."""

    @property
    def corrupted(self) -> bool:
        """Whether there is any alarm."""
        return bool(self.alarms)

    def kinds(self) -> set[AlarmKind]:
        """Which kinds of alarm there are."""
        return {alarm.kind for alarm in self.alarms}

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, with the words."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for plain, alarm in zip(data["alarms"], self.alarms, strict=True):
            plain["words"] = alarm.words
        return {**data, "words": str(self)}

    def __str__(self) -> str:
        """All alarms and the certificate, a sentence a line."""
        if not self.alarms:
            return (
                f"Nothing in the {self.rounds:,} rounds so far is out of the ordinary for honest "
                f"feedback, at a level of {self.level:g} for all times together."
            )
        lines = [alarm.words for alarm in self.alarms]
        if self.certificate > 0:
            least = round_down(self.certificate)
            lines.append(f"In all, the feedback was changed by at least {least}.")
        lines.append(
            f"The probability that any of this is wrong is at most {self.level:g}, over all times."
        )
        return "\n".join(lines)


def _odds(chance: float) -> str:
    if chance < _UNBELIEVABLE:
        return f"Honest feedback does so with a probability below {_UNBELIEVABLE:g}."
    return f"Honest feedback does so with a probability of at most {chance:.2g}."


def _disagreement(alarm: Alarm) -> str:
    (fast, slow), (mean, other) = alarm.layers, alarm.means or (0.0, 0.0)
    when = "" if alarm.since is None else f" by round {alarm.since:,}, when it deleted the arm"
    return (
        f"Feedback on arm {alarm.arm} was corrupted: layer {fast} saw it pay {mean:.3g}{when}, the "
        f"slower layer {slow} sees {other:.3g}, so rewards were pushed {alarm.direction}. "
        f"{_odds(alarm.chance)}"
    )


def _change(alarm: Alarm) -> str:
    (mean, other), (pulls, later) = alarm.means or (0.0, 0.0), alarm.pulls or (0, 0)
    return (
        f"Feedback on arm {alarm.arm} changed around round {alarm.since or 0:,}: it paid "
        f"{mean:.3g} in the {pulls:,} plays before, {other:.3g} in the {later:,} plays up to round "
        f"{alarm.until or 0:,}, so one of the two was corrupted, or the world has moved "
        f"{alarm.direction}. {_odds(alarm.chance)}"
    )


def _waves(alarm: Alarm) -> str:
    mean, other = alarm.means or (0.0, 0.0)
    return (
        f"Feedback on arm {alarm.arm} comes in waves: it pays {mean:.3g} after it has paid less "
        f"than usual and {other:.3g} after it has paid more, so some of it was corrupted, in "
        f"bursts. {_odds(alarm.chance)}"
    )


def _failed_layer(alarm: Alarm) -> str:
    (layer,) = alarm.layers
    named = "Layer 0 is" if layer == 0 else f"Layers 0 to {layer} are"
    return f"{named} no longer to be trusted: there is more corruption than they withstand."


_WORDS = {
    "disagreement": _disagreement,
    "change": _change,
    "waves": _waves,
    "failed-layer": _failed_layer,
}
