"""The compiled loop of replay: a policy meets the rows of a log that it has not made.

For each row the policy draws an arm. If that is the arm of the row, and a coin of probability
``floor / propensity`` shows heads, the row is *accepted*: it becomes the next round of the run, and
the policy learns its reward. Otherwise the row is skipped: the policy has drawn, but nothing is
assigned, so that its state does not change. A row is accepted with probability ``floor`` whatever
the policy does, so the accepted rows are distributed like rounds that the policy plays live.

The state, and with it the distribution of the next arm, stays the same from one accepted row to the
next. All rows in between are samples from the logging system for this one distribution, and
importance weights ``distribution / propensity`` use them all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry, inlined
from armrace.kernels.engine import Ledger, charge, is_spent
from armrace.kernels.fingerprints import is_users
from armrace.kernels.generics import (
    Context,
    assign,
    choose,
    distribution,
    learn,
    make_ticket,
)
from armrace.kernels.live import fitting
from armrace.kernels.pointers import NOWHERE, Attack, call_at
from armrace.kernels.streams import Stream, uniform

ROWS, MATCHED, ACCEPTED, MOMENT = range(4)
"""Positions in ``ReplayTally.counts``."""

REPLAYED, WEIGHTED, DOUBLY, GAIN = range(4)
"""Rows of ``ReplayTally.sums``: rewards of accepted rows; and for all rows the weighted reward, the
doubly robust term, and the latter minus the logged reward."""

TOTAL, SQUARES, TERMS = range(3)
"""Columns of ``ReplayTally.sums``: sum, squared distances from the mean so far, number of terms."""

WEIGHT, WEIGHT_SQUARE, PAID_SQUARE, SEEN, LOGGED = range(5)
"""Positions in ``ReplayTally.moments``: sums of weights, of their squares, of squared weighted
rewards, of rewards as the policy saw them, and of logged rewards."""

LEAF_ROWS, LEAF_PAID, LEAF_WEIGHT, LEAF_WEIGHT_SQUARE = range(4)
"""Columns of ``ReplayTally.leaves``: rows, their rewards, sums of weights and of their squares."""

CURVE = 100
"""Moments at which the run is recorded."""


class ReplayTally(NamedTuple):
    """What is counted along a run."""

    counts: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    moments: npt.NDArray[np.float64]
    blocks: npt.NDArray[np.float64]
    """For each block of rows the sums of the weights and of the weighted rewards."""
    curve: npt.NDArray[np.float64]
    """At each moment: rows, accepted rows, sum of their rewards, sum of doubly robust terms."""
    pulls: npt.NDArray[np.int64]
    """Accepted rows of each arm."""
    logged: npt.NDArray[np.int64]
    """Rows of each arm so far, accepted or not."""
    paid: npt.NDArray[np.float64]
    """The sum of their rewards."""
    latest: npt.NDArray[np.float64]
    """The reward of each arm's latest row: what an attack sees of arms that a row does not show."""
    estimates: npt.NDArray[np.float64]
    """The mean of each arm as earlier rows show it, for doubly robust estimates."""
    weights: npt.NDArray[np.float64]
    """The policy's distribution."""
    clean: npt.NDArray[np.float64]
    proposal: npt.NDArray[np.float64]
    cached: npt.NDArray[np.float64]
    """The estimated mean of the current distribution; and 1 if the distribution is outdated."""
    leaves: npt.NDArray[np.float64]
    """What is counted in each leaf."""
    leaf_pulls: npt.NDArray[np.int64]
    """Accepted rows of each arm in each leaf."""


class RowContexts(NamedTuple):
    """The visitors of some rows."""

    vectors: npt.NDArray[np.float64]
    leaves: npt.NDArray[np.int64]
    predictions: npt.NDArray[np.float64]
    """What earlier rows say about the reward of every arm for the visitor."""


def make_tally(arms: int, blocks: int, leaves: int = 0) -> ReplayTally:
    """Make a tally before the first row."""
    return ReplayTally(
        counts=np.zeros(4, dtype=np.int64),
        sums=np.zeros((4, 3)),
        moments=np.zeros(5),
        blocks=np.zeros((blocks, 2)),
        curve=np.zeros((CURVE, 4)),
        pulls=np.zeros(arms, dtype=np.int64),
        logged=np.zeros(arms, dtype=np.int64),
        paid=np.zeros(arms),
        latest=np.zeros(arms),
        estimates=np.zeros(arms),
        weights=np.zeros(arms),
        clean=np.zeros(arms),
        proposal=np.zeros(arms),
        cached=np.array([0.0, 1.0]),
        leaves=np.zeros((leaves, 4)),
        leaf_pulls=np.zeros((leaves, arms), dtype=np.int64),
    )


@inlined
def _add(
    sums: npt.NDArray[np.float64], sequence: int, value: float, start: float, least: float
) -> None:
    """Add a term; its distance is taken from the mean of the terms before it and of ``start``.

    That mean is kept within [least, 1], where the expectation of a term is.
    """
    centre = (sums[sequence, TOTAL] + start) / (sums[sequence, TERMS] + 1.0)
    centre = min(max(centre, least), 1.0)
    sums[sequence, TOTAL] += value
    sums[sequence, SQUARES] += (value - centre) ** 2
    sums[sequence, TERMS] += 1.0


@inlined
def usual_reward(total: float, rows: float) -> float:
    """The mean reward of some rows and one more that paid a half: what one of an arm would pay."""
    return (total + 0.5) / (rows + 1.0)


@inlined
def _estimate(tally: ReplayTally) -> None:
    """Estimate every arm's mean from the rows so far, and the mean of the distribution.

    An arm counts as if it had one more row, which paid the mean of all rows so far.
    """
    usual = usual_reward(tally.moments[LOGGED], tally.counts[ROWS])
    mean = 0.0
    for arm in range(tally.weights.size):
        tally.estimates[arm] = (tally.paid[arm] + usual) / (tally.logged[arm] + 1.0)
        mean += tally.weights[arm] * tally.estimates[arm]
    tally.cached[0] = mean


@inlined
def _predict(tally: ReplayTally, predictions: npt.NDArray[np.float64]) -> None:
    """Take the rewards that are predicted for a visitor, and the mean of the distribution."""
    mean = 0.0
    for arm in range(tally.weights.size):
        tally.estimates[arm] = predictions[arm]
        mean += tally.weights[arm] * predictions[arm]
    tally.cached[0] = mean


@inlined
def _weigh(tally: ReplayTally, arm: int, reward: float, propensity: float, block: int) -> None:
    """Add a row to the estimates that weigh all rows."""
    weight = tally.weights[arm] / propensity
    sums, moments = tally.sums, tally.moments
    _add(sums, WEIGHTED, weight * reward, 0.0, 0.0)
    doubly = tally.cached[0] + weight * (reward - tally.estimates[arm])
    _add(sums, DOUBLY, doubly, 0.5, 0.0)
    _add(sums, GAIN, doubly - reward, 0.0, -1.0)
    moments[WEIGHT] += weight
    moments[WEIGHT_SQUARE] += weight * weight
    moments[PAID_SQUARE] += (weight * reward) ** 2
    tally.blocks[block, 0] += weight
    tally.blocks[block, 1] += weight * reward


@inlined
def _note(tally: ReplayTally, arm: int, reward: float) -> None:
    """Add a row to the tally; call it last, as no estimate of a row may use its own reward."""
    tally.counts[ROWS] += 1
    tally.moments[LOGGED] += reward
    tally.logged[arm] += 1
    tally.paid[arm] += reward
    tally.latest[arm] = reward
    before = tally.estimates[arm]
    # The share of the mean of all rows stays what it was when the estimates were made.
    tally.estimates[arm] = before + (reward - before) / (tally.logged[arm] + 1.0)
    # The mean of the estimates under the weights, updated by the one term that has changed.
    tally.cached[0] += tally.weights[arm] * (tally.estimates[arm] - before)


@inlined
def _context_of(contexts: Any, row: int) -> Any:
    """The context of a row; nothing if visitors are not told apart."""
    if contexts is None:
        return None
    return Context(contexts.vectors[row], contexts.leaves[row])


@inlined
def _note_leaf(
    tally: ReplayTally, leaf: int, arm: int, reward: float, weight: float, accepted: bool
) -> None:
    """Add a row to what is known of its leaf."""
    sums = tally.leaves[leaf]
    sums[LEAF_ROWS] += 1.0
    sums[LEAF_PAID] += reward
    sums[LEAF_WEIGHT] += weight
    sums[LEAF_WEIGHT_SQUARE] += weight * weight
    tally.leaf_pulls[leaf, arm] += accepted


@inlined
def _corrupted(
    attack: Attack,
    ledger: Ledger,
    tally: ReplayTally,
    arm: int,
    reward: float,
    round: int,
    expected: npt.NDArray[np.float64],
    vector: npt.NDArray[np.float64],
) -> float:
    """Let the attack change the rewards of an accepted row; return what the policy sees."""
    clean, proposal = tally.clean, tally.proposal
    # A log has one arm's reward per row, but the attack must see all: each arm's latest stands in.
    for other in range(clean.size):
        clean[other] = tally.latest[other]
    clean[arm] = reward
    for other in range(clean.size):
        proposal[other] = clean[other]
    left = ledger.charged[1] - ledger.charged[0]
    call_at(attack.corrupt, attack.state, (round, tally.weights, proposal, left, expected, vector))
    changed = False
    for other in range(clean.size):
        changed |= proposal[other] != clean[other]
    if changed:
        charge(attack, ledger, clean, proposal)
    return proposal[arm]


@inlined
def _record_curve_point(tally: ReplayTally) -> None:
    """Record the run at this moment."""
    moment = tally.counts[MOMENT]
    tally.curve[moment, 0] = tally.counts[ROWS]
    tally.curve[moment, 1] = tally.counts[ACCEPTED]
    tally.curve[moment, 2] = tally.sums[REPLAYED, TOTAL]
    tally.curve[moment, 3] = tally.sums[DOUBLY, TOTAL]
    tally.counts[MOMENT] = moment + 1


def read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that cannot be written: other arrays are compiled for once more.

    Some columns of a data frame come as arrays that can be written, and others do not.
    """
    view = array.view()
    view.flags.writeable = False
    return view


@cache
def make_replayer(code: str) -> Callable[..., None]:
    """Make the compiled loop for states whose implementations have the fingerprint ``code``."""
    trusted = not is_users(code)

    @entry(code)
    def replay_rows(
        policy: Any,
        attack: Attack,
        stream: Stream,
        coins: Stream,
        ledger: Ledger,
        tally: ReplayTally,
        arms: npt.NDArray[np.int64],
        rewards: npt.NDArray[np.float64],
        propensities: npt.NDArray[np.float64],
        blocks: npt.NDArray[np.int64],
        floor: float,
        total: int,
        weighs: bool,
        contexts: Any,
        varies: bool,
    ) -> None:
        """Replay a batch of rows; ``varies`` if distributions depend on the visitor."""
        looks, layers = weighs or attack.sees_weights, ledger.layer_corruption.size
        for row in range(arms.size):
            arm, reward, propensity = arms[row], rewards[row], propensities[row]
            context = _context_of(contexts, row)
            if looks and (varies or tally.cached[1] != 0.0):
                distribution(policy, tally.weights, context)
                tally.cached[1] = 0.0
                if contexts is None:
                    _estimate(tally)
            expected, vector = tally.clean[:0], tally.clean[:0]
            if contexts is not None:
                expected, vector = contexts.predictions[row], contexts.vectors[row]
                _predict(tally, expected)
            if weighs:
                _weigh(tally, arm, reward, max(propensity, floor), blocks[row])
            accepted = tally.counts[ACCEPTED]
            ticket = choose(policy, stream, None, context)
            if not trusted:
                fitting(ticket, tally.weights.size, layers, False)
            if ticket.arm == arm:
                tally.counts[MATCHED] += 1
                if propensity <= floor or uniform(coins) * propensity < floor:
                    number = tally.counts[ACCEPTED]
                    shown = reward
                    if not is_spent(ledger, attack.smallest_cost):
                        shown = _corrupted(
                            attack, ledger, tally, arm, reward, number, expected, vector
                        )
                    learn(policy, assign(policy, ticket, context), shown, context)
                    if attack.observe != NOWHERE:
                        call_at(attack.observe, attack.state, (number, arm, shown))
                    ledger.seen[0] += abs(shown - reward)
                    tally.moments[SEEN] += shown
                    tally.pulls[arm] += 1
                    _add(tally.sums, REPLAYED, reward, 0.5, 0.0)
                    tally.counts[ACCEPTED] = number + 1
                    tally.cached[1] = 1.0
            if contexts is not None:
                weight = tally.weights[arm] / max(propensity, floor)
                taken = tally.counts[ACCEPTED] > accepted
                _note_leaf(tally, contexts.leaves[row], arm, reward, weight, taken)
            _note(tally, arm, reward)
            while tally.counts[ROWS] * CURVE >= (tally.counts[MOMENT] + 1) * total:
                _record_curve_point(tally)

    return replay_rows


@cache
def make_auditor(code: str) -> Callable[..., None]:
    """Make the compiled loop in which a state learns from all rows of a log, as they are."""

    @entry(code)
    def show_rows(
        state: Any,
        arms: npt.NDArray[np.int64],
        rewards: npt.NDArray[np.float64],
    ) -> None:
        for row in range(arms.size):
            learn(state, assign(state, make_ticket(arms[row])), rewards[row])

    return show_rows
