"""Fast-forward: skip rounds of a race that cannot delete an arm, and draw their totals at once.

A layer is *settled* when at most one of its arms is active: none of its plays can delete an arm any
more. Every arm that is active in a layer is active in all slower ones, so the settled layers are
the fastest ones, and in a pooled race no unsettled layer uses their rewards. While the adversary is
silent, a round of a settled layer therefore changes nothing but counts and sums, and these can be
drawn together: the number of rounds until an unsettled layer is drawn is geometric, the skipped
rounds are divided among the settled layers by binomial draws, and so are their rewards. The arm of
an empty layer may depend on the means of an unsettled layer, but does not change between the
latter's plays.

Rounds of unsettled layers are played by the race's own functions, but only the reward of the played
arm is drawn; what the other arms would have paid is drawn when the ledger is read. The results have
exactly the same distribution as round-by-round play, from different random numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry, inlined
from armrace.kernels.engine import (
    PLAYED,
    STOP,
    CheckpointRecord,
    Ledger,
    Workspace,
    is_spent,
    play,
    write_row,
)
from armrace.kernels.generics import learn, make_ticket
from armrace.kernels.laws import BERNOULLI, CHUNK, DETERMINISTIC, FINITE, Law, draw_reward, total_of
from armrace.kernels.pointers import Attack, Rewards
from armrace.kernels.streams import Stream, binomial, geometric
from armrace.policies.races.intervals import needs_squares
from armrace.policies.races.race import (
    Race,
    assign_to_layer,
    cell_of,
    fallback_arm,
    layer_from,
    layer_of,
    next_arm,
)

LAWS_WITH_SUMS = (BERNOULLI, FINITE, DETERMINISTIC)
"""The reward laws whose sums can be drawn without drawing each reward."""

_SETTLED, _SKIPPED, _UNREAD, _ALL_SKIPPED = range(4)
"""Positions in ``FastForward.counts``."""


class FastForward(NamedTuple):
    """Skipped rounds whose outcomes are still to be drawn, and when the adversary may act."""

    settled_arm: npt.NDArray[np.int64]
    """The arm that each settled layer plays."""
    learns: npt.NDArray[np.bool_]
    """Whether a settled layer has an active arm, and so counts its plays."""
    played: npt.NDArray[np.int64]
    """Plays of each arm since the ledger's totals were last updated."""
    earned: npt.NDArray[np.float64]
    """The rewards of these plays."""
    counts: npt.NDArray[np.int64]
    """The number of settled layers, of skipped rounds not yet drawn, of rounds since the ledger's
    totals were last updated, and of all rounds skipped so far."""
    windows: npt.NDArray[np.int64]
    """One row for each interval of rounds in which the adversary may act: first round and end."""


def make_fast_forward(arms: int, layers: int, windows: npt.NDArray[np.int64]) -> FastForward:
    """Make a :class:`FastForward` with no rounds skipped."""
    return FastForward(
        settled_arm=np.zeros(layers, dtype=np.int64),
        learns=np.zeros(layers, dtype=np.bool_),
        played=np.zeros(arms, dtype=np.int64),
        earned=np.zeros(arms),
        counts=np.zeros(4, dtype=np.int64),
        windows=windows,
    )


def rounds_skipped(skipping: FastForward) -> int:
    """Return how many rounds were skipped instead of played one by one."""
    return int(skipping.counts[_ALL_SKIPPED])


@inlined
def _silent_until(
    attack: Attack, skipping: FastForward, ledger: Ledger, position: int, last: int
) -> int:
    """Return the round before which the adversary changes nothing; ``position`` if it may now."""
    if is_spent(ledger, attack.smallest_cost):
        return last
    for row in range(skipping.windows.shape[0]):
        if position < skipping.windows[row, 1]:
            return min(max(skipping.windows[row, 0], position), last)
    return last


@inlined
def _survey(race: Race, skipping: FastForward) -> None:
    """Find the settled layers and the arms that they play."""
    fallback = fallback_arm(race)
    layer = 0
    while layer < race.share.size and layer_of(race, layer).active_count <= 1:
        skipping.learns[layer] = layer_of(race, layer).active_count == 1
        skipping.settled_arm[layer] = (
            layer_of(race, layer).turn if skipping.learns[layer] else fallback
        )
        layer += 1
    skipping.counts[_SETTLED] = layer


@inlined
def _draw_skipped(
    race: Race, law: Law, reward_stream: Stream, ledger: Ledger, skipping: FastForward
) -> None:
    """Divide the skipped rounds among the settled layers, and draw their rewards."""
    left, settled = skipping.counts[_SKIPPED], skipping.counts[_SETTLED]
    skipping.counts[_SKIPPED] = 0
    # A multinomial as a chain of binomials: each layer gets its share of the rounds that the
    # layers before it have left.
    share = 1.0 - race.tail[settled]
    for layer in range(settled):
        if left == 0:
            return
        arm = skipping.settled_arm[layer]
        # The last share divided by what is left is 1 only up to rounding; no round may be lost.
        is_last = layer == settled - 1
        plays = left if is_last else binomial(reward_stream, left, race.share[layer] / share)
        left -= plays
        share -= race.share[layer]
        total, squares = total_of(law, arm, plays, reward_stream)
        if skipping.learns[layer]:
            cell = cell_of(race, layer, arm)
            cell.assigned += plays
            cell.pulls += plays
            cell.sums += total
            if needs_squares(race.rule.kind[0]):
                cell.squares += squares
        _enter(ledger, skipping, arm, plays, total)


@inlined
def _enter(ledger: Ledger, skipping: FastForward, arm: int, plays: int, total: float) -> None:
    """Enter plays of an arm and their rewards into the ledger."""
    ledger.pulls[arm] += plays
    # The adversary is silent in these rounds, so both sums, with and without corruption, grow.
    ledger.collected[0] += total
    ledger.collected[1] += total
    skipping.played[arm] += plays
    skipping.earned[arm] += total


@inlined
def _bring_up_to_date(
    law: Law, reward_stream: Stream, ledger: Ledger, skipping: FastForward
) -> None:
    """Draw what each arm would have paid in the rounds in which it was not played.

    Rewards are independent, so they may be drawn afterwards: nothing depends on them earlier.
    """
    rounds = skipping.counts[_UNREAD]
    skipping.counts[_UNREAD] = 0
    for arm in range(skipping.played.size):
        missed, _ = total_of(law, arm, rounds - skipping.played[arm], reward_stream)
        ledger.clean_totals[arm] += skipping.earned[arm] + missed
        skipping.played[arm] = 0
        skipping.earned[arm] = 0.0


@inlined
def _skip_settled(
    race: Race,
    law: Law,
    stream: Stream,
    reward_stream: Stream,
    ledger: Ledger,
    workspace: Workspace,
    skipping: FastForward,
    first: int,
    last: int,
) -> None:
    """Play from round ``first`` to ``last``, given that the adversary does not act in between."""
    _survey(race, skipping)
    position = first
    while position < last and not workspace.control[STOP]:
        # Layers are drawn independently, so the rounds until one falls on an unsettled layer are
        # geometric. In between only settled layers play, each an arm that is known beforehand.
        unsettled = race.tail[skipping.counts[_SETTLED]]
        skipped = geometric(stream, unsettled, last - position)
        skipping.counts[_SKIPPED] += skipped
        skipping.counts[_ALL_SKIPPED] += skipped
        race.rounds[0] += skipped
        position += skipped
        if position < last:
            _play_unsettled(race, law, stream, reward_stream, ledger, skipping)
            position += 1
        workspace.control[PLAYED] = position
    _draw_skipped(race, law, reward_stream, ledger, skipping)
    # Not ``last``: the run may have been asked to stop on the way.
    skipping.counts[_UNREAD] = position - first
    _bring_up_to_date(law, reward_stream, ledger, skipping)


@inlined
def _play_unsettled(
    race: Race,
    law: Law,
    stream: Stream,
    reward_stream: Stream,
    ledger: Ledger,
    skipping: FastForward,
) -> None:
    """Play a round that is known to fall on an unsettled layer."""
    settled, deletions = skipping.counts[_SETTLED], race.deletions[0]
    race.rounds[0] += 1
    layer = layer_from(race, settled, stream)
    # A race learns without the probability of its arm, so that it need not be computed here.
    ticket = make_ticket(next_arm(layer_of(race, layer)), layer, np.nan)
    assign_to_layer(race, layer, ticket.arm)
    reward = draw_reward(law, ticket.arm, reward_stream)
    learn(race, ticket, reward)
    _enter(ledger, skipping, ticket.arm, 1, reward)
    if race.deletions[0] != deletions or _fallback_has_moved(race, skipping):
        # The rounds skipped so far belong to the arms that settled layers played until now, so
        # they are drawn before the arms are determined again.
        _draw_skipped(race, law, reward_stream, ledger, skipping)
        _survey(race, skipping)


@inlined
def _fallback_has_moved(race: Race, skipping: FastForward) -> bool:
    """Whether empty layers now play another arm.

    They play the best mean of the fastest non-empty layer. If that is a settled layer, its only
    active arm is the best and cannot change.
    """
    settled = skipping.counts[_SETTLED]
    # If the fastest layer has an arm, all have one, and no layer is empty.
    if settled == 0 or skipping.learns[0] or skipping.learns[settled - 1]:
        return False
    return fallback_arm(race) != skipping.settled_arm[0]


@cache
def make_fast_forwarder(code: str, checked: bool = False) -> Callable[..., None]:
    """Make the compiled run that skips rounds, for races whose code has this fingerprint."""

    @entry(code, checked)
    def compiled_fast_forward(
        race: Race,
        attack: Attack,
        rewards: Rewards,
        stream: Stream,
        reward_stream: Stream,
        ledger: Ledger,
        record: CheckpointRecord,
        workspace: Workspace,
        skipping: FastForward,
        law: Law,
    ) -> None:
        """Skip rounds where the adversary is silent, and play round by round where it may act."""
        position = 0
        for row in range(record.checkpoints.size):
            last = record.checkpoints[row]
            while position < last and not workspace.control[STOP]:
                silent = _silent_until(attack, skipping, ledger, position, last)
                if silent > position:
                    _skip_settled(
                        race,
                        law,
                        stream,
                        reward_stream,
                        ledger,
                        workspace,
                        skipping,
                        position,
                        silent,
                    )
                    position = silent
                else:
                    # One chunk at a time, so that skipping resumes soon after the budget is spent.
                    end = min(position + CHUNK, last)
                    play(race, attack, rewards, stream, ledger, workspace, position, end, True)
                    position = end
            write_row(ledger, record, row)

    return compiled_fast_forward
