"""Arms that are taken from a leader for a while or for good.

A leader that may only choose among the other arms sees no further loss of the one that is away.
The estimated loss of that arm stays where it is while all others grow, its weight goes to 1, and
the weights of the others, relative to each other, become flat or vanish. So a leader is told: the
arm gets an estimated loss so large that the others have the weights that they would have without
it. When it comes back, it is as far behind the best of the others as it was when it went.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_AWAY = 1e18
"""The loss of an arm that is away: far above all that plays add up to, and its square is finite."""

Floats = npt.NDArray[np.float64]


class _Ranking(NamedTuple):
    losses: Callable[[Any], Floats]
    place: Callable[[Any, int, float], None]


_RANKINGS: dict[type, _Ranking] = {}


def ranks_arms(
    state_class: type, losses: Callable[[Any], Floats], place: Callable[[Any, int, float], None]
) -> None:
    """Register how the states of a leader rank their arms."""
    _RANKINGS[state_class] = _Ranking(losses, place)


def set_aside(state: Any, arm: int, away: Collection[int]) -> float:
    """Take an arm from a state; return how far it was behind the best of those not ``away``.

    An index or a posterior of an arm does not depend on the others, and its state stays as it is.
    """
    if type(state) not in _RANKINGS:
        return 0.0
    ranking = _RANKINGS[type(state)]
    standing = float(ranking.losses(state)[arm]) - _least(ranking, state, {arm, *away})
    ranking.place(state, arm, _AWAY)
    return standing


def bring_back(state: Any, arm: int, standing: float, away: Collection[int]) -> None:
    """Give an arm back to a state, by what :func:`set_aside` returned; it is still ``away``."""
    if type(state) in _RANKINGS:
        ranking = _RANKINGS[type(state)]
        ranking.place(state, arm, _least(ranking, state, away) + standing)


def _least(ranking: _Ranking, state: Any, away: Collection[int]) -> float:
    losses = ranking.losses(state)
    return min(float(losses[arm]) for arm in range(losses.size) if arm not in away)
