"""Rounds of a race that need not be played one by one.

A layer is *settled* when at most one of its arms is active: nothing that it plays can delete an
arm any more. As slower layers keep what faster ones do, the settled layers are the fastest, and
in a pooled race no unsettled layer looks at their rewards. So while the adversary is silent, a
round that falls on a settled layer changes nothing but counts and sums, and these can be drawn
together: the number of rounds until an unsettled layer is due is geometric, the rounds skipped
are split over the settled layers by binomials, and so are their rewards. What an empty layer
plays may depend on the means of an unsettled one, but does not change between its plays.

Rounds of unsettled layers are played by the race's own functions, only with a reward for the arm
that is played and no other; what the others would have paid is drawn when the ledger is read.
All of this is exact in law. It takes other random numbers than playing round by round does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.attack_pointers import Attack
from armrace.kernels.compiling import entry, inlined
from armrace.kernels.engine import (
    PLAYED,
    STOP,
    Ledger,
    Record,
    Workspace,
    is_spent,
    play,
    write_row,
)
from armrace.kernels.generics import learn, make_ticket
from armrace.kernels.laws import BERNOULLI, CHUNK, DETERMINISTIC, FINITE, Law
from armrace.kernels.reward_pointers import Rewards
from armrace.kernels.streams import Stream
from armrace.kernels.sums import draw_reward, total_of
from armrace.kernels.unowned_arrays import borrow
from armrace.kernels.variates import binomial, geometric
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

__all__ = ["LAWS_THAT_LEAP", "Leap", "make_leap", "make_leaper", "rounds_leapt"]

LAWS_THAT_LEAP = (BERNOULLI, FINITE, DETERMINISTIC)
"""The reward laws whose sums can be drawn without drawing each reward."""

_SETTLED, _SKIPPED, _UNREAD, _LEAPT = range(4)
"""Places in a leap's counts."""


class Leap(NamedTuple):
    """What has been skipped and is yet to be drawn; and where the adversary may act."""

    settled_arm: npt.NDArray[np.int64]
    """What each settled layer plays."""
    learns: npt.NDArray[np.bool_]
    """Whether a settled layer has an arm of its own, and so counts its plays."""
    played: npt.NDArray[np.int64]
    """Plays of each arm since the ledger's totals were brought up to date."""
    earned: npt.NDArray[np.float64]
    """The rewards of these plays."""
    counts: npt.NDArray[np.int64]
    """How many layers are settled; rounds skipped and not yet drawn; rounds since the totals were
    brought up to date; rounds leapt in all."""
    windows: npt.NDArray[np.int64]
    """First round and end of each stretch in which the adversary may act, a row each."""


def make_leap(arms: int, layers: int, windows: npt.NDArray[np.int64]) -> Leap:
    """Nothing skipped yet."""
    return Leap(
        settled_arm=np.zeros(layers, dtype=np.int64),
        learns=np.zeros(layers, dtype=np.bool_),
        played=np.zeros(arms, dtype=np.int64),
        earned=np.zeros(arms),
        counts=np.zeros(4, dtype=np.int64),
        windows=windows,
    )


def rounds_leapt(leap: Leap) -> int:
    """How many rounds were skipped, not played one by one."""
    return int(leap.counts[_LEAPT])


@inlined
def _silent_until(attack: Attack, leap: Leap, ledger: Ledger, position: int, last: int) -> int:
    """Up to which round the adversary surely changes nothing; ``position`` if it may at once."""
    if is_spent(ledger, attack.smallest_cost):
        return last
    for row in range(leap.windows.shape[0]):
        if position < leap.windows[row, 1]:
            return min(max(leap.windows[row, 0], position), last)
    return last


@inlined
def _survey(race: Race, leap: Leap) -> None:
    """Write down which layers are settled, and what they play."""
    fallback = fallback_arm(race)
    layer = 0
    while layer < race.share.size and layer_of(race, layer).active_count <= 1:
        leap.learns[layer] = layer_of(race, layer).active_count == 1
        leap.settled_arm[layer] = layer_of(race, layer).turn if leap.learns[layer] else fallback
        layer += 1
    leap.counts[_SETTLED] = layer


@inlined
def _draw_skipped(race: Race, law: Law, luck: Stream, ledger: Ledger, leap: Leap) -> None:
    """Split the rounds skipped over the settled layers, and draw what they earned."""
    left, settled = leap.counts[_SKIPPED], leap.counts[_SETTLED]
    leap.counts[_SKIPPED] = 0
    share = 1.0 - race.tail[settled]
    for layer in range(settled):
        if left == 0:
            return
        arm = leap.settled_arm[layer]
        is_last = layer == settled - 1
        plays = left if is_last else binomial(luck, left, race.share[layer] / share)
        left -= plays
        share -= race.share[layer]
        total, squares = total_of(law, arm, plays, luck)
        if leap.learns[layer]:
            cell = cell_of(race, layer, arm)
            cell.assigned += plays
            cell.pulls += plays
            cell.sums += total
            if needs_squares(race.rule.kind[0]):
                cell.squares += squares
        _enter(ledger, leap, arm, plays, total)


@inlined
def _enter(ledger: Ledger, leap: Leap, arm: int, plays: int, total: float) -> None:
    """Enter plays of an arm and what they earned; nothing is corrupted here."""
    ledger.pulls[arm] += plays
    ledger.collected[0] += total
    ledger.collected[1] += total
    leap.played[arm] += plays
    leap.earned[arm] += total


@inlined
def _bring_up_to_date(law: Law, luck: Stream, ledger: Ledger, leap: Leap) -> None:
    """Draw what each arm would have paid in the rounds in which it was not played."""
    rounds = leap.counts[_UNREAD]
    leap.counts[_UNREAD] = 0
    for arm in range(leap.played.size):
        missed, _ = total_of(law, arm, rounds - leap.played[arm], luck)
        ledger.clean_totals[arm] += leap.earned[arm] + missed
        leap.played[arm] = 0
        leap.earned[arm] = 0.0


@inlined
def _leap(
    race: Race,
    law: Law,
    stream: Stream,
    luck: Stream,
    ledger: Ledger,
    workspace: Workspace,
    leap: Leap,
    first: int,
    last: int,
) -> None:
    """Get from round ``first`` to ``last``, in none of which the adversary acts."""
    _survey(race, leap)
    position = first
    while position < last and not workspace.control[STOP]:
        unsettled = race.tail[leap.counts[_SETTLED]]
        skipped = geometric(stream, unsettled, last - position)
        leap.counts[_SKIPPED] += skipped
        leap.counts[_LEAPT] += skipped
        race.rounds[0] += skipped
        position += skipped
        if position < last:
            _play_unsettled(race, law, stream, luck, ledger, leap)
            position += 1
        workspace.control[PLAYED] = position
    _draw_skipped(race, law, luck, ledger, leap)
    leap.counts[_UNREAD] = position - first
    _bring_up_to_date(law, luck, ledger, leap)


@inlined
def _play_unsettled(
    race: Race, law: Law, stream: Stream, luck: Stream, ledger: Ledger, leap: Leap
) -> None:
    """Play a round that is known to fall on an unsettled layer."""
    settled, deletions = leap.counts[_SETTLED], race.deletions[0]
    race.rounds[0] += 1
    layer = layer_from(race, settled, stream)
    ticket = make_ticket(next_arm(layer_of(race, layer)), layer, np.nan)
    assign_to_layer(race, layer, ticket.arm)
    reward = draw_reward(law, ticket.arm, luck)
    learn(race, ticket, reward)
    _enter(ledger, leap, ticket.arm, 1, reward)
    if race.deletions[0] != deletions or _fallback_has_moved(race, leap):
        _draw_skipped(race, law, luck, ledger, leap)
        _survey(race, leap)


@inlined
def _fallback_has_moved(race: Race, leap: Leap) -> bool:
    """Whether empty layers now play another arm; they do as the fastest layer with arms says."""
    settled = leap.counts[_SETTLED]
    if settled == 0 or leap.learns[0] or leap.learns[settled - 1]:
        return False
    return fallback_arm(race) != leap.settled_arm[0]


@cache
def make_leaper(code: str, checked: bool = False) -> Callable[..., None]:
    """A compiled run that leaps, for races whose implementations have the fingerprint ``code``."""

    @entry(code, checked)
    def compiled_leaps(
        race: Race,
        attack: Attack,
        rewards: Rewards,
        stream: Stream,
        luck: Stream,
        ledger: Ledger,
        record: Record,
        workspace: Workspace,
        leap: Leap,
        law: Law,
    ) -> None:
        """Leap where the adversary is silent, and play round by round where it may act."""
        race, stream, luck, ledger = borrow(race), borrow(stream), borrow(luck), borrow(ledger)
        record, workspace, leap, law = borrow(record), borrow(workspace), borrow(leap), borrow(law)
        position = 0
        for row in range(record.checkpoints.size):
            last = record.checkpoints[row]
            while position < last and not workspace.control[STOP]:
                silent = _silent_until(attack, leap, ledger, position, last)
                if silent > position:
                    _leap(race, law, stream, luck, ledger, workspace, leap, position, silent)
                    position = silent
                else:
                    # a chunk at a time, so that a budget that has run out is noticed soon
                    end = min(position + CHUNK, last)
                    play(race, attack, rewards, stream, ledger, workspace, position, end)
                    position = end
            write_row(ledger, record, row)

    return compiled_leaps
