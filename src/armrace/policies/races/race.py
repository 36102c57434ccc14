"""The race, made fast; :mod:`armrace.policies.races.textbook` has it in 50 readable lines.

Layers of active arm elimination are coupled by global eliminations. One mechanism carries the races
of Lykouris, Mirrokni and Paes Leme (STOC 2018) and their sharper forms: plain and enlarged active
arm elimination are races of one layer, the Fast-Slow race has two, the Multi-layer race ``ceil(lg
T)``. Layers run from the fastest (0) to the most robust (the last).

A layer keeps a confidence interval for each arm. The race's :class:`Rule` computes it from the
rewards of the layer's own plays or, if the race is *pooled*, from those and the plays of all slower
layers. An arm is deleted when its interval lies entirely below that of another active arm;
it is then deleted from all faster layers too. A layer plays its active arms in turn; in a race that
*leads*, a fixed number of plays after each turn go to the arm with the best mean instead.

Here is the state, and how arms are chosen; :mod:`armrace.policies.races.patience` has what a reward
changes. The fields that one round reads and writes lie side by side in memory, so that a round
touches few cache lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_LAYER,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    make_ticket,
)
from armrace.kernels.states import index_limits
from armrace.kernels.streams import Stream, uniform
from armrace.policies.races.intervals import KL_JEFFREYS, Rule, ends, make_rule, needs_squares
from armrace.theory import SharpLayer, layer_tolerances

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


def make_pooled_race(arms: int, layers: Sequence[SharpLayer], lead: int) -> Race:
    """Make the race of Theorems B and C: Jeffreys' intervals, pooled layers, a leader in each."""
    # Copied, because rows of a transposed array are not contiguous, and compiled code has another
    # type for such arrays.
    share, designed, log_lower, log_upper, allowance = np.array(layers).T.copy()
    rule = make_rule(KL_JEFFREYS, log_lower, log_upper, allowance)
    tolerated = np.array(layer_tolerances(designed.tolist(), allowance.tolist()))
    return make_race(arms, share, rule, pooled=True, leading=lead, tolerated=tolerated)


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


_EXPONENT_OF_A_HALF, _MANTISSA = 1022, 52
"""The stored exponent of 0.5 as a double, and the number of mantissa bits below the exponent."""


@inlined
def draw_layer(state: Race, stream: Stream) -> int:
    """Draw the layer of a round."""
    level = uniform(stream)
    if state.halving[0]:
        return halving_layer_at(level, state.share.size)
    return layer_at(level, state.tail, 0)


@inlined
def layer_from(state: Race, fastest: int, stream: Stream) -> int:
    """Draw a layer, given that it is ``fastest`` or slower."""
    # Slow layers have the low levels, so that a uniform level below the tail is one given that the
    # layer is no faster.
    return layer_at(uniform(stream) * state.tail[fastest], state.tail, fastest)


@inlined
def layer_at(level: float, tail: npt.NDArray[np.float64], fastest: int) -> int:
    """Return the layer whose part of [0, 1) contains ``level``; slow layers have low levels.

    Args:
        level: a uniform number below ``tail[fastest]``.
        tail: the probability of each layer or a slower one, with a final 0.
        fastest: the fastest layer that is possible.
    """
    layer = fastest
    while layer + 2 < tail.size and level < tail[layer + 1]:
        layer += 1
    return layer


@inlined
def halving_layer_at(level: float, layers: int) -> int:
    """Return the layer for a level in [0, 1) if shares halve, from the level's binary exponent.

    Layer ``l > 0`` has the levels from ``2^-(l+1)`` to ``2^-l``, layer 0 all others.
    """
    # The number of leading zeros is read from the bits of the double: unlike the loop of
    # ``layer_at``, that has no branch that depends on the random level.
    layer = _EXPONENT_OF_A_HALF - int(np.float64(level).view(np.int64) >> _MANTISSA)
    return layer if layer < layers else 0


@inlined
def next_arm(layer: Any) -> int:
    """Return the arm that a layer with active arms plays next."""
    # There is no leader until the first reward has come, which may be long after several decisions.
    if layer.leads > 0 and layer.leader != NEVER:
        return layer.leader
    return layer.turn


@inlined
def next_arm_or(fallback: int, layer: Any) -> int:
    """Return the arm that a layer plays next; the fallback if it has no active arm."""
    return next_arm(layer) if layer.active_count > 0 else fallback


@inlined
def fallback_arm(state: Race) -> int:
    """Return the arm that empty layers play: the best mean of the fastest non-empty layer.

    Args:
        state: the state of a race.
    """
    layer = 0
    # The loop has a fixed bound: the compiler can then remove it where the result is not used,
    # which it may not do with a loop that could run forever.
    for _ in range(state.share.size - 1):
        if layer_of(state, layer).active_count > 0:
            break
        layer += 1
    # Deletions reach all faster layers, so that if the fastest has an arm, no layer is empty.
    if layer == 0:
        return NEVER
    # The paper lets an empty layer play any active arm of this one (Algorithm 2, erratum 13).
    return _best_mean(state, layer, None, True)


@inlined
def _best_mean(state: Race, number: int, eligible: Eligible, active: bool) -> int:
    """Return the eligible arm with the best mean in a layer; only active arms if ``active``."""
    best, best_mean = NEVER, -1.0
    for arm in range(state.cells.shape[1]):
        if eligible is not None and not eligible[arm]:
            continue
        cell = cell_of(state, number, arm)
        if cell.active or not active:
            mean = cell.sums / cell.pulls if cell.pulls > 0 else 0.0
            if mean > best_mean:
                best, best_mean = arm, mean
    return best


@inlined
def arm_with_fewest_plays(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> int:
    """Return the eligible active arm with the fewest plays in a layer; NEVER if there is none.

    Args:
        state: the state of a race.
        number: the layer, from 0.
        eligible: which arms may be chosen.
    """
    fewest, least = NEVER, 0
    for arm in range(state.cells.shape[1]):
        cell = cell_of(state, number, arm)
        # Strictly fewer, so that the lowest index wins among equals, as in the cycle of turns.
        if eligible[arm] and cell.active and (fewest == NEVER or cell.assigned < least):
            fewest, least = arm, cell.assigned
    return fewest


@inlined
def arm_probability(state: Race, arm: int, eligible: Eligible) -> float:
    """Return the total share of the layers that would play ``arm`` next.

    Args:
        state: the state of a race.
        arm: the arm.
        eligible: which arms may be chosen, or ``None`` for all.
    """
    total = 0.0
    if eligible is None:
        fallback = fallback_arm(state)
        for layer in range(state.share.size):
            if next_arm_or(fallback, layer_of(state, layer)) == arm:
                total += state.share[layer]
    else:
        for layer in range(state.share.size):
            if _eligible_arm(state, layer, eligible)[0] == arm:
                total += state.share[layer]
    return total


@outlined
def choose_eligible(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> Ticket:
    """Return the ticket of a layer's next play when only some arms are eligible."""
    arm, learns = _eligible_arm(state, number, eligible)
    # Several layers may play the same arm, so that its probability is the sum of their shares.
    probability = arm_probability(state, arm, eligible)
    return make_ticket(arm, number if learns else NO_LAYER, probability)


@inlined
def _eligible_arm(state: Race, number: int, eligible: npt.NDArray[np.bool_]) -> tuple[int, bool]:
    """Return the next arm of a layer among eligible arms, and whether the layer learns from it.

    The arm is the layer's leader if the leader is to be played next, else the active arm with the
    fewest plays. A layer without an eligible active arm plays the arm with the best mean of the
    fastest layer that has one, or of the slowest layer if every eligible arm is deleted everywhere.
    """
    layer = layer_of(state, number)
    if layer.active_count > 0:
        if layer.leads > 0 and layer.leader != NEVER and eligible[layer.leader]:
            return layer.leader, True
        fewest = arm_with_fewest_plays(state, number, eligible)
        if fewest != NEVER:
            return fewest, True
    # Nothing is learned from a play in another layer's place: the layer's sample would no longer be
    # drawn by its own coin (erratum 13).
    for other in range(state.share.size):
        arm = _best_mean(state, other, eligible, True)
        if arm != NEVER:
            return arm, False
    return _best_mean(state, state.share.size - 1, eligible, False), False


@implement(distribution, Race)
def race_distribution(state: Race, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    fallback = fallback_arm(state)
    for layer in range(state.share.size):
        out[next_arm_or(fallback, layer_of(state, layer))] += state.share[layer]


@implement(choose, Race)
def race_choose(state: Race, stream: Stream, eligible: Eligible = None) -> Ticket:
    # A race of one layer draws nothing: it is as deterministic as the paper's active arm
    # elimination.
    number = draw_layer(state, stream) if state.share.size > 1 else 0
    if eligible is not None:
        return choose_eligible(state, number, eligible)
    if layer_of(state, number).active_count == 0:
        # The layer was fooled, and slower layers have deleted the arms that it had left. It plays
        # what the fastest layer with arms takes for the best, and records nothing.
        arm = fallback_arm(state)
        return make_ticket(arm, NO_LAYER, arm_probability(state, arm, None))
    arm = next_arm(layer_of(state, number))
    return make_ticket(arm, number, arm_probability(state, arm, None))


@implement(assign, Race)
def race_assign(state: Race, ticket: Ticket) -> Ticket:
    if ticket.layer != NO_LAYER:
        assign_to_layer(state, ticket.layer, ticket.arm)
    state.rounds[0] += 1
    return ticket


@inlined
def assign_to_layer(state: Race, number: int, arm: int) -> None:
    """Count a play of an arm in a layer, and advance the turn if it was this arm's.

    Args:
        state: the state of a race.
        number: the layer, from 0.
        arm: the arm.
    """
    layer, cell = layer_of(state, number), cell_of(state, number, arm)
    # Read before anything is written: after a choice of its own, compiled code then knows that
    # it is this arm's turn. It is not if the choice was restricted or made by another state.
    is_its_turn, leads, following = arm == layer.turn, layer.leads, cell.next
    cell.assigned += 1
    if leads > 0:
        layer.leads = leads - 1
    else:
        layer.leads = state.leading[0]
        if is_its_turn:
            layer.turn = following


@implement(drop, Race)
def race_drop(state: Race, ticket: Ticket) -> None:
    if ticket.layer != NO_LAYER:
        # Intervals stop making room for the reward, which will not come (docs/decisions/017). The
        # turn stays used up: other arms have had theirs since.
        cell = cell_of(state, ticket.layer, ticket.arm)
        cell.assigned = max(0, cell.assigned - 1)  # a drop may be forged
