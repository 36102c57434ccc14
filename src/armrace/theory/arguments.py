"""The arguments of the bounds: one check for each kind of number."""

from __future__ import annotations

from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number

_OPEN_UNIT = Limits("", 0, 1, low_open=True, high_open=True)
_SHARE = Limits("", 0, 1, low_open=True)
_UNIT = Limits("", 0, 1)


def check_at_least(name: str, value: float, low: float) -> None:
    """Refuse what is not a finite number of at least ``low``."""
    check_number(name, value, Limits("", low))


def check_above_zero(name: str, value: float) -> None:
    """Refuse what is not a finite number above 0."""
    check_number(name, value, Limits("", 0, low_open=True))


def check_open_unit(name: str, value: float) -> None:
    """Refuse what is not in (0, 1)."""
    check_number(name, value, _OPEN_UNIT)


def check_share(name: str, value: float) -> None:
    """Refuse what is not in (0, 1]."""
    check_number(name, value, _SHARE)


def check_run(arms: int, horizon: int, delta: float | None = None) -> None:
    """Refuse fewer than two arms, fewer than one round, and a ``delta`` that is not in (0, 1)."""
    check_at_least("arms", arms, 2)
    check_horizon(horizon)
    if delta is not None:
        check_open_unit("delta", delta)


def check_horizon(horizon: int) -> None:
    """Refuse fewer than one round."""
    check_at_least("horizon", horizon, 1)


def check_means(means: Sequence[float]) -> None:
    """Refuse fewer than two means, and those that are not in [0, 1]."""
    if len(means) < 2:
        raise InvalidParameter(f"means must name at least 2 arms; got {len(means)}.")
    for mean in means:
        check_number("each of means", mean, _UNIT)


def check_gaps(gaps: Sequence[float]) -> None:
    """Refuse gaps that are not in [0, 1], or none at all."""
    if not len(gaps):
        raise InvalidParameter("gaps must have an entry for each arm but the best; got none.")
    for gap in gaps:
        check_number("each of gaps", gap, _UNIT)
