"""The compiled loop: learner, stochastic rewards, adversary and ledger, round after round.

The ledger itself, and what it charges, is in :mod:`armrace.kernels.ledger`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.attack_pointers import (
    NOWHERE,
    Attack,
    call_corrupt,
    call_looks,
    call_observe,
)
from armrace.kernels.compiling import entry, inlined
from armrace.kernels.fingerprints import is_users
from armrace.kernels.generics import NO_LAYER, distribution, learn
from armrace.kernels.laws import CHUNK, Drawn, make_drawn
from armrace.kernels.ledger import Ledger, Record, book, charge, is_spent, pay, write_row
from armrace.kernels.live import decide_fitting
from armrace.kernels.reward_pointers import Rewards, call_fill
from armrace.kernels.streams import Stream

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

    drawn: Drawn
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
) -> Workspace:
    """Make scratch space for ``arms`` arms; see :class:`Workspace` on ``growth``."""
    return Workspace(
        drawn=make_drawn(arms),
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
) -> None:
    """Play the rounds from ``first`` up to, not including, ``last``.

    The two loops below are deliberately not separate functions: each level of functions that
    contains all of a policy's code doubles the time to compile.
    """
    arms, layers, exact = ledger.pulls.size, ledger.layer_corruption.size, workspace.exact[0]
    for chunk in range(first // CHUNK, (last + CHUNK - 1) // CHUNK):
        if workspace.control[STOP]:
            return
        start = chunk * CHUNK
        column, end = max(first - start, 0), min(last - start, CHUNK)
        call_fill(rewards.fill, rewards.state, chunk, column, end)
        while column < end and not is_spent(ledger, attack.smallest_cost):
            # The model demands this order: the adversary fixes its answer for every arm before the
            # learner draws one.
            _corrupt_round(policy, attack, ledger, workspace, start + column, column)
            ticket = decide_fitting(policy, stream, arms, layers, exact, trusted)
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
            learn(policy, ticket, reward)
            if ticket.layer != NO_LAYER:
                ledger.layer_corruption[np.uint64(ticket.layer)] += change
            if attack.observe != NOWHERE:
                call_observe(attack.observe, attack.state, start + column, ticket.arm, reward)
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
            ticket = decide_fitting(policy, stream, arms, layers, exact, trusted)
            index = np.uint64(ticket.arm)
            reward = workspace.drawn.rewards[index, np.uint64(quiet)]
            learn(policy, ticket, reward)
            ledger.pulls[index] += 1
            collected += reward
        ledger.collected[0] += collected
        ledger.collected[1] += collected
        workspace.control[PLAYED] = start + end


@inlined
def _corrupt_round(
    policy: Any,
    attack: Attack,
    ledger: Ledger,
    workspace: Workspace,
    round: int,
    column: int,
) -> None:
    """Let the adversary change the rewards of a round, and charge the change to its budget.

    The resulting rewards are left in ``workspace.proposal``. A change that leaves [0, 1] or
    exceeds the remaining budget is not applied at all.
    """
    clean, proposal = workspace.clean, workspace.proposal
    # Rewards lie by arms, so that drawing vectorises; an attack gets those of a round side by side.
    for arm in range(clean.size):
        clean[arm] = workspace.drawn.rewards[arm, column]
        proposal[arm] = clean[arm]
    left = ledger.charged[1] - ledger.charged[0]
    # The state of the attack is asked last: that costs a call.
    if (
        attack.sees_weights
        and workspace.stale[0]
        and round >= workspace.due[clean.size]
        and (
            attack.looks == NOWHERE or call_looks(attack.looks, attack.state, round, proposal, left)
        )
    ):
        distribution(policy, workspace.weights)
        _postpone_refresh(ledger, workspace, round)
    call_corrupt(attack.corrupt, attack.state, round, workspace.weights, proposal, left)
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
def make_runner(code: str, checked: bool = False) -> Callable[..., None]:
    """Make the compiled run for states whose implementations have the fingerprint ``code``."""
    trusted = not is_users(code)

    @entry(code, checked)
    def compiled_run(
        policy: Any,
        attack: Attack,
        rewards: Rewards,
        stream: Stream,
        ledger: Ledger,
        record: Record,
        workspace: Workspace,
    ) -> None:
        """Play to the last checkpoint of ``record``, writing a row at each, until asked to stop."""
        first = 0
        for row in range(record.checkpoints.size):
            last = record.checkpoints[row]
            play(policy, attack, rewards, stream, ledger, workspace, first, last, trusted)
            write_row(ledger, record, row)
            first = last

    return compiled_run
