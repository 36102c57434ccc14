"""Changes of all other arms that ride along with one change of the best."""

from __future__ import annotations

from typing import ClassVar

from armrace.adversaries.two_phase import BlindTwoPhase, NamedTwoPhase, TwoPhase


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

    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "found by ``armrace redteam``"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A member of the searched family, found by the red team and named."
    member: ClassVar[TwoPhase] = BlindTwoPhase(first="free-ride")
