"""What is being decided and how sure it is, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from armrace.dashboard.charts import MISSING
from armrace.forensics.sentences import COUNTS, HIDDEN, STILL
from armrace.formatting import count, duration, figure, percent, round_down
from armrace.service.answers import ExperimentView, HistoryView, RatioCheck
from armrace.statistics import interval_for_all_times
from armrace.statistics.scales import Scale

__all__ = ["ArmRow", "Verdict", "arm_rows", "describe_ratio", "make_verdict"]

_LEVEL = 0.05
_RECENT = 10
_RATIO_LEVEL = 0.001
"""A smaller p-value is a mismatch; the level is low because the check is repeated often."""


class ArmRow(msgspec.Struct, frozen=True):
    """An arm with what was learned of it."""

    place: int
    arm: str
    status: str
    decisions: int
    share: float | None
    """Of the recent decisions."""
    learned: int
    mean: float | None
    low: float
    high: float
    """The ends of an interval that holds for all arms and times at once."""
    next: float | None
    """The probability with which the policy chooses it next."""


class Verdict(msgspec.Struct, frozen=True):
    """The state of the decision."""

    arms: list[ArmRow]
    best: ArmRow | None
    decided: bool
    """Whether the interval of the best arm lies above all others, and no alarm is up."""
    rivals: list[str]
    """The arms that may still be better: with an alarm, all others."""
    standing: str
    """The end of the sentence that begins with the best arm and "is best so far"."""
    sure: str
    """How sure it is, in a sentence."""
    corruption: str
    """What is known of the corruption and of the layers of a race; may be empty."""


def arm_rows(view: ExperimentView, history: HistoryView) -> list[ArmRow]:
    """Return the arms with their shares of recent traffic, their means and intervals."""
    scale = Scale(*view.settings["rewards"])
    since = max(0, len(history.times) - 1 - _RECENT)
    recent = [counts[-1] - counts[since] for counts in history.decisions]
    whole = sum(recent)
    rows = []
    for place, summary in enumerate(view.arms):
        learned, earned = history.learned[place][-1], history.earned[place][-1]
        total = (earned - scale.low * learned) / (scale.high - scale.low)
        total = min(max(total, 0.0), float(learned))
        span = scale.interval(interval_for_all_times(total, learned, _LEVEL / len(view.arms)))
        rows.append(
            ArmRow(
                place,
                summary.arm,
                summary.status,
                summary.decisions,
                recent[place] / whole if whole else None,
                learned,
                earned / learned if learned else None,
                span.low,
                span.high,
                summary.probability,
            )
        )
    return rows


def make_verdict(view: ExperimentView, history: HistoryView) -> Verdict:
    """Say which arm is best so far, and how sure that is."""
    rows = arm_rows(view, history)
    running = [row for row in rows if row.status != "retired"]
    known = [row for row in running if row.mean is not None]
    if not known:
        sure = "Nothing has been learned yet: rewards are learned when their windows have closed."
        return Verdict(rows, None, False, [row.arm for row in running], "", sure, "")
    best = best_arm(known)
    others = [row for row in running if row is not best]
    alarms, race = history.alarms[-1], _race(view, history)
    if alarms or race.failed:
        everyone = [row.arm for row in others]
        standing = f"but nothing is guaranteed: {_RAISED.get(alarms, f'{alarms} alarms are up')}."
        return Verdict(rows, best, False, everyone, standing, _IN_DOUBT, race.sentence)
    rivals = [row.arm for row in others if row.high >= best.low]
    standing, sure = _sure(rivals, len(running))
    return Verdict(rows, best, not rivals, rivals, standing, sure, race.sentence)


def best_arm(known: Sequence[ArmRow]) -> ArmRow:
    """Return the arm whose interval begins highest."""
    return max(known, key=lambda row: (row.low, row.mean or 0.0))


_CONFIDENCE = f"a confidence of {percent(1 - _LEVEL)}"
_IN_DOUBT = (
    "Intervals assume honest rewards and means that stand still. The audit contradicts that, so no "
    "arm is ruled out."
)
_RAISED = {0: "a layer that has settled has lost its guarantee", 1: "an alarm is up"}


def _sure(rivals: list[str], arms: int) -> tuple[str, str]:
    if not rivals:
        return "and better than every other arm.", (
            f"This holds if rewards are honest and means stand still, at {_CONFIDENCE} over all "
            "times."
        )
    if len(rivals) == arms - 1:
        return "but it is early.", f"No other arm is ruled out yet at {_CONFIDENCE}."
    named = rivals[0] if len(rivals) == 1 else f"{len(rivals)} other arms"
    verb = "is" if len(rivals) == 1 else "are"
    return f"but {named} may be better.", f"At {_CONFIDENCE}, {named} {verb} not ruled out yet."


class _Standing(NamedTuple):
    """What the layers of a race guarantee."""

    failed: bool
    """Whether more corruption is certified than the layer tolerates that has settled."""
    sentence: str


def _race(view: ExperimentView, history: HistoryView) -> _Standing:
    """Say what the slowest settled layer has settled, which tolerates the most."""
    certificate = history.certificates[-1]
    least = f"at least {round_down(certificate)}" if certificate >= 1.0 else ""
    found = f"{STILL} and {HIDDEN}, C is {least}"
    active: dict[int, list[str]] = {}
    for each in view.layers if history.tolerated else ():
        active.setdefault(each.layer, [])
        if each.active:
            active[each.layer].append(each.arm)
    settled = [layer for layer, arms in active.items() if len(arms) == 1]
    if not settled:
        words = ["No layer of the race has settled on one arm yet."] if active else []
        words += [f"{found}; C {COUNTS}."] if least else []
        return _Standing(False, " ".join(words))
    layer = max(settled)
    tolerated, delta = history.tolerated[layer], float(view.settings["policy"].get("delta", _LEVEL))
    limit = count(round(tolerated))
    if certificate > tolerated:
        return _Standing(
            True,
            f"{found}: more than the {limit} that layer {layer} of the race tolerates, so nothing "
            f"guarantees {active[layer][0]}, on which it has settled. C {COUNTS}.",
        )
    return _Standing(
        False,
        f"Layer {layer} of the race has settled on {active[layer][0]}. {STILL} and {HIDDEN}, that "
        f"is right with probability {100 * (1 - delta):g}%, as long as C is at most {limit}"
        f"{least and f', and C is {least}'}; C {COUNTS}.",
    )


def describe_ratio(check: RatioCheck) -> tuple[bool, str]:
    """Say whether arms were chosen as often as their probabilities say."""
    if check.p_value is None:
        return True, "There are not enough decisions with known probabilities to compare."
    if check.p_value < _RATIO_LEVEL:
        return False, (
            "Arms were not chosen as often as their published probabilities say: such a difference "
            f"has a probability of {figure(check.p_value)}. Look for lost or repeated requests."
        )
    return True, (
        "Arms were chosen as often as their published probabilities say: a difference of this "
        f"size or larger has a probability of {figure(check.p_value)}."
    )


def matrix_rows(view: ExperimentView) -> list[tuple[int, list[Any]]]:
    """Return the layers of a race, each with its view of every arm."""
    rows: dict[int, list[Any]] = {}
    for each in view.layers:
        rows.setdefault(each.layer, []).append(each)
    return sorted(rows.items())


def median_delay(delays: Sequence[int]) -> str:
    """Return the delay that half of the rewards stay below, as a power of two, in words."""
    place = median_bin(delays)
    return MISSING if place is None else duration(2**place / 1000)


def median_bin(delays: Sequence[int]) -> int | None:
    """Return the index of the bin that holds the median; ``None`` without any counts."""
    total, seen = sum(delays), 0
    for place, number in enumerate(delays):
        seen += number
        if total and 2 * seen >= total:
            return place
    return None
