"""Spoil everything while the best arm is still tried, then praise another."""

from __future__ import annotations

from typing import ClassVar

from armrace.adversaries.two_phase import BlindTwoPhase, NamedTwoPhase, TwoPhase


class SpoilThenSwap(NamedTwoPhase, frozen=True, tag="spoil-then-swap"):
    """Shows 0 on all arms until half of the budget is spent, then swaps best and second best.

    A learner that trusts counts believes, after the first phase, that no arm ever pays; the few
    rewards of the decoy then decide. It looks at nothing, and ruins Thompson sampling with tens of
    forged rewards.

    >>> import numpy as np
    >>> from armrace.adversaries import Setting
    >>> setting = Setting(np.array([0.9, 0.5, 0.1]), horizon=1000, budget=100)
    >>> SpoilThenSwap().change_rewards(setting, [1, 0, 1])
    [0.0, 0.0, 0.0]
    """

    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "found by ``armrace redteam``"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A member of the searched family, found by the red team and named."
    member: ClassVar[TwoPhase] = BlindTwoPhase(first="spoil", second="swap", split=0.5)
