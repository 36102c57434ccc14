"""The accounts of a run: what was played and collected, and what corruption cost and was spent.

The engine keeps them, round after round; policy and adversary never write them. An adversary cannot
overspend: a change is charged before it takes effect, and is undone if the budget has no room.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.attack_pointers import Attack
from armrace.kernels.compiling import inlined


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


class Record(NamedTuple):
    """The ledger at each checkpoint; a checkpoint is the number of rounds played by then."""

    checkpoints: npt.NDArray[np.int64]
    collected: npt.NDArray[np.float64]
    clean_collected: npt.NDArray[np.float64]
    corruption: npt.NDArray[np.float64]
    pulls: npt.NDArray[np.int64]
    clean_totals: npt.NDArray[np.float64]
    shifts: npt.NDArray[np.float64]
    arm_corruption: npt.NDArray[np.float64]
    layer_corruption: npt.NDArray[np.float64]
    seen: npt.NDArray[np.float64]
    refused: npt.NDArray[np.int64]


def make_ledger(arms: int, layers: int, budget: float) -> Ledger:
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
    )


def make_record(checkpoints: npt.NDArray[np.int64], arms: int, layers: int) -> Record:
    """Make an empty record with a row for each checkpoint."""
    rows = checkpoints.size
    return Record(
        checkpoints=checkpoints,
        collected=np.zeros(rows),
        clean_collected=np.zeros(rows),
        corruption=np.zeros(rows),
        pulls=np.zeros((rows, arms), dtype=np.int64),
        clean_totals=np.zeros((rows, arms)),
        shifts=np.zeros((rows, arms)),
        arm_corruption=np.zeros((rows, arms)),
        layer_corruption=np.zeros((rows, layers)),
        seen=np.zeros(rows),
        refused=np.zeros(rows, dtype=np.int64),
    )


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
        legal &= (proposal[arm] >= 0.0) & (proposal[arm] <= 1.0)
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
def write_row(ledger: Ledger, record: Record, row: int) -> None:
    """Copy the current ledger into a row of the record."""
    record.collected[row] = ledger.collected[0]
    record.clean_collected[row] = ledger.collected[1]
    record.corruption[row] = ledger.corruption[0]
    record.seen[row] = ledger.seen[0]
    record.refused[row] = ledger.refused[0]
    for arm in range(ledger.pulls.size):
        record.pulls[row, arm] = ledger.pulls[arm]
        record.clean_totals[row, arm] = ledger.clean_totals[arm]
        record.shifts[row, arm] = ledger.shifts[arm]
        record.arm_corruption[row, arm] = ledger.arm_corruption[arm]
    for layer in range(ledger.layer_corruption.size):
        record.layer_corruption[row, layer] = ledger.layer_corruption[layer]
