"""What a race knows: a record for each layer and arm, and one for each layer.

What one round touches lies side by side in memory and is found once. What happens to it is said
in :mod:`armrace.policies.races.race`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.declarations import (
    ARM,
    ARM_OR_NONE,
    CONSTANT,
    COUNT,
    LAYER_OR_NONE,
    REWARD_COUNT,
    ROUND_OR_NEVER,
    Span,
    SumOf,
    declare,
)
from armrace.policies.races.intervals import Rule, ends, needs_squares

__all__ = [
    "CELL",
    "FOREVER",
    "LAYER",
    "NEVER",
    "Race",
    "cell_of",
    "evidence",
    "interval",
    "layer_of",
    "make_race",
]

NEVER = -1
"""The round and layer of an elimination that has not happened, and the leader of no arms."""

FOREVER = 2**62
"""The patience of an arm whose intervals no longer matter."""

CELL = np.dtype(
    [
        ("assigned", np.int64),
        # rewards of the layer's own plays; what others contribute is in no count of a layer's
        ("pulls", np.int64),
        ("sums", np.float64),
        # rewards that may come before the arm's interval is looked at
        ("patience", np.int64),
        # whose turn it is after this arm's, while it is active
        ("next", np.int64),
        # ends of the interval as last looked at; infinite where deleted or without a reward
        ("lower", np.float64),
        ("upper", np.float64),
        ("active", np.bool_),
        # sums of the rewards' squares, where the rule needs them
        ("squares", np.float64),
        # centres of the intervals, where the race leads; minus infinity as for the lower ends
        ("means", np.float64),
        ("eliminated_at", np.int64),
        ("eliminated_by", np.int64),
    ],
    align=True,
)
"""What a layer knows of an arm."""

LAYER = np.dtype(
    [
        ("active_count", np.int64),
        # the active arm whose turn it is, if there is one
        ("turn", np.int64),
        # how many plays the leader has before it is another arm's turn
        ("leads", np.int64),
        # the active arm with the best mean, in a race that leads
        ("leader", np.int64),
        # the extreme ends: an arm is to be deleted when they pass one another
        ("highest_lower", np.float64),
        ("lowest_upper", np.float64),
        # whether intervals of the paper's kind have become old while nothing could be deleted
        ("patient", np.bool_),
        # the active arm that had the fewest rewards when that was last of interest
        ("slowest", np.int64),
    ],
    align=True,
)
"""What a layer knows of itself."""

_END = Span(-1e18, 1e18, infinite=True)
"""An end of an interval; infinite where there is none."""


@declare(
    cells={
        "assigned": Span("minus_decisions", "decisions"),  # dropped decisions are taken off
        "pulls": REWARD_COUNT,
        "sums": SumOf("pulls"),
        "patience": Span(-1, FOREVER),
        "next": ARM,
        "lower": _END,
        "upper": _END,
        "squares": SumOf("sums"),
        "means": Span(-math.inf, 1.0),
        "eliminated_at": ROUND_OR_NEVER,
        "eliminated_by": LAYER_OR_NONE,
    },
    layers={
        "active_count": Span(0, "arms"),
        "turn": ARM,
        "leads": Span(0, FOREVER),
        "leader": ARM_OR_NONE,
        "highest_lower": _END,
        "lowest_upper": _END,
        "slowest": ARM,
    },
    deletions=COUNT,
    share=CONSTANT,
    tail=CONSTANT,
    tolerated=CONSTANT,
    halving=CONSTANT,
    pooled=CONSTANT,
    leading=CONSTANT,
    rounds=COUNT,
)
class Race(NamedTuple):
    """State of a race.

    A cell is what a layer knows of an arm. What one round touches lies side by side in memory,
    and is found once; ``race.pulls`` and the like are one field of all cells or of all layers.
    """

    cells: Any
    """A row a layer and a column an arm, each a :data:`CELL`."""
    layers: Any
    """A :data:`LAYER` each."""
    deletions: npt.NDArray[np.int64]
    """How many cells are no longer active."""
    share: npt.NDArray[np.float64]
    tail: npt.NDArray[np.float64]
    """Probability of a layer or any slower one; one longer than there are layers."""
    tolerated: npt.NDArray[np.float64]
    """The corruption up to which each layer is sure of its arms."""
    halving: npt.NDArray[np.bool_]
    """Whether each layer but the first has half of the share before it, down to ``2^-layers``."""
    rule: Rule
    pooled: npt.NDArray[np.bool_]
    leading: npt.NDArray[np.int64]
    """How many plays the leader of a layer has after each turn; 0 in a race that does not lead."""
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


def make_race(
    arms: int,
    share: npt.NDArray[np.float64],
    rule: Rule,
    pooled: bool = False,
    leading: int = 0,
    tolerated: npt.NDArray[np.float64] | None = None,
) -> Race:
    """A race at its start: all arms active in all layers.

    A layer tolerates a corruption of one over its share unless told otherwise.
    """
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
        tail=np.append(np.cumsum(share[::-1])[::-1], 0.0),
        tolerated=_one_over(share) if tolerated is None else tolerated,
        halving=np.array([_halves(share)]),
        rule=rule,
        pooled=np.array([pooled]),
        leading=np.array([leading], dtype=np.int64),
        rounds=np.zeros(1, dtype=np.int64),
    )


def _one_over(share: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.divide(1.0, share, out=np.full(share.size, np.inf), where=share > 0.0)


def _halves(share: npt.NDArray[np.float64]) -> bool:
    usual = 2.0 ** -np.arange(1.0, share.size + 1)
    return share.size > 1 and bool(np.array_equal(share[1:], usual[1:]))


@inlined
def cell_of(state: Race, layer: int, arm: int) -> Any:
    """What a layer knows of an arm; compiled code need not ask if unsigned places are negative."""
    return state.cells[np.uint64(layer), np.uint64(arm)]


@inlined
def layer_of(state: Race, layer: int) -> Any:
    """What a layer knows of itself."""
    return state.layers[np.uint64(layer)]


@inlined
def evidence(state: Race, layer: int, arm: int) -> tuple[int, float, float, int]:
    """Number, sum and sum of squares of the rewards that a layer uses; and how many are due.

    Due are the rewards of decisions that were assigned and have not been rewarded yet.
    """
    cell = cell_of(state, layer, arm)
    pulls, total, squares, assigned = cell.pulls, cell.sums, cell.squares, cell.assigned
    if state.pooled[0]:
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
    """The interval that a layer makes of ``pulls`` rewards while ``due`` more are outstanding.

    The decisions assigned so far are a prefix in the order of decisions, whatever the delays.
    So the interval is that of the whole prefix, with the least and the largest rewards that are
    possible in place of those that are due: its lower end if all were 0, its upper end if all
    were 1.
    """
    if due <= 0:
        return _ends(state, layer, pulls, total, squares, 0.0)
    # Empirical variances are not monotone in the missing rewards. Counting these as corrupted,
    # too, covers every variance that they can lead to.
    unsure = float(due) if needs_squares(state.rule.kind[0]) else 0.0
    low, _ = _ends(state, layer, pulls + due, total, squares, unsure)
    _, high = _ends(state, layer, pulls + due, total + due, squares + due, unsure)
    return low, high


@outlined
def _ends(
    state: Race, layer: int, pulls: int, total: float, squares: float, unsure: float
) -> tuple[float, float]:
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
