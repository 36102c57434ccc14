"""The draw of an arm: the policy's choice, mixed with the floors.

An arm with the floor ``f`` is chosen with probability ``f + (1 - F) w``, where ``F`` is the sum of
the floors and ``w`` the policy's own probability. That is what is published. Of decisions that a
floor made, the policy learns nothing: it sees its own draws, a share ``1 - F`` of the traffic, with
the probabilities under which it drew them, and its guarantee covers those.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from armrace.kernels.generics import Ticket
from armrace.service.model.generation import Generation
from armrace.service.model.totals import write_shares

__all__ = ["Drawn", "draw"]

_MOST_SHARES = 256
"""With more arms than this, events do not carry the probability of every arm."""


class Drawn(NamedTuple):
    """An arm that was drawn, and all that its event must carry."""

    arm: int
    ticket: Ticket | None
    taken: int
    probability: float | None
    shares: bytes


def draw(
    generation: Generation,
    floors: dict[int, float],
    eligible: list[int] | None,
    arms: int,
    lot: float,
) -> Drawn:
    """Draw an arm and change nothing but the learner's random stream.

    Args:
        generation: the learner that chooses.
        floors: the floors of the arms that may be chosen, by place.
        eligible: the places of the arms that may be chosen; ``None`` for all of the learner's.
        arms: the number of arms that the experiment has.
        lot: a number in [0, 1) that decides whether a floor chooses the arm.

    Returns:
        The arm, with its probability.
    """
    place = _drawn_by_floor(floors, lot) if floors else None
    shares, known = b"", None
    # Only of unrestricted draws: the ratio check compares with the probabilities of all arms.
    if eligible is None and (floors or generation.learner.policy.exact_tickets):
        weights = _weights(generation, floors, arms)
        known = None if place is None else float(weights[place])
        shares = b"" if arms > _MOST_SHARES else write_shares(weights)
    if place is not None:
        return Drawn(place, None, 0, known, shares)
    ticket, taken = generation.choose(eligible)
    place = generation.places[ticket.arm]
    return Drawn(place, ticket, taken, _published(ticket, floors, place), shares)


def _weights(
    generation: Generation, floors: dict[int, float], arms: int
) -> Sequence[float] | np.ndarray:
    """Return the probability of every arm of the experiment, floors included."""
    own = generation.learner.weights()
    if not floors and len(own) == arms:  # the learner's arms are all of the experiment's
        return own
    rest = 1.0 - math.fsum(floors.values())
    by_place = dict(zip(generation.places, own.tolist(), strict=True))
    return [floors.get(place, 0.0) + rest * by_place.get(place, 0.0) for place in range(arms)]


def _drawn_by_floor(floors: dict[int, float], lot: float) -> int | None:
    # The floors divide [0, 1) from 0 on; a lot beyond all of them is left to the policy.
    for place, floor in floors.items():
        if lot < floor:
            return place
        lot -= floor
    return None


def _published(ticket: Ticket, floors: dict[int, float], place: int) -> float | None:
    """Return the probability of an arm that the policy chose; ``None`` where it is unknown."""
    if math.isnan(ticket.probability):
        return None
    if not floors:
        return min(ticket.probability, 1.0)
    own = (1.0 - math.fsum(floors.values())) * ticket.probability
    return min(floors.get(place, 0.0) + own, 1.0)


def lot_of(seed: int, number: int) -> float:
    """Return a number in [0, 1) for a decision, which depends on nothing but its number.

    Args:
        seed: the seed of the experiment.
        number: the sequence number of the decision.

    >>> f"{lot_of(seed=1, number=0):.6f}"
    '0.480554'
    """
    digest = hashlib.blake2b(b"%d:%d" % (seed, number), digest_size=8).digest()
    # 53 of 64 bits: as many as a double in [0, 1) can hold evenly.
    return (int.from_bytes(digest, "little") >> 11) / 2**53
