"""How long it takes until a tolerant layer of a race has deleted an arm, in moves and in rounds.

Active arms are played in turn. Until an arm with ``N(a)`` plays is deleted, a best arm has at most
``N(a)`` plays in the layer and every other arm ``b`` at most ``min(N(a), N(b))``, so that the layer
has made ``M = N(a) + sum over b of min(N(a), N(b))`` moves. The number of moves in ``R`` rounds is
binomial with the mean ``R p``, and below ``R p - s`` with probability at most ``exp(-s^2 / 2Rp)``
(Chernoff), so ``R p = M + h + sqrt(h^2 + 2 M h)`` gives ``M`` moves, except with the probability
``exp(-h)``. The paper waits for each move separately, ``ln(1/failure)(1 - p)/p`` rounds where its
argument needs ``ln(1/failure)/p``, which costs another logarithm on ``C``; counting the moves
together does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.theory.arguments import check_at_least, check_open_unit, check_share


def moves_until_deleted(plays: Sequence[float]) -> list[float]:
    """The number of moves by which a tolerant layer has deleted each arm.

    ``plays`` are the limits ``N(a)`` on the turns of every arm except one best arm. While arm
    ``a`` is active, no active arm is more than a turn ahead of it, so a best arm has at most
    ``N(a)`` turns and arm ``b`` at most ``min(N(a), N(b))``.

    Args:
        plays: for each arm except one best arm, the most turns before it is deleted.

    >>> moves_until_deleted([10, 40]), moves_until_deleted([7])
    ([30, 90], [14])
    """
    return [own + sum(min(own, other) for other in plays) for own in plays]


def rounds_until_moves(moves: float, share: float, failure: float) -> float:
    """Return after how many rounds a layer has made ``moves`` moves, except with ``failure``.

    That is ``(M + h + sqrt(h^2 + 2 M h)) / p`` with ``h = ln(1/failure)``, rounded up.

    Args:
        moves: the number of moves.
        share: the share of the rounds that the layer gets.
        failure: the probability with which it may take longer.

    >>> rounds_until_moves(1000, 0.25, 0.1), rounds_until_moves(10, 1, 0.1)
    (4281, 10)
    """
    if moves != math.inf:  # an arm of no gap is never deleted
        check_at_least("moves", moves, 0)
    check_share("share", share)
    check_open_unit("failure", failure)
    if share == 1 or moves == math.inf:
        return moves
    log_term = math.log(1 / failure)
    mean = moves + log_term + math.sqrt(log_term**2 + 2 * moves * log_term)
    return math.ceil(mean / share)
