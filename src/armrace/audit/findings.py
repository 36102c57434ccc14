"""What an audit returns: alarms and certificates, as data and in sentences."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import count, figure, round_down
from armrace.reports import NotebookView

MOVED = "or something else has changed (a season, the page, the audience)"
"""The other explanation of every alarm."""

STILL = "If the arms' true means have not moved"
"""What every certificate assumes."""

HIDDEN = "rewards were changed without knowledge of the arm and the layer drawn"
"""What a certificate beyond the changes to learned rewards assumes as well."""

COUNTS = "counts, in each round, the largest change to the reward of any arm, played or not"
"""What C is, which is more than the changes to learned rewards."""

_TINY = 1e-12


def describe_alarm(alarm: Alarm) -> str:
    """Say what an alarm has seen, what may explain it, and how rare that is without either."""
    return _DESCRIPTIONS[alarm.kind](alarm)


def _describe_disagreement(alarm: Alarm) -> str:
    (fast, slow), (mean, other) = alarm.layers, alarm.means or (0.0, 0.0)
    when = "" if alarm.since is None else f" by round {count(alarm.since)}, when it deleted the arm"
    opposite = "up" if alarm.direction == "down" else "down"
    return (
        f"Layers disagree on arm {alarm.arm}: layer {fast} saw it pay {figure(mean)}{when}, the "
        f"slower layer {slow} sees {figure(other)}. Rewards were corrupted ({alarm.direction} in "
        f"layer {fast} or {opposite} in layer {slow}), {MOVED}. {_odds(alarm.chance)}"
    )


def _describe_change(alarm: Alarm) -> str:
    (mean, other), (pulls, later) = alarm.means or (0.0, 0.0), alarm.pulls or (0, 0)
    return (
        f"Feedback on arm {alarm.arm}{place_of(alarm)} went {alarm.direction} around round "
        f"{count(alarm.since or 0)}: it paid {figure(mean)} in the {count(pulls)} plays before and "
        f"{figure(other)} in the {count(later)} plays up to round {count(alarm.until or 0)}. One "
        f"of the two stretches was corrupted, {MOVED}. {_odds(alarm.chance)}"
    )


def _describe_waves(alarm: Alarm) -> str:
    mean, other = alarm.means or (0.0, 0.0)
    return (
        f"Feedback on arm {alarm.arm}{place_of(alarm)} comes in waves: it pays {figure(mean)} "
        f"after it has paid less than usual and {figure(other)} after it has paid more. Some of it "
        f"was corrupted, in bursts, {MOVED}, more than once. {_odds(alarm.chance)}"
    )


def _describe_failed_layer(alarm: Alarm) -> str:
    (layer,) = alarm.layers
    named = "Layer 0 has lost its" if layer == 0 else f"Layers 0 to {layer} have lost their"
    return f"{named} guarantee: if {HIDDEN}, there was more corruption than that covers, {MOVED}."


_DESCRIPTIONS = {
    "disagreement": _describe_disagreement,
    "change": _describe_change,
    "waves": _describe_waves,
    "failed-layer": _describe_failed_layer,
}


def place_of(alarm: Alarm) -> str:
    """Say of which visitors an alarm is; its rounds are then the decisions for these."""
    if alarm.leaf is None:
        return ""
    named = isinstance(alarm.leaf, str)
    return f", for visitors with {alarm.leaf}," if named else f", in leaf {alarm.leaf},"


def _odds(chance: float) -> str:
    return (
        f"Honest feedback with fixed means looks so with a probability {describe_chance(chance)}."
    )


def describe_chance(chance: float) -> str:
    """Say how small a probability is.

    >>> describe_chance(0.0123), describe_chance(0.0)
    ('of at most 0.012', 'below 1e-12')
    """
    return f"below {_TINY:g}" if chance < _TINY else f"of at most {chance:.2g}"


def certificate_sentences(seen: float, total: float) -> list[str]:
    """Say what is certified: changes to learned rewards, and the total corruption C.

    ``seen`` bounds the changes to rewards that were learned, whatever the adversary saw. A larger
    ``total`` comes from how little of C each layer meets, which is true only of hidden layers.

    >>> for sentence in certificate_sentences(26.1, 0.0):
    ...     print(sentence)
    If the arms' true means have not moved, learned rewards were changed by at least 26.1 in all.
    """
    sentences = []
    if seen > 0.0:
        sentences.append(
            f"{STILL}, learned rewards were changed by at least {round_down(seen)} in all."
        )
    if total > seen:
        sentences.append(
            f"{STILL} and {HIDDEN}, then C is at least {round_down(total)}; C {COUNTS}."
        )
    return sentences


def describe_level(level: float) -> str:
    """Say how sure all sentences of an audit with alarms are, together."""
    return f"The probability that any of this is wrong is at most {level:g}, over all times."


def describe_nothing(rounds: int, level: float) -> str:
    """Say that there is no alarm, and that this does not prove anything."""
    return (
        f"Nothing in the {count(rounds)} rounds so far is out of the ordinary for honest feedback "
        f"with fixed means, at a level of {level:g} for all times together. That does not prove it "
        "honest: a change that is the same in all rounds leaves no trace."
    )


def describe_report(level: float) -> str:
    """Say above a table of many audited runs what its alarms and certificates mean."""
    return (
        "Each run was audited at its end from what the policy had learned, without knowledge of "
        f"the attack. An alarm says that rewards were corrupted, {MOVED}. {STILL} and {HIDDEN}, "
        f"a certificate is a lower bound on C, which {COUNTS}. Alarms and certificates are wrong "
        f"with a probability of at most {level:g}, over all times together: without an attack and "
        "with fixed means, at most that share of runs may raise an alarm."
    )


AlarmKind = Literal["disagreement", "change", "waves", "failed-layer"]
Direction = Literal["down", "up"]
ALARMS: tuple[AlarmKind, ...] = ("disagreement", "change", "waves", "failed-layer")


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """An event that is very unlikely under honest feedback with fixed means."""

    kind: AlarmKind
    arm: str | int | None = None
    leaf: str | int | None = None
    """The leaf of the visitors, where each leaf is audited apart; its rounds are counted there."""
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
        return describe_alarm(self)


class Examination(NamedTuple):
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
    that means have not moved. See :mod:`armrace.audit.findings`.
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
            return describe_nothing(self.rounds, self.level)
        return "\n".join(
            [
                *(alarm.words for alarm in self.alarms),
                *certificate_sentences(self.seen_certificate, self.certificate),
                describe_level(self.level),
            ]
        )
