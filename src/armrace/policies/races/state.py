"""The state of a race: a record for each layer and arm, and one for each layer.

The fields that one round reads and writes lie side by side in memory, so that a round touches few
cache lines. The functions that act on the state are in :mod:`armrace.policies.races.race`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.states import index_limits
from armrace.policies.races.intervals import Rule, ends, needs_squares
from armrace.theory import layer_tolerances

NEVER = -1
"""Stands for the round and layer of an elimination that has not happened, and for no leader."""

FOREVER = 2**62
"""The patience of an arm whose interval need never be recomputed."""

CELL = np.dtype(
    [
        ("assigned", np.int64),
        # rewards of the layer's own plays; pooled rewards of slower layers are not included
        ("pulls", np.int64),
        ("sums", np.float64),
        # number of rewards that may come before the arm's interval is recomputed
        ("patience", np.int64),
        # the arm whose turn follows this arm's, while this arm is active
        ("next", np.int64),
        # ends of the interval as last computed; infinite if deleted or without a reward
        ("lower", np.float64),
        ("upper", np.float64),
        ("active", np.bool_),
        # sum of the squared rewards, if the rule needs it
        ("squares", np.float64),
        # mean as of the last update, in a race that leads; minus infinity like the lower ends
        ("means", np.float64),
        ("eliminated_at", np.int64),
        ("eliminated_by", np.int64),
    ],
    align=True,
)
"""The record of one arm in one layer."""

LAYER = np.dtype(
    [
        ("active_count", np.int64),
        # the active arm whose turn it is, if there is one
        ("turn", np.int64),
        # remaining plays of the leader before the next turn
        ("leads", np.int64),
        # the active arm with the best mean, in a race that leads
        ("leader", np.int64),
        # extreme ends of the intervals: an arm is deleted once lowest_upper < highest_lower
        ("highest_lower", np.float64),
        ("lowest_upper", np.float64),
        # whether intervals (of the paper's kind) are out of date because nothing can be deleted
        ("patient", np.bool_),
        # the active arm that had the fewest rewards when patience was last set
        ("slowest", np.int64),
    ],
    align=True,
)
"""The record of one layer."""


class Race(NamedTuple):
    """State of a race.

    A cell is the record of one arm in one layer. Properties such as ``race.pulls`` give one field
    of all cells as an array.
    """

    cells: Any
    """One :data:`CELL` for each layer (row) and arm (column)."""
    layers: Any
    """One :data:`LAYER` for each layer."""
    deletions: npt.NDArray[np.int64]
    """How many cells are no longer active."""
    share: npt.NDArray[np.float64]
    tail: npt.NDArray[np.float64]
    """Probability of a layer or any slower one, with a final 0 appended."""
    tolerated: npt.NDArray[np.float64]
    """The corruption up to which each layer is guaranteed to keep a best arm."""
    halving: npt.NDArray[np.bool_]
    """Whether layer ``l > 0`` has the share ``2^-(l+1)``, and layer 0 all that remains."""
    rule: Rule
    pooled: npt.NDArray[np.bool_]
    leading: npt.NDArray[np.int64]
    """Plays of a layer's leader after each turn; 0 in a race that does not lead."""
    rounds: npt.NDArray[np.int64]
    """How many decisions have been made."""

    @property
    def assigned(self) -> npt.NDArray[np.int64]:
        """Decisions of each layer (row) for each arm (column)."""
        return self._of_cells("assigned")

    @property
    def pulls(self) -> npt.NDArray[np.int64]:
        """Rewards that each layer has learned from each arm."""
        return self._of_cells("pulls")

    @property
    def sums(self) -> npt.NDArray[np.float64]:
        """Sums of these rewards."""
        return self._of_cells("sums")

    @property
    def active(self) -> npt.NDArray[np.bool_]:
        """Whether each arm is active in each layer."""
        return self._of_cells("active")

    @property
    def lower(self) -> npt.NDArray[np.float64]:
        """Lower ends of the intervals as last computed."""
        return self._of_cells("lower")

    @property
    def upper(self) -> npt.NDArray[np.float64]:
        """Upper ends of the intervals as last computed."""
        return self._of_cells("upper")

    @property
    def patience(self) -> npt.NDArray[np.int64]:
        """Rewards that may come before each interval is computed again."""
        return self._of_cells("patience")

    @property
    def eliminated_at(self) -> npt.NDArray[np.int64]:
        """The round in which each arm was deleted from each layer; :data:`NEVER` if active."""
        return self._of_cells("eliminated_at")

    @property
    def eliminated_by(self) -> npt.NDArray[np.int64]:
        """The layer that deleted it."""
        return self._of_cells("eliminated_by")

    def _of_cells(self, name: str) -> Any:
        return self.cells[name]


@index_limits(Race)
def limit_indices_of_race(state: Race) -> Iterator[tuple[Any, int]]:
    arms = state.cells.shape[1]
    yield state.cells["next"], arms
    for name in ("turn", "leader", "slowest"):
        yield state.layers[name], arms


def make_race(
    arms: int,
    share: npt.NDArray[np.float64],
    rule: Rule,
    pooled: bool = False,
    leading: int = 0,
    tolerated: npt.NDArray[np.float64] | None = None,
) -> Race:
    """Make the state before the first round, with all arms active in all layers.

    Args:
        arms: number of arms.
        share: the probability with which each layer gets a round, fastest first.
        rule: how intervals are computed.
        pooled: whether a layer also uses the rewards of all slower layers.
        leading: plays of a layer's leader after each turn.
        tolerated: the corruption up to which each layer keeps a best arm; by default that of a
            race whose layers are designed for one over their share, see
            :func:`armrace.theory.layer_tolerances`.

    Returns:
        The state.
    """
    # As a record array, so that fields have the same names in interpreted code as in compiled code.
    cells = np.zeros((share.size, arms), dtype=CELL).view(np.recarray)
    cells.active = True
    cells.next = (np.arange(arms) + 1) % arms
    cells.lower = cells.means = -np.inf
    cells.upper = np.inf
    cells.eliminated_at = cells.eliminated_by = NEVER
    layers = np.zeros(share.size, dtype=LAYER).view(np.recarray)
    layers.active_count = arms
    layers.highest_lower, layers.lowest_upper = -np.inf, np.inf
    layers.leader = NEVER
    return Race(
        cells=cells,
        layers=layers,
        deletions=np.zeros(1, dtype=np.int64),
        share=share,
        # The final 0 ends the search of ``layer_at``, as no level is below it.
        tail=np.append(np.cumsum(share[::-1])[::-1], 0.0),
        tolerated=_tolerances(share, rule) if tolerated is None else tolerated,
        halving=np.array([_halves(share)]),
        rule=rule,
        pooled=np.array([pooled]),
        leading=np.array([leading], dtype=np.int64),
        rounds=np.zeros(1, dtype=np.int64),
    )


def _tolerances(share: npt.NDArray[np.float64], rule: Rule) -> npt.NDArray[np.float64]:
    # A layer that is never drawn meets no corruption at all.
    designed = np.divide(1.0, share, out=np.full(share.size, np.inf), where=share > 0.0)
    return np.array(layer_tolerances(designed.tolist(), rule.allowance.tolist()))


def _halves(share: npt.NDArray[np.float64]) -> bool:
    # Layer 0 gets what the others leave, so that its share need not be 1/2. All others are exact
    # powers of 2, and are compared as such.
    usual = 2.0 ** -np.arange(1.0, share.size + 1)
    return share.size > 1 and bool(np.array_equal(share[1:], usual[1:]))


@inlined
def cell_of(state: Race, layer: int, arm: int) -> Any:
    """Return the record of an arm in a layer.

    Args:
        state: the state of a race.
        layer: the layer, from 0.
        arm: the arm.
    """
    # Unsigned indices spare compiled code the test for negative ones, which count from the end.
    return state.cells[np.uint64(layer), np.uint64(arm)]


@inlined
def layer_of(state: Race, layer: int) -> Any:
    """Return the record of a layer.

    Args:
        state: the state of a race.
        layer: the layer, from 0.
    """
    return state.layers[np.uint64(layer)]


@inlined
def evidence(state: Race, layer: int, arm: int) -> tuple[int, float, float, int]:
    """Return number, sum and sum of squares of a layer's rewards of an arm, and how many are due.

    A reward is due if its decision was assigned and has had no reward yet.

    Args:
        state: the state of a race.
        layer: the layer, from 0.
        arm: the arm.
    """
    cell = cell_of(state, layer, arm)
    pulls, total, squares, assigned = cell.pulls, cell.sums, cell.squares, cell.assigned
    if state.pooled[0]:
        # From this layer on to the slowest: ``RacePolicy.inspect`` adds in the same order, so that
        # it shows the very interval that was compared.
        for slower in range(layer + 1, state.share.size):
            cell = cell_of(state, slower, arm)
            pulls += cell.pulls
            total += cell.sums
            squares += cell.squares
            assigned += cell.assigned
    return pulls, total, squares, assigned - pulls


@inlined
def interval(
    state: Race, layer: int, pulls: int, total: float, squares: float, due: int
) -> tuple[float, float]:
    """Return a layer's interval from ``pulls`` rewards while ``due`` more are outstanding.

    The decisions assigned so far are a prefix in the order of decisions, whatever the delays.
    So the interval is that of the whole prefix, with the least and the largest rewards that are
    possible in place of those that are due: its lower end if all were 0, its upper end if all
    were 1.

    Args:
        state: the state of a race.
        layer: the layer, from 0.
        pulls: the number of rewards that have come.
        total: their sum.
        squares: the sum of their squares, which only Bernstein's intervals need.
        due: the number of rewards that are outstanding.
    """
    if due <= 0:
        return _ends(state, layer, pulls, total, squares, 0.0)
    # Empirical variances are not monotone in the missing rewards. Counting these as corrupted,
    # too, covers every variance that they can lead to.
    unsure = float(due) if needs_squares(state.rule.kind[0]) else 0.0
    low, _ = _ends(state, layer, pulls + due, total, squares, unsure)
    _, high = _ends(state, layer, pulls + due, total + due, squares + due, unsure)
    return low, high


@inlined
def _ends(
    state: Race, layer: int, pulls: int, total: float, squares: float, unsure: float
) -> tuple[float, float]:
    """Return the ends of a layer's interval, with ``unsure`` added to its allowance."""
    rule = state.rule
    return ends(
        rule.kind[0],
        pulls,
        total,
        squares,
        rule.log_lower[layer],
        rule.log_upper[layer],
        rule.allowance[layer] + unsure,
    )
