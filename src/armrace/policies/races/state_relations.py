"""Consistency conditions on the state of a race, on which compiled code relies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from armrace.kernels.declarations import Room, relation
from armrace.policies.races.state import NEVER, Race


@relation(Race)
def find_contradictions_in_race(state: Race, fresh: Race, room: Room) -> Iterator[str]:
    """Active arms take turns, extremes are those of the intervals, and some arm is left."""
    cells, layers, active = state.cells, state.layers, state.active
    if (layers.active_count != active.sum(axis=1)).any():
        yield "layers.active_count"
    if state.deletions[0] != (~active).sum():
        yield "deletions"
    if state.pulls.sum() > room.rewards:
        yield "cells.pulls"
    # Deletions reach all faster layers; leaping and the fallback rely on it.
    if (active[:-1] & ~active[1:]).any():
        yield "cells.active"
    if (cells.lower > cells.upper).any():
        yield "cells.lower"
    deleted = ~active
    known = (cells.lower > -np.inf) | (cells.upper < np.inf) | (cells.means > -np.inf)
    if (deleted & known).any():
        yield "cells.means"
    if ((cells.eliminated_at != NEVER) & active).any():
        yield "cells.eliminated_at"
    if ((cells.eliminated_by == NEVER) != active).any():
        yield "cells.eliminated_by"
    if (layers.leads > state.leading[0]).any():
        yield "layers.leads"
    if (layers.highest_lower != cells.lower.max(axis=1)).any():
        yield "layers.highest_lower"
    if (layers.lowest_upper != cells.upper.min(axis=1)).any():
        yield "layers.lowest_upper"
    for number in range(state.share.size):
        yield from _unsound_turns(state, number)
    yield from _check_slowest_layer(state)


def _unsound_turns(state: Race, number: int) -> Iterator[str]:
    """Check that turns go round the active arms, and that a patient layer has rewards of all."""
    layer, cells = state.layers[number], state.cells[number]
    arms = np.flatnonzero(cells.active)
    if arms.size == 0:
        return
    if (cells.next[arms] != np.roll(arms, -1)).any():
        yield "cells.next"
    if not cells.active[layer.turn]:
        yield "layers.turn"
    if not cells.active[layer.slowest]:
        yield "layers.slowest"
    if layer.leader != NEVER and not cells.active[layer.leader]:
        yield "layers.leader"
    slower = state.cells.shape[0] if state.pooled[0] else number + 1
    if layer.patient and (state.pulls[number:slower].sum(axis=0)[arms] == 0).any():
        yield "layers.patient"


def _check_slowest_layer(state: Race) -> Iterator[str]:
    """Check that the slowest layer has an arm, unless a policy on top of the race deleted all."""
    layers = state.share.size
    if layers and not state.active[-1].any() and (state.eliminated_by[-1] != layers).any():
        yield "cells.active"
