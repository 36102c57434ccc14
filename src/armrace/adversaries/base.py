"""What every adversary is: a specification that starts a state against a setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.specification import Specification

__all__ = ["Adversary", "Setting"]

Floats = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """What an adversary knows beforehand: everything but the learner's and nature's coins."""

    means: Floats
    horizon: int
    budget: float
    policy: Any = None
    """The specification of the learner, which an adversary may simulate."""
    support: Floats | None = None
    """All rewards that nature may draw, a row an arm; none where they are too many to name."""

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

    def smallest_change(self, shown: Callable[[Floats], Floats], *arms: int) -> float:
        """The least that it costs to pay ``shown(reward)`` in place of a reward of these arms.

        What costs nothing does not count; infinity if all of it does, and 0 if nobody knows.

        >>> rewards = np.array([[0.0, 1.0], [0.0, 0.75]])
        >>> setting = Setting(np.array([0.5, 0.3]), 1000, budget=9, support=rewards)
        >>> setting.smallest_change(np.zeros_like, 0)
        1.0
        >>> setting.smallest_change(lambda reward: 1 - reward, 0, 1)
        0.5
        """
        if self.support is None:
            return 0.0
        rewards = self.support[list(arms)]
        costs = np.abs(shown(rewards) - rewards)
        return float(costs[costs > 0.0].min(initial=np.inf))


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

    def check(self, setting: Setting) -> None:
        """Refuse a setting in which the attack cannot start.

        An attack whose ``start`` takes long overrides this: it is called for every experiment
        that is specified.
        """
        self.start(setting)

    def windows(self, state: Any, horizon: int) -> list[tuple[int, int]]:
        """The stretches of rounds in which it may act, in order: the first, and one past the last.

        Between them it must leave all rewards alone, whatever happens; a race may leap there.
        """
        return [(0, horizon)]

    def smallest_cost(self, state: Any, setting: Setting) -> float:
        """What a round that it changes costs at least; 0 if that may be any amount.

        With less than that left it is not asked any more, and a race may leap.
        """
        return 0.0
