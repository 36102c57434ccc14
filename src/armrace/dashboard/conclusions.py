"""What is being decided and how sure it is, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from armrace.audit.findings import COUNTS, HIDDEN
from armrace.dashboard.charts import MISSING
from armrace.formatting import count, duration, figure, percent, round_down
from armrace.statistics import interval_for_all_times
from armrace.statistics.proportions import Scale
from armrace_client.answers import ExperimentView, HistoryView, HoldoutView, RatioCheck

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


class Conclusion(msgspec.Struct, frozen=True):
    """Which arm is best so far, and how sure that is."""

    arms: list[ArmRow]
    best: ArmRow | None
    """The arm with the best rewards so far."""
    decided: bool
    """Whether the interval of the best arm lies above all others, and no alarm is up."""
    rivals: list[str]
    """The arms that may still be better: with an alarm, all others."""
    headline: str
    """What the sentence says that begins with the best arm; all of it without one."""
    sure: str
    """How sure it is, and where the traffic goes if not to the best arm."""
    race: str
    """What the layers of a race guarantee; may be empty."""


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


def conclude(view: ExperimentView, history: HistoryView, alarms: int) -> Conclusion:
    """Say which arm is best so far, and how sure that is."""
    rows = arm_rows(view, history)
    running = [row for row in rows if row.status != "retired"]
    known = [row for row in running if row.mean is not None]
    if not known:
        nothing = _NOT_SHOWN if view.settings["settle"] == "immediate" else _NOTHING
        return Conclusion(rows, None, False, [row.arm for row in running], nothing, "", "")
    best = best_arm(known)
    others = [row for row in running if row is not best]
    failed, race = _race(view, history)
    traffic = _traffic(best, running)
    if alarms or failed:
        headline = _ALARMED if alarms else _FAILED
        everyone = [row.arm for row in others]
        return Conclusion(rows, best, False, everyone, headline, f"{traffic}{_IN_DOUBT}", race)
    rivals = [row.arm for row in others if row.high >= best.low]
    headline, sure = _sure(rivals, len(running))
    if not rivals and view.best is not None and view.best.arm == best.arm and view.best.forged:
        sure = _WITHSTANDS.format(count(view.best.forged), count(view.best.visits))
    return Conclusion(rows, best, not rivals, rivals, headline, f"{traffic}{sure}", race)


def best_arm(known: Sequence[ArmRow]) -> ArmRow:
    """Return the arm whose interval begins highest."""
    return max(known, key=lambda row: (row.low, row.mean or 0.0))


_CONFIDENCE = f"{percent(1 - _LEVEL)} confidence"
_WITHSTANDS = (
    f"No other arm is as good, with {_CONFIDENCE}, even if up to {{}} of the {{}} counted visits "
    "were forged, as long as means do not move."
)
_NOTHING = "Nothing has been learned yet: rewards are learned when their windows have closed."
_NOT_SHOWN = (
    "No window has closed yet: rewards are learned as they come, and counted here when their "
    "windows close."
)
_ALARMED = "has the best rewards so far, but an alarm is up: check the rewards first."
_FAILED = "has the best rewards so far, but more of them were changed than the race withstands."
_IN_DOUBT = (
    "Intervals assume honest rewards and means that do not move, which is in doubt now. So no arm "
    "is ruled out."
)
FINE_PRINT = (
    f"What is said of changed rewards holds if the arms' true means have not moved and {HIDDEN}. "
    f"Their amount is the C of the theory: it {COUNTS}."
)


def _traffic(best: ArmRow, running: Sequence[ArmRow]) -> str:
    """Name the arm that gets most of the traffic, if it is not the best one."""
    most = max(running, key=lambda row: row.share or 0.0)
    if most is best or not most.share or most.share <= (best.share or 0.0):
        return ""
    return f"Most of the recent traffic, {percent(round(most.share, 2))}, goes to {most.arm}. "


def _sure(rivals: list[str], arms: int) -> tuple[str, str]:
    if not rivals:
        return "is the best arm.", (
            f"No other arm is as good, with {_CONFIDENCE}, if rewards are honest and means do not "
            "move."
        )
    if len(rivals) == arms - 1:
        return "leads, but it is early.", f"No other arm is ruled out yet with {_CONFIDENCE}."
    named = rivals[0] if len(rivals) == 1 else f"{len(rivals)} other arms"
    verb = "is" if len(rivals) == 1 else "are"
    return f"leads, but {named} may be better.", (
        f"{named} {verb} not ruled out yet with {_CONFIDENCE}."
    )


def _race(view: ExperimentView, history: HistoryView) -> tuple[bool, str]:
    """Return whether more was changed than the slowest settled layer tolerates, and a sentence."""
    certificate = history.certificates[-1]
    least = f"by at least {round_down(certificate)}" if certificate >= 1.0 else ""
    active: dict[int, list[str]] = {}
    for each in view.layers if history.tolerated else ():
        active.setdefault(each.layer, [])
        if each.active:
            active[each.layer].append(each.arm)
    settled = [layer for layer, arms in active.items() if len(arms) == 1]
    if not settled:
        words = ["No layer of the race has settled on one arm yet."] if active else []
        words += (
            [f"The rewards contradict one another: they were changed {least}."] if least else []
        )
        return False, " ".join(words)
    layer = max(settled)
    tolerated, delta = history.tolerated[layer], float(view.settings["policy"].get("delta", _LEVEL))
    limit, arm = count(round(tolerated)), active[layer][0]
    if certificate > tolerated:
        return True, (
            f"The race has settled on {arm} in layer {layer}, which withstands changes of {limit} "
            f"in all; rewards were changed {least}, so nothing guarantees that choice."
        )
    return False, (
        f"The race has settled on {arm} in layer {layer}. That is right with probability "
        f"{100 * (1 - delta):g}% as long as rewards were changed by at most {limit} in all"
        f"{least and f'; so far, {least}'}."
    )


def describe_holdout(found: HoldoutView | None) -> str:
    """Say what the policy has earned against the holdout; nothing if there is none."""
    if found is None:
        return ""
    if found.lower is None or found.upper is None or found.difference is None:
        return "No visit has been compared yet: their windows have to close first."
    span = f"between {figure(found.lower)} and {figure(found.upper)}"
    if found.lower > 0:
        said = f"A visit earns more with the policy than without: {span} more."
    elif found.upper < 0:
        less = f"between {figure(-found.upper)} and {figure(-found.lower)}"
        said = f"A visit earns less with the policy than without: {less} less."
    else:
        said = f"It is not settled yet whether the policy earns more: the difference is {span}."
    return f"{said} That holds at any time with {percent(found.confidence)} confidence."


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
