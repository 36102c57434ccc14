"""What every adversary is: a specification that starts a state against a setting."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.specification import Specification

__all__ = ["Adversary", "Setting"]


class Setting(NamedTuple):
    """What an adversary knows beforehand: everything but the learner's and nature's coins."""

    means: npt.NDArray[np.float64]
    horizon: int
    budget: float
    policy: Any = None
    """The specification of the learner, which an adversary may simulate."""

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.means.size)

    @property
    def best(self) -> int:
        """The arm with the largest mean, the lowest index among equals."""
        return int(np.argmax(self.means))

    @property
    def runner_up(self) -> int:
        """The arm with the largest mean but one."""
        others = self.means.copy()
        others[self.best] = -np.inf
        return int(np.argmax(others))

    def arm_or(self, default: int, name: str, arm: int | None) -> int:
        """The arm that a parameter names, or ``default`` where it names none."""
        if arm is None:
            return default
        if not 0 <= arm < self.arms:
            raise InvalidParameter(f"{name} must be an arm in [0, {self.arms - 1}]; got {arm}.")
        return arm


class Adversary(Specification, frozen=True):
    """An attack, described by its parameters.

    An attack of your own subclasses this, gives a ``tag`` and a ``start``, and registers
    ``corrupt`` and ``observe`` for the class of its state.
    """

    kind: ClassVar[str] = "attack"
    sees_weights: ClassVar[bool] = False
    """Whether it looks at the learner's distribution, which then is computed every round."""

    def start(self, setting: Setting) -> Any:
        """The state before the first round."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it starts")

    def windows(self, state: Any, horizon: int) -> list[tuple[int, int]]:
        """The stretches of rounds in which it may act, in order: the first, and one past the last.

        Between them it must leave all rewards alone, whatever happens; a race may leap there.
        """
        return [(0, horizon)]
