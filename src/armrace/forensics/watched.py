"""The public function ``watch``, which checks the number of arms before it wraps a state.

Compiled code does not check bounds: with too few arms it would write beyond its arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from armrace.errors import InvalidParameter
from armrace.forensics import audit_trail
from armrace.forensics.audit_trail import Watched
from armrace.forensics.layers import race_in
from armrace.limits import Limits, check_number
from armrace.specification import MAXIMAL_HORIZON

_ARMS = Limits("arms", 1)
_HORIZON = Limits("decisions", 1, MAXIMAL_HORIZON)


def watch(state: Any, arms: int, horizon: int) -> Watched:
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
    return audit_trail.watch(state, arms, horizon)


def _lengths(state: Any) -> Iterator[int]:
    """The lengths of all axes of all arrays within a state."""
    if isinstance(state, np.ndarray):
        yield from state.shape
    for member in state if isinstance(state, tuple) else ():
        yield from _lengths(member)
