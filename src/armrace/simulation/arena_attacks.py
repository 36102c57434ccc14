"""The attacks of the arena by name, which searches begin with too."""

from __future__ import annotations

from collections.abc import Callable

from armrace.adversaries import (
    ADVERSARIES,
    Adversary,
    ObservationFree,
    Outage,
    ZeroBestWhenLikely,
)

_FIXED = (
    "zero-best",
    "zero-best-when-likely",
    "swap-best",
    "aae-opening",
    "adaptive-constant",
    "sleeper-bots",
    "random-flips",
    "click-bots",
    "double-impact",
    "free-ride",
    "spoil-then-swap",
)
"""Attacks with their default parameters."""

_MADE: dict[str, Callable[[float], Adversary]] = {
    "zero-best-when-very-likely": lambda budget: ZeroBestWhenLikely(likely=0.9),
    # Published lengths are 34 rounds that spoil and 66 that praise; here they use up the budget.
    "observation-free": lambda budget: ObservationFree(
        spoil=round(budget / 3), praise=round(budget) - round(budget / 3)
    ),
    "outage": lambda budget: Outage(first=0, length=max(1, round(budget))),
}
"""Attacks whose parameters are not the defaults, or depend on the budget."""

ATTACKS = (*_FIXED, *_MADE)


def make_arena_attack(name: str, budget: float) -> Adversary:
    """Return the attack that has this name in the arena, at this budget."""
    return _MADE[name](budget) if name in _MADE else ADVERSARIES.make(name)
