"""Places of labels that must not overlap; loads no plotting library, so that servers can use it."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["spread"]


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending heights apart to at least ``gap``, between two ends if they fit.

    Args:
        heights: the heights, in ascending order.
        gap: the least distance of two neighbours.
        low: where the first may be placed.
        high: where the last may be placed; where there are too many, the first leave the range.

    >>> spread([0, 1, 50], gap=10, low=0, high=100)
    [0.0, 10.0, 50.0]
    >>> spread([95, 99], gap=10, low=0, high=100)
    [90.0, 100.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(float(max(height, places[-1] + gap if places else low)))
    limit = float(high)
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    return places
