"""The audit: every test of this room on one state, at one level for all of them together.

The level is shared equally by what is claimed: that honest samples of two layers agree, that the
layers' coins shield them as they should (which only certificates of a race rely on), and that
honest rewards do not change over time. Each arm has an equal part of the first and the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from armrace.errors import InvalidParameter
from armrace.forensics.audit_trail import Watched
from armrace.forensics.changes import examine_time
from armrace.forensics.findings import Alarm, Audit, Finding
from armrace.forensics.layers import examine_layers, failed_layers, race_in
from armrace.policies.races.race import Race
from armrace.specification import Limits, check_number, is_list

__all__ = ["LEVEL", "audit"]

LEVEL = Limits("chance that an audit is wrong", 0, 1, True, True)


def audit(state: Any, level: float = 0.05, arms: Sequence[str | int] | None = None) -> Audit:
    """Say what the feedback behind a state shows of corruption.

    ``state`` is that of a race, or any under :func:`~armrace.forensics.watch`, whatever the
    policy; or a live learner. ``level`` bounds the probability that anything the audit says is
    wrong, over all times at which it might be called. ``arms`` gives the arms' names, which a live
    learner knows.
    """
    if hasattr(state, "audit"):
        if arms is not None:
            raise InvalidParameter("a live learner has names for its arms; leave arms out.")
        found: Audit = state.audit(level)
        return found
    check_number("level", level, LEVEL)
    race, watched = race_in(state), state if isinstance(state, Watched) else None
    if race is None and watched is None:
        raise InvalidParameter(
            "an audit needs a race of several layers or a state under watch; "
            f"got {type(state).__name__}."
        )
    return _named(_examine(race, watched, level), arms)


def _examine(race: Race | None, watched: Watched | None, level: float) -> Audit:
    """Put the findings together; what is certified of different arms adds up.

    An arm is played in rounds of its own, and no round's corruption is below what was done to
    the arm that was played.
    """
    claims = 2 * (race is not None) + (watched is not None)
    findings: list[Finding] = []
    if race is not None:
        findings.append(examine_layers(race, level / claims, claims))
    if watched is not None:
        findings.append(examine_time(watched, level / claims, claims))
    by_arm = np.max([finding.by_arm for finding in findings], axis=0)
    certificate = max(float(by_arm.sum()), *(finding.total for finding in findings))
    alarms = sorted((a for f in findings for a in f.alarms), key=lambda alarm: alarm.chance)
    rounds = watched.rounds if watched is not None else race.rounds if race is not None else [0]
    return Audit(
        level=level,
        rounds=int(rounds[0]),
        arms=list(range(by_arm.size)),
        alarms=alarms + (failed_layers(race, certificate, level) if race is not None else []),
        certificate=certificate,
        arm_certificates=by_arm.tolist(),
        looked_at=["layers"] * (race is not None) + ["time"] * (watched is not None),
    )


def _named(found: Audit, arms: Sequence[str | int] | None) -> Audit:
    """The same with the arms' own names."""
    if arms is None:
        return found
    if not is_list(arms):
        raise InvalidParameter(f"arms must be a list of names; got {arms!r}.")
    if len(arms) != len(found.arms):
        raise InvalidParameter(f"arms must name {len(found.arms)} arms; got {len(arms)}.")
    return msgspec.structs.replace(
        found,
        arms=list(arms),
        alarms=[_rename(alarm, arms) for alarm in found.alarms],
    )


def _rename(alarm: Alarm, arms: Sequence[str | int]) -> Alarm:
    if alarm.arm is None:
        return alarm
    return msgspec.structs.replace(alarm, arm=arms[int(alarm.arm)])
