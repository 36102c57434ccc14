"""One unit of budget that moves the difference of two arms by two."""

from __future__ import annotations

from typing import ClassVar

from armrace.adversaries.two_phase import BlindTwoPhase, NamedTwoPhase, TwoPhase


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

    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "found by ``armrace redteam``"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A member of the searched family, found by the red team and named."
    member: ClassVar[TwoPhase] = BlindTwoPhase(first="double-impact")
