"""The base class of attacks: a specification that creates a state for a setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.generics import corrupt
from armrace.limits import Limits
from armrace.randomness import Purpose, stream_for
from armrace.specification import Specification

Target = Annotated[int | None, Limits("the arm to promote, from 0; by default the second best", 0)]

Floats = npt.NDArray[np.float64]


class Setting(NamedTuple):
    """What an adversary knows before the first round: everything except random numbers."""

    means: Floats
    horizon: int
    budget: float
    policy: Any = None
    """The specification of the learner, which an adversary may simulate."""
    support: Floats | None = None
    """All rewards that may be drawn, one row per arm; None for continuous laws."""
    low: float = 0.0
    """The least reward that may be shown."""
    high: float = 1.0
    """The largest one."""

    @property
    def arms(self) -> int:
        """The number of arms."""
        return int(self.means.size)

    @property
    def best(self) -> int:
        """The arm with the largest mean, the lowest index among equals."""
        return int(np.argmax(self.means))

    @property
    def runner_up(self) -> int:
        """The arm with the second largest mean."""
        others = self.means.copy()
        others[self.best] = -np.inf
        return int(np.argmax(others))

    def arm_or(self, default: int, name: str, arm: int | None) -> int:
        """Return the arm given by parameter ``name``, checked; ``default`` if it is None.

        Args:
            default: the arm to take if none is given.
            name: the name of the parameter.
            arm: its value, which may be None.
        """
        if arm is None:
            return default
        if not 0 <= arm < self.arms:
            raise InvalidParameter(f"{name} must be an arm in [0, {self.arms - 1}]; got {arm}.")
        return arm

    def smallest_change(self, shown: Callable[[Floats], Floats], *arms: int) -> float:
        """Return the smallest positive cost of paying ``shown(reward)`` for a reward of ``arms``.

        It is infinite if no change costs anything, and 0 if the possible rewards are not known.

        Args:
            shown: what the attack pays in place of rewards.
            arms: the arms that it changes.

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

    Every attack sees the round's honest rewards of all arms and fixes an answer for each of them
    before the arm is drawn. Some also see the learner's distribution. With ``account="seen"`` an
    attack pays only for its answer for the arm that is drawn, as if it had seen that arm.
    """

    kind: ClassVar[str] = "attack"
    families: ClassVar[tuple[str, ...]] = ("paper", "literature", "daily life", "searched")
    sees_weights: ClassVar[bool] = False
    """Whether it reads the learner's distribution, which is then computed in every round, except
    where the attack's ``looks`` or the ``refresh`` of the experiment spare that."""

    def start(self, setting: Setting) -> Any:
        """Return the state before the first round.

        Args:
            setting: what is known before the first round.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say how it starts")

    def check(self, setting: Setting) -> None:
        """Refuse a setting in which the attack cannot start.

        An attack whose ``start`` takes long overrides this: it is called for every experiment
        that is specified.

        Args:
            setting: what is known before the first round.
        """
        self.start(setting)

    def canonical(self) -> Adversary:
        """Return the same attack, with defaults for parameters that do not matter to it.

        A search uses it, so that it does not try the same attack twice under two descriptions.
        """
        return self

    def windows(self, state: Any, horizon: int) -> list[tuple[int, int]]:
        """Return the intervals of rounds in which it may change rewards, in order, ends excluded.

        Outside them it must never change any, since the simulator may skip those rounds.

        Args:
            state: the state of the attack before the first round.
            horizon: the number of rounds.
        """
        return [(0, horizon)]

    def smallest_cost(self, state: Any, setting: Setting) -> float:
        """Return a lower bound on the cost of a round in which it changes anything.

        With less than that left of the budget it is no longer called.

        Args:
            state: the state of the attack before the first round.
            setting: what is known before the first round.
        """
        return 0.0

    def change_rewards(
        self,
        setting: Setting,
        rewards: Sequence[float],
        weights: Sequence[float] | None = None,
        round: int = 0,
    ) -> list[float]:
        """Return the rewards of one round after the attack, without any rounds before it.

        Args:
            setting: what the attack knows before the first round.
            rewards: the honest reward of each arm.
            weights: the learner's distribution; by default uniform.
            round: the number of the round, from 0.

        Returns:
            The changed reward of each arm.
        """
        changed = np.array(rewards, dtype=np.float64)
        drawn = np.full(changed.size, 1.0 / changed.size) if weights is None else np.array(weights)
        stream = stream_for(0, Purpose.ADVERSARY, 0)
        corrupt(self.start(setting), round, drawn, changed, setting.budget, stream)
        return [float(reward) for reward in changed]
