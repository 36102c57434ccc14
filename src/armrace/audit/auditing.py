"""The audit: all tests on one state, at one level for all of them together.

The level is shared equally by three claims: that honest samples of two layers agree, that each
layer meets only its share of the corruption (which only certificates of a race rely on), and that
honest rewards do not change over time. The arms share the first and the last equally.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from armrace.audit.audit_trail import Watched, has_trail_of_leaves, watch_unchecked
from armrace.audit.changes import examine_layers, examine_time, failed_layers, race_in
from armrace.audit.evidence import Screen
from armrace.audit.findings import Alarm, Audit, Examination
from armrace.errors import InvalidParameter
from armrace.kernels.leaves import row_of
from armrace.limits import Limits, check_number
from armrace.policies.races.race import Race
from armrace.specification import MAXIMAL_HORIZON, is_list

LEVEL = Limits("chance that an audit is wrong", 1e-300, 1, high_open=True)
"""The level is divided among many tests; below this, some of them would get 0."""


def unfit_for_audit(policy: str) -> InvalidParameter:
    """Return the refusal to audit a policy that tells visitors apart within leaves."""
    return InvalidParameter(
        f"{policy} cannot be audited where visitors differ: it shows an arm to other visitors as "
        "it learns, so that honest rewards of the arm change; leaf-barrier, which plays each leaf "
        "apart, can be audited if leaves are declared."
    )


class Screens(NamedTuple):
    """What audits of one learner keep for the next."""

    layers: Screen
    time: Screen
    leaves: dict[int, Screens]
    """Those of each leaf, where each has a trail of its own."""

    @classmethod
    def fresh(cls) -> Screens:
        """Return screens of a learner that was not audited yet."""
        return cls(Screen(), Screen(), {})


def audit(state: Any, level: float = 0.05, arms: Sequence[str | int] | None = None) -> Audit:
    """Look for traces of corruption, or of moved means, in the feedback behind a state.

    Args:
        state: the state of a race, the state of any policy wrapped by
            :func:`~armrace.audit.watch`, or a live learner.
        level: a bound on the probability that any statement of the audit is wrong, over all times
            at which it might be called and for arbitrary delays of the feedback.
        arms: the arms' names; a live learner knows them.

    Returns:
        The alarms and certificates.
    """
    if hasattr(state, "audit"):
        if arms is not None:
            raise InvalidParameter("a live learner has names for its arms; leave arms out.")
        return _audit_learner(state, level)
    return audit_state(state, level, arms, Screens.fresh())


def audit_state(
    state: Any, level: float, arms: Sequence[str | int] | None, screens: Screens
) -> Audit:
    """As :func:`audit` for a state, with what earlier audits of the same learner have kept."""
    check_number("level", level, LEVEL)
    if has_trail_of_leaves(state):
        return _named(_examine_leaves(state, float(level), screens), arms)
    race, watched = race_in(state), state if isinstance(state, Watched) else None
    if race is None and watched is None:
        raise InvalidParameter(
            "an audit needs a race of several layers or a state under watch; "
            f"got {type(state).__name__}."
        )
    # A restored state may hold arbitrary numbers; a NaN must not raise an alarm.
    with np.errstate(all="ignore"):
        found = _examine(race, watched, float(level), screens)
    return _named(found, arms)


def _audit_learner(learner: Any, level: float) -> Audit:
    found: Audit = learner.audit(level)
    return found


def _examine(race: Race | None, watched: Watched | None, level: float, screens: Screens) -> Audit:
    """Combine the findings of all tests.

    Certificates of different arms add up: each round plays one arm, and the corruption of a round
    is at least the change to the arm that was played.
    """
    # Two for layers: that their samples agree, and that each meets only its share of corruption.
    claims = 2 * (race is not None) + (watched is not None)
    findings: list[Examination] = []
    if race is not None:
        findings.append(examine_layers(race, level / claims, claims, screens.layers))
    if watched is not None:
        findings.append(examine_time(watched, level / claims, claims, screens.time))
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


def _examine_leaves(state: Any, level: float, screens: Screens) -> Audit:
    """Audit each leaf with an equal share of the level.

    Within a leaf, who is shown an arm does not depend on the visitor. A leaf without rewards has
    its share as well: which have some depends on the visitors. Certificates of leaves add up, since
    every round is in one of them.
    """
    findings: list[Audit] = []
    for leaf in range(state.leaf_count):
        watched = row_of(state.stack, leaf)
        if watched.pulls.any():
            kept = screens.leaves.setdefault(leaf, Screens.fresh())
            with np.errstate(all="ignore"):
                found = _examine(None, watched, level / state.leaf_count, kept)
            alarms = [
                msgspec.structs.replace(each, leaf=leaf, chance=each.chance * state.leaf_count)
                for each in found.alarms
            ]
            findings.append(msgspec.structs.replace(found, alarms=alarms))
    by_arm = np.zeros(state.stack.pulls.shape[1])
    for found in findings:
        by_arm += found.arm_certificates
    return Audit(
        level=level,
        rounds=int(state.stack.rounds.sum()),
        arms=list(range(by_arm.size)),
        alarms=sorted((a for found in findings for a in found.alarms), key=lambda a: a.chance),
        certificate=sum(found.certificate for found in findings),
        arm_certificates=by_arm.tolist(),
        looked_at=["time"],
    )


def _named(found: Audit, arms: Sequence[str | int] | None) -> Audit:
    """Return the audit with the arms' names instead of their indices."""
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


_ARMS = Limits("arms", 1)
_HORIZON = Limits("decisions", 1, MAXIMAL_HORIZON)


def watch(state: Any, arms: int, horizon: int) -> Any:
    """Wrap a policy's state so that its rewards are recorded for audits.

    A number of arms that cannot be the state's is refused: that of a race is known, and the state
    of any other policy has an array with an entry for each arm.

    Args:
        state: the state of a policy before its first decision.
        arms: its number of arms.
        horizon: the expected number of decisions.

    Returns:
        The wrapped state, which makes the same decisions.
    """
    check_number("arms", arms, _ARMS, whole=True)
    check_number("horizon", horizon, _HORIZON, whole=True)
    race = race_in(state)
    # Arrays of one entry are single numbers of a state, and say nothing of its arms.
    lengths = {race.pulls.shape[1]} if race is not None else set(_lengths(state)) - {1}
    if lengths and arms not in lengths:
        raise InvalidParameter(
            f"arms must be the number of arms of the state; got {arms}, and nothing in this "
            f"{type(state).__name__} has as many entries."
        )
    return watch_unchecked(state, arms, horizon)


def _lengths(state: Any) -> Iterator[int]:
    """The lengths of all axes of all arrays within a state."""
    if isinstance(state, np.ndarray):
        yield from state.shape
    for member in state if isinstance(state, tuple) else ():
        yield from _lengths(member)
