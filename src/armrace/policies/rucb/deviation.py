"""The median distance from a centre, exactly, from rewards in order of size.

The ``k`` rewards nearest to a centre are neighbours in order. If they begin at rank ``a``, the
``k``-th distance is the larger of those of the two ends; as ``a`` grows the lower end comes
nearer and the upper end goes farther, so the best ``a`` is where the two cross. The search
starts from where the crossing was last and takes steps that double.
"""

from __future__ import annotations

from armrace.kernels.compiling import inlined
from armrace.policies.indices.ordered import Ordered, reward_of_rank


@inlined
def median_deviation(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, near: int
) -> tuple[float, int]:
    """The median of the distances from ``centre``, and the rank from which to search next.

    ``low`` and ``high`` are cursors, ``near`` is what the last search returned.
    """
    size = ordered.sizes[arm]
    deviation, near = _nearest_distance(ordered, arm, low, high, centre, size // 2 + 1, near)
    if size % 2 == 0:
        other, near = _nearest_distance(ordered, arm, low, high, centre, size // 2, near)
        deviation = 0.5 * (deviation + other)
    return deviation, near


@inlined
def _nearest_distance(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, near: int
) -> tuple[float, int]:
    """The ``count``-th smallest distance from ``centre``, and where those rewards begin."""
    crossing = _crossing(ordered, arm, low, high, centre, count, near)
    distance = _farther_end(ordered, arm, low, high, centre, count, crossing)
    # At the crossing the upper end is the farther one, just before it the lower: the smaller of the
    # two maxima is the distance.
    if crossing > 0:
        before = _farther_end(ordered, arm, low, high, centre, count, crossing - 1)
        distance = min(distance, before)
    return distance, crossing


@inlined
def _crossing(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, near: int
) -> int:
    """The first rank, or the last possible, from which the upper end is no nearer."""
    least, most = 0, ordered.sizes[arm] - count
    place, step = min(max(near, 0), most), 1
    while least < most:
        lower_distance = centre - reward_of_rank(ordered, arm, low, place)
        upper_distance = reward_of_rank(ordered, arm, high, place + count - 1) - centre
        if upper_distance >= lower_distance:
            most = place
            # Steps that double until they would pass the middle, then bisection.
            place = max(place - step, (least + most) // 2)
        else:
            least = place + 1
            place = min(place + step, (least + most) // 2)
        step *= 2
    return least


@inlined
def _farther_end(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, start: int
) -> float:
    """Return the larger distance of the two ends of ``count`` neighbouring rewards."""
    lower_distance = centre - reward_of_rank(ordered, arm, low, start)
    upper_distance = reward_of_rank(ordered, arm, high, start + count - 1) - centre
    return max(lower_distance, upper_distance)
