"""The compiled loop: learner, stochastic rewards, adversary and ledger, round after round.

The ledger holds the accounts of a run: what was played and collected, and what corruption cost and
was spent. Policy and adversary never write it. An adversary cannot overspend: a change is charged
before it takes effect, and is undone if the budget has no room.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry, inlined
from armrace.kernels.crowds import book_means, book_visit, context_of
from armrace.kernels.fingerprints import fingerprint, is_users
from armrace.kernels.generics import (
    NO_LAYER,
    Scene,
    decide,
    distribution,
    learn,
    spelled,
    value_experts,
)
from armrace.kernels.laws import CHUNK, RewardChunk, make_drawn
from armrace.kernels.live import decide_fitting
from armrace.kernels.pointers import NOWHERE, Attack, Rewards, call_at
from armrace.kernels.streams import Stream


class Ledger(NamedTuple):
    """The environment's own record of a run; policy and adversary never write it."""

    pulls: npt.NDArray[np.int64]
    clean_totals: npt.NDArray[np.float64]
    """What each arm would have paid in all rounds, before corruption."""
    shifts: npt.NDArray[np.float64]
    """Signed sum of the changes to each arm's rewards."""
    arm_corruption: npt.NDArray[np.float64]
    layer_corruption: npt.NDArray[np.float64]
    """Corruption in the rewards that each layer learned from."""
    collected: npt.NDArray[np.float64]
    """Rewards collected, with and without corruption."""
    charged: npt.NDArray[np.float64]
    """What the adversary was charged so far, of which budget."""
    corruption: npt.NDArray[np.float64]
    """Corruption as the paper counts it: the sum over rounds of the largest change."""
    seen: npt.NDArray[np.float64]
    """The sum over rounds of the change of the reward that the learner saw."""
    refused: npt.NDArray[np.int64]
    """Rounds in which a change was not applied: illegal, or beyond the budget."""
    promised: npt.NDArray[np.float64]
    """Sums of each arm's mean rewards, where visitors differ or means move."""
    worth: npt.NDArray[np.float64]
    """The same of the best arm, of the best arm of the leaf, and of the arm that was played."""
    advised: npt.NDArray[np.float64]
    """The same of what each expert of the policy would have played."""


class CheckpointRecord(NamedTuple):
    """The ledger at each checkpoint; a checkpoint is the number of rounds played by then."""

    checkpoints: npt.NDArray[np.int64]
    rows: Ledger
    """The accounts, of which each has a row for each checkpoint."""


def make_ledger(arms: int, layers: int, budget: float, experts: int = 0) -> Ledger:
    """Make an empty ledger."""
    return Ledger(
        pulls=np.zeros(arms, dtype=np.int64),
        clean_totals=np.zeros(arms),
        shifts=np.zeros(arms),
        arm_corruption=np.zeros(arms),
        layer_corruption=np.zeros(layers),
        collected=np.zeros(2),
        charged=np.array([0.0, budget]),
        corruption=np.zeros(1),
        seen=np.zeros(1),
        refused=np.zeros(1, dtype=np.int64),
        promised=np.zeros(arms),
        worth=np.zeros(3),
        advised=np.zeros(experts),
    )


def make_record(
    checkpoints: npt.NDArray[np.int64], arms: int, layers: int, experts: int = 0
) -> CheckpointRecord:
    """Make an empty record with a row for each checkpoint."""
    empty = make_ledger(arms, layers, 0.0, experts)
    rows: Any = (np.zeros((checkpoints.size, each.size), dtype=each.dtype) for each in empty)
    return CheckpointRecord(checkpoints, Ledger(*rows))


@inlined
def is_spent(ledger: Ledger, smallest_cost: float) -> bool:
    """Whether the budget has no room left for a change that costs ``smallest_cost`` or more.

    The answer agrees exactly with :func:`pay`, rounding included, since rounding is monotone: a
    larger cost never gives a smaller rounded sum.
    """
    spent, budget = ledger.charged[0], ledger.charged[1]
    return spent >= budget or spent + smallest_cost > budget


@inlined
def pay(ledger: Ledger, cost: float) -> bool:
    """Charge a cost to the budget; False, and nothing is charged, if the budget has no room."""
    if ledger.charged[0] + cost > ledger.charged[1]:
        ledger.refused[0] += 1
        return False
    ledger.charged[0] += cost
    return True


@inlined
def charge(
    attack: Attack,
    ledger: Ledger,
    clean: npt.NDArray[np.float64],
    proposal: npt.NDArray[np.float64],
) -> None:
    """Charge a change, or undo it if it is not legal or exceeds the remaining budget.

    An attack that sees the arm is charged when the arm is drawn, for that arm alone, and only what
    it then pays for is booked.
    """
    cost, legal = 0.0, True
    for arm in range(clean.size):
        legal &= (proposal[arm] >= attack.low) & (proposal[arm] <= attack.high)
        cost = max(cost, abs(proposal[arm] - clean[arm]))
    if not legal:
        ledger.refused[0] += 1
    if not legal or not (attack.sees_arm or pay(ledger, cost)):
        for arm in range(clean.size):
            proposal[arm] = clean[arm]
    elif not attack.sees_arm:
        book(ledger, clean, proposal)


@inlined
def book(ledger: Ledger, clean: npt.NDArray[np.float64], proposal: npt.NDArray[np.float64]) -> None:
    """Enter the changes of a round, those of all arms, whichever was drawn."""
    largest = 0.0
    for arm in range(clean.size):
        change = proposal[arm] - clean[arm]
        largest = max(largest, abs(change))
        ledger.shifts[arm] += change
        ledger.arm_corruption[arm] += abs(change)
    ledger.corruption[0] += largest


@inlined
def _copy(account: Any, rows: Any, row: int) -> None:
    for place in range(account.size):
        rows[row, place] = account[place]


_copy_all = spelled(
    "def copy_all(ledger, rows, row):\n    {members}",
    "copy(ledger.{name}, rows.{name}, row)",
    "\n    ",
    kind=Ledger,
    copy=_copy,
)


@inlined
def write_row(ledger: Ledger, record: CheckpointRecord, row: int) -> None:
    """Copy the current ledger into a row of the record."""
    _copy_all(ledger, record.rows, row)


STOP, PLAYED = 0, 1
"""Positions in ``Workspace.control``."""


class Workspace(NamedTuple):
    """Scratch space of a run, and its connection to other threads.

    ``control`` holds a flag that asks the run to stop and the number of rounds played so far;
    other threads write the one and read the other.

    ``weights`` is the learner's distribution as the adversary sees it. It becomes ``stale`` once
    some arm has been played as often as ``due`` says, and is then recomputed, but not before the
    round in the last entry of ``due``. With a ``growth`` of 0 all of ``due`` stays 0, so that it
    is computed in every round.

    ``exact`` says whether the policy's tickets carry the probability of their arm.
    """

    drawn: RewardChunk
    clean: npt.NDArray[np.float64]
    proposal: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    control: npt.NDArray[np.int64]
    growth: npt.NDArray[np.float64]
    due: npt.NDArray[np.int64]
    stale: npt.NDArray[np.bool_]
    exact: npt.NDArray[np.bool_]


def make_workspace(
    arms: int,
    control: npt.NDArray[np.int64] | None = None,
    growth: float = 0.0,
    exact: bool = False,
    moving: bool = False,
) -> Workspace:
    """Make scratch space for ``arms`` arms; see :class:`Workspace` on ``growth``."""
    return Workspace(
        drawn=make_drawn(arms, moving),
        clean=np.zeros(arms),
        proposal=np.zeros(arms),
        weights=np.zeros(arms),
        control=np.zeros(2, dtype=np.int64) if control is None else control,
        growth=np.array([growth]),
        due=np.zeros(arms + 1, dtype=np.int64),
        stale=np.ones(1, dtype=np.bool_),
        exact=np.full(1, exact),
    )


@inlined
def play(
    policy: Any,
    attack: Attack,
    rewards: Rewards,
    stream: Stream,
    ledger: Ledger,
    workspace: Workspace,
    first: int,
    last: int,
    trusted: bool,
    crowd: Any = None,
    counts: bool = False,
) -> None:
    """Play the rounds from ``first`` up to, not including, ``last``.

    ``crowd`` says who comes, if visitors differ. ``counts`` says that nothing looks at the
    probabilities of tickets, which are then neither checked nor, in compiled code, computed.

    The two loops below are deliberately not separate functions: each level of functions that
    contains all of a policy's code doubles the time to compile.
    """
    arms, layers = ledger.pulls.size, ledger.layer_corruption.size
    exact = workspace.exact[0] and not counts
    for chunk in range(first // CHUNK, (last + CHUNK - 1) // CHUNK):
        if workspace.control[STOP]:
            return
        start = chunk * CHUNK
        column, end = max(first - start, 0), min(last - start, CHUNK)
        call_at(rewards.fill, rewards.state, (chunk, column, end))
        while column < end and not is_spent(ledger, attack.smallest_cost):
            # The model demands this order: the adversary fixes its answer for every arm before the
            # learner draws one.
            context = _context_at(crowd, workspace, column)
            _corrupt_round(policy, attack, ledger, workspace, start + column, column, crowd)
            ticket = decide_fitting(policy, stream, arms, layers, exact, trusted, context)
            # Unsigned, so that compiled code need not test for negative indices, which count
            # from the end.
            index = np.uint64(ticket.arm)
            clean, reward = workspace.clean[index], workspace.proposal[index]
            change = abs(reward - clean)
            if attack.sees_arm:
                # Only now is the price known: the change of the arm that was drawn.
                if change > 0.0 and not pay(ledger, change):
                    reward, change = clean, 0.0
                else:
                    book(ledger, workspace.clean, workspace.proposal)
            ledger.seen[0] += change
            learn(policy, ticket, reward, context)
            _book_worth(policy, ledger, workspace, column, ticket.arm, crowd)
            if ticket.layer != NO_LAYER:
                ledger.layer_corruption[np.uint64(ticket.layer)] += change
            if attack.observe != NOWHERE:
                call_at(attack.observe, attack.state, (start + column, ticket.arm, reward))
            ledger.pulls[index] += 1
            workspace.stale[0] |= ledger.pulls[index] >= workspace.due[index]
            ledger.collected[0] += reward
            ledger.collected[1] += clean
            column += 1
        # From here on no change can be paid for, so the adversary is not called: its proposals
        # would be rejected and it could affect nothing. The sum is local, so that it stays in a
        # register.
        collected = 0.0
        for quiet in range(column, end):
            context = _context_at(crowd, workspace, quiet)
            ticket = decide_fitting(policy, stream, arms, layers, exact, trusted, context)
            index = np.uint64(ticket.arm)
            reward = workspace.drawn.rewards[index, np.uint64(quiet)]
            learn(policy, ticket, reward, context)
            _book_worth(policy, ledger, workspace, quiet, ticket.arm, crowd)
            ledger.pulls[index] += 1
            collected += reward
        ledger.collected[0] += collected
        ledger.collected[1] += collected
        workspace.control[PLAYED] = start + end


@inlined
def _book_worth(
    policy: Any, ledger: Ledger, workspace: Workspace, column: int, arm: int, crowd: Any
) -> None:
    """Add what the arms were worth in a round, where visitors differ or means move."""
    if crowd is not None:
        visitor = workspace.drawn.visitors[column]
        book_visit(ledger.promised, ledger.worth, crowd, visitor, arm)
        value_experts(policy, crowd.means[visitor], ledger.advised)
    elif workspace.drawn.means.size:
        book_means(ledger.promised, ledger.worth, workspace.drawn.means, column, arm)


@inlined
def _context_at(crowd: Any, workspace: Workspace, column: int) -> Any:
    """The context of a round's visitor; none if visitors are alike."""
    if crowd is None:
        return None
    return context_of(crowd, workspace.drawn.visitors[column])


@inlined
def _scene_at(crowd: Any, workspace: Workspace, column: int) -> Any:
    """What the attack knows about a round's visitor; nothing if visitors are alike."""
    if crowd is None:
        return Scene(workspace.clean, workspace.clean[:0])
    visitor = workspace.drawn.visitors[column]
    return Scene(crowd.means[visitor], crowd.vectors[visitor])


@inlined
def _corrupt_round(
    policy: Any,
    attack: Attack,
    ledger: Ledger,
    workspace: Workspace,
    round: int,
    column: int,
    crowd: Any,
) -> None:
    """Let the adversary change the rewards of a round, and charge the change to its budget.

    The resulting rewards are left in ``workspace.proposal``. A change that leaves the range
    of the rewards or exceeds the remaining budget is not applied at all.
    """
    clean, proposal = workspace.clean, workspace.proposal
    # Rewards lie by arms, so that drawing vectorises; an attack gets those of a round side by side.
    for arm in range(clean.size):
        clean[arm] = workspace.drawn.rewards[arm, column]
        proposal[arm] = clean[arm]
    left = ledger.charged[1] - ledger.charged[0]
    scene = _scene_at(crowd, workspace, column)
    # The state of the attack is asked last: that costs a call.
    if (
        attack.sees_weights
        and workspace.stale[0]
        and round >= workspace.due[clean.size]
        and (
            attack.looks == NOWHERE
            or call_at(
                attack.looks,
                attack.state,
                (round, proposal, left, scene.means, scene.vector),
            )
        )
    ):
        distribution(policy, workspace.weights, _context_at(crowd, workspace, column))
        _postpone_refresh(ledger, workspace, round)
    call_at(
        attack.corrupt,
        attack.state,
        (round, workspace.weights, proposal, left, scene.means, scene.vector),
    )
    changed = False
    for arm in range(clean.size):
        changed |= proposal[arm] != clean[arm]
    if changed:
        charge(attack, ledger, clean, proposal)


@inlined
def _postpone_refresh(ledger: Ledger, workspace: Workspace, round: int) -> None:
    """Determine when the weights are computed again: when plays and rounds have grown enough."""
    growth, arms = workspace.growth[0], ledger.pulls.size
    if growth > 0.0:
        workspace.stale[0] = False
        # Without a condition on the rounds, many arms would defeat the purpose: one play more
        # of an arm that was seldom played is a large share of its plays.
        workspace.due[arms] = round + math.ceil(growth / 3.0 * round)
        for arm in range(arms):
            pulls = ledger.pulls[arm]
            workspace.due[arm] = pulls + max(1, math.ceil(growth * pulls))


@cache
def make_runner(code: str, checked: bool = False, counts: bool = False) -> Callable[..., None]:
    """Make the compiled run for states whose implementations have the fingerprint ``code``.

    See :func:`play` on ``counts``.
    """
    trusted = not is_users(code)

    @entry(f"{code}.counts" if counts else code, checked)
    def compiled_run(
        policy: Any,
        attack: Attack,
        rewards: Rewards,
        stream: Stream,
        ledger: Ledger,
        record: CheckpointRecord,
        workspace: Workspace,
        crowd: Any = None,
    ) -> None:
        """Play to the last checkpoint of ``record``, writing a row at each, until asked to stop."""
        first = 0
        for row in range(record.checkpoints.size):
            last = record.checkpoints[row]
            rounds = (first, last)
            play(
                policy, attack, rewards, stream, ledger, workspace, *rounds, trusted, crowd, counts
            )
            write_row(ledger, record, row)
            first = last

    return compiled_run


@cache
def make_stepper(code: str) -> Callable[..., None]:
    """Make the function that plays a single round, for a policy that is told its arm."""

    @entry(code, holds_lock=True)
    def play_step(
        policy: Any,
        attack: Attack,
        rewards: Rewards,
        stream: Stream,
        ledger: Ledger,
        workspace: Workspace,
        first: int,
        crowd: Any = None,
    ) -> None:
        play(policy, attack, rewards, stream, ledger, workspace, first, first + 1, True, crowd)

    return play_step


@cache
def make_drawer() -> Callable[..., None]:
    """Make the function that draws a chunk of rounds and their visitors before they are played."""

    @entry(fingerprint([]), holds_lock=True)
    def draw_ahead(rewards: Rewards, chunk: int) -> None:
        call_at(rewards.fill, rewards.state, (chunk, 0, 0))

    return draw_ahead


@cache
def make_checked_loop(code: str) -> Callable[..., None]:
    """Make the loop for states whose implementations have the fingerprint ``code``."""

    @entry(code, checked=True)
    def play_checked(
        policy: Any,
        stream: Stream,
        table: npt.NDArray[np.float64],
        pulls: npt.NDArray[np.int64],
        layer_pulls: npt.NDArray[np.int64],
    ) -> None:
        """Play a table of rewards, a round per row, and count the plays of arms and layers."""
        for row in range(table.shape[0]):
            ticket = decide(policy, stream)
            # An unsigned index is never negative, which would count from the end.
            pulls[np.uint64(ticket.arm)] += 1
            if ticket.layer != NO_LAYER:
                layer_pulls[np.uint64(ticket.layer)] += 1
            learn(policy, ticket, table[row, ticket.arm])

    return play_checked
