"""What the bounds accept: one check for each kind of number, refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter

__all__ = [
    "check_above_zero",
    "check_arms",
    "check_at_least",
    "check_gaps",
    "check_horizon",
    "check_means",
    "check_open_unit",
    "check_share",
]


def check_at_least(name: str, value: float, low: float) -> None:
    """Refuse what is not a finite number of at least ``low``."""
    if not (math.isfinite(value) and value >= low):
        raise InvalidParameter(f"{name} must be at least {low:g}; got {value:g}.")


def check_above_zero(name: str, value: float) -> None:
    """Refuse what is not a finite number above 0."""
    if not (math.isfinite(value) and value > 0):
        raise InvalidParameter(f"{name} must be above 0; got {value:g}.")


def check_open_unit(name: str, value: float) -> None:
    """Refuse what is not in (0, 1)."""
    if not 0 < value < 1:
        raise InvalidParameter(f"{name} must be in (0, 1); got {value:g}.")


def check_share(name: str, value: float) -> None:
    """Refuse what is not in (0, 1]."""
    if not 0 < value <= 1:
        raise InvalidParameter(f"{name} must be in (0, 1]; got {value:g}.")


def check_arms(arms: int) -> None:
    """Refuse fewer than two arms."""
    check_at_least("arms", arms, 2)


def check_horizon(horizon: int) -> None:
    """Refuse fewer than one round."""
    check_at_least("horizon", horizon, 1)


def check_means(means: Sequence[float]) -> None:
    """Refuse fewer than two means, and those that are not in [0, 1]."""
    if len(means) < 2:
        raise InvalidParameter(f"means must name at least 2 arms; got {len(means)}.")
    for mean in means:
        if not 0 <= mean <= 1:
            raise InvalidParameter(f"each of means must be in [0, 1]; got {mean:g}.")


def check_gaps(gaps: Sequence[float]) -> None:
    """Refuse gaps that are not in [0, 1], or none at all."""
    if not len(gaps):
        raise InvalidParameter("gaps must have an entry for each arm but the best; got none.")
    for gap in gaps:
        if not 0 <= gap <= 1:
            raise InvalidParameter(f"each of gaps must be in [0, 1]; got {gap:g}.")
