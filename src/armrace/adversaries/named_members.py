"""Attacks of the family that the red team searches, found by it and given names of their own."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.adversaries.two_phase import BlindTwoPhase, NamedTwoPhase, TwoPhase
from armrace.limits import Limits


class DoubleImpact(NamedTwoPhase, frozen=True, tag="double-impact"):
    """Shows 0 on the best arm and 1 on the second best, when both are changes of 1/2 or more.

    A round costs its largest change, so two changes cost as much as one. It looks at the round's
    rewards, not at the learner.

    >>> import numpy as np
    >>> from armrace.adversaries import Setting
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [DoubleImpact().change_rewards(setting, paid) for paid in ([1, 0], [1, 1], [0, 0])]
    [[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]]
    """

    member: ClassVar[TwoPhase] = BlindTwoPhase(first="double-impact")


class FreeRide(NamedTwoPhase, frozen=True, tag="free-ride"):
    """Shows 0 on the best arm and 1 on all others.

    A round costs its largest change, so that with many arms the changes of most are free. It looks
    at nothing.

    >>> import numpy as np
    >>> from armrace.adversaries import Setting
    >>> setting = Setting(np.array([0.9, 0.5, 0.1]), horizon=1000, budget=100)
    >>> FreeRide().change_rewards(setting, [1, 0, 0])
    [0.0, 1.0, 1.0]
    """

    member: ClassVar[TwoPhase] = BlindTwoPhase(first="free-ride")


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

    member: ClassVar[TwoPhase] = BlindTwoPhase(first="spoil", second="swap", split=0.5)


class Strip(NamedTwoPhase, frozen=True, tag="strip"):
    """Shows 0 on the best arm and 1 on all others, in rounds in which the best arm would pay.

    It acts only while that arm has a probability of at least ``edge``. Where rewards are rare,
    ``free-ride`` spends most of its budget on rounds in which the best arm pays nothing anyway.

    >>> import numpy as np
    >>> from armrace.adversaries import Setting
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [Strip(edge=0.5).change_rewards(setting, paid) for paid in ([1, 0], [0, 0])]
    [[0.0, 1.0], [0.0, 0.0]]
    >>> Strip(edge=0.5).change_rewards(setting, [1, 0], weights=[0.4, 0.6])
    [1.0, 0.0]
    """

    sees_weights: ClassVar[bool] = True
    reference: ClassVar[str] = "found by a search outside the family that was searched until then"
    source_note: ClassVar[str] = "A member of the searched family, and named."

    edge: Annotated[
        float, Limits("least probability of the best arm at which it strikes", 0, 1)
    ] = 0.15

    @property
    def member(self) -> TwoPhase:  # type: ignore[override]
        """The attack as a member of the family."""
        return TwoPhase(first="free-ride", first_pays=0.5, first_low=self.edge)
