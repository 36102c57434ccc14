"""Conversion of what is known about forged feedback into a share of all rounds.

C is the sum over the rounds of the largest change to any arm's reward, and a change is at most 1.
So if the feedback of a share ``s`` of the ``T`` rounds is forged, C is at most ``s T``. Often
another share is known:

- of the *clicks*, a share ``f`` is forged. Of ``T`` rounds on the best arm, whose click rate is
  ``m``, about ``m T`` bring a click, so ``f m T`` clicks are forged and ``s = f m``. That counts
  clicks, and C counts visits: it is a lower bound on C unless every forged click is the bot's only
  visit. A bot that waits for one item spends a unit of C on every visit, whether it clicks or not.
- of the *visitors*, a share ``b`` are bots. Each visit is a round, and a bot decides what the
  feedback of its round is, whether it clicks or not: ``s = b``.
"""

from __future__ import annotations

from armrace.errors import InvalidParameter
from armrace.specification import Limits, check_number

__all__ = ["COUNTED_CLICKS", "USUAL_FORGED", "forged_share"]

COUNTED_CLICKS = (
    "This C counts forged clicks: it is a lower bound unless every forged click is the bot's only "
    "visit. If bots wait for one item, use --bot-visitors."
)
"""What a plan says beside a C that was worked out from a share of the clicks."""

USUAL_FORGED = 0.01
"""The share of the rounds that is suspected if nothing is said."""

_SHARE = Limits("a share", 0, 1)


def forged_share(
    best_mean: float,
    forged: float | None = None,
    forged_clicks: float | None = None,
    bot_visitors: float | None = None,
) -> float:
    """The share of all rounds that is forged, from whichever one of the shares is given.

    Args:
        best_mean: the click rate of the best arm.
        forged: the share of all rounds.
        forged_clicks: the share of the clicks, if every forged click is the bot's only visit.
        bot_visitors: the share of the visitors that are bots.

    >>> forged_share(0.06, forged_clicks=0.1), forged_share(0.06, bot_visitors=0.1)
    (0.006, 0.1)
    """
    shares = {"forged": forged, "forged_clicks": forged_clicks, "bot_visitors": bot_visitors}
    given = {name: share for name, share in shares.items() if share is not None}
    if len(given) > 1:
        raise InvalidParameter(
            f"forged, forged_clicks and bot_visitors say the same thing in different ways; give "
            f"one of them, not {' and '.join(given)}."
        )
    for name, share in given.items():
        check_number(name, share, _SHARE)
    if forged_clicks is not None:
        return forged_clicks * best_mean
    return next(iter(given.values()), USUAL_FORGED)
