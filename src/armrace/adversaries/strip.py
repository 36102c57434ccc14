"""Changes of all arms in those rounds alone in which the best arm pays."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.adversaries.two_phase import NamedTwoPhase, TwoPhase
from armrace.limits import Limits


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
    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "found by a search outside the family that was searched until then"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A member of the searched family, and named."

    edge: Annotated[
        float, Limits("least probability of the best arm at which it strikes", 0, 1)
    ] = 0.15

    @property
    def member(self) -> TwoPhase:  # type: ignore[override]
        """The attack as a member of the family."""
        return TwoPhase(first="free-ride", first_pays=0.5, first_low=self.edge)
