"""A bandit under attack as an environment of Gymnasium; the extra ``gymnasium`` installs that.

Importing this module registers ``armrace/Bandit-v0``; Gymnasium imports it for
``gymnasium.make("armrace.gymnasium:armrace/Bandit-v0", horizon=1000)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.agents import Game, PythonAgent
from armrace.errors import InvalidParameter, missing_package
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.replication import live_attack, make_parts, outcome_of
from armrace.simulation.results import FIGURES_OF_A_RUN

try:
    import gymnasium
    from gymnasium import spaces
except ImportError as error:
    raise InvalidParameter(missing_package(error)) from None

__all__ = ["BanditEnv"]

Observation = npt.NDArray[np.float32]


class BanditEnv(gymnasium.Env[Observation, np.int64]):
    """One replication of an experiment is an episode, and an action is the arm to play.

    The engine draws the rewards, the attack answers and the ledger is kept as in
    :func:`armrace.simulate` with the same seed: an agent that plays the same arms meets the same
    rewards and the same corruption.

    An observation holds the arm that was played last (a 1 in its place), what it paid, and the
    share of the rounds that have passed; where visitors differ, the features of the next one
    follow. The ``info`` of the last step has the ledger of the episode: ``regret``,
    ``pseudo_regret``, ``clean_regret``, ``corruption`` and ``seen_corruption``. An episode ends by
    truncation, after ``horizon`` rounds.

    ``reset(seed=5)`` begins replication 0 of seed 5, and each ``reset()`` the replication after
    the one before. The attack sees the probabilities given to :meth:`declare`, or else the shares
    that :class:`armrace.agents.PythonAgent` describes.

    Args:
        environment: the source of rewards, in a form that :func:`armrace.simulate` takes.
        adversary: the attack, in a form that :func:`armrace.simulate` takes.
        budget: the most corruption that the attack may spend; required for every attack.
        horizon: the number of rounds of an episode.
        account: what a round costs the attack; see :func:`armrace.simulate`.
        render_mode: None; there is nothing to draw.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  declared so by Gymnasium

    def __init__(
        self,
        environment: Any = (0.6, 0.4),
        adversary: Any = "none",
        budget: float | None = None,
        horizon: int = 1000,
        account: str = "largest",
        render_mode: None = None,
    ) -> None:
        self.render_mode = render_mode
        self._experiment: Experiment = make_experiment(
            policy=PythonAgent(agent=BanditEnv),
            environment=environment,
            adversary=adversary,
            budget=budget,
            horizon=horizon,
            account=account,
        )
        self._replication = -1
        self._declared: npt.ArrayLike | None = None
        self._game: Game | None = None
        source = self._experiment.environment
        low, high = source.reward_range()
        crowd = source.crowd()
        features = 0 if crowd is None else crowd.vectors.shape[1]
        self.action_space = spaces.Discrete(source.arms)
        self.observation_space = spaces.Box(
            np.array([*[0] * source.arms, min(low, 0.0), 0, *[-1] * features], dtype=np.float32),
            np.array([*[1] * source.arms, max(high, 0.0), 1, *[1] * features], dtype=np.float32),
        )

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a replication: the first of a seed, or the next one."""
        super().reset(seed=seed)
        self._replication += 1
        if seed is not None:
            self._replication = 0
            self._experiment = msgspec.structs.replace(self._experiment, seed=seed)
        parts = make_parts(self._experiment, self._replication)
        self._game, self._declared = Game(parts, live_attack(parts)), None
        return self._observe(None, 0.0), {}

    def declare(self, probabilities: npt.ArrayLike) -> None:
        """Let the attack see with which probability each arm will be played in the next step.

        Args:
            probabilities: a number for each arm.
        """
        self._declared = probabilities

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Play an arm; the episode is truncated after its last round."""
        game = self._playing()
        reward = game.step(action, self._declared)
        self._declared = None
        info = self._ledger() if game.over else {}
        return self._observe(int(action), reward), reward, False, game.over, info

    def _playing(self) -> Game:
        if self._game is None:
            raise InvalidParameter("reset must be called before the first step.")
        return self._game

    def _ledger(self) -> dict[str, float]:
        outcome = outcome_of(self._playing().parts)
        return {name: float(getattr(outcome, name)[-1]) for name in FIGURES_OF_A_RUN}

    def _observe(self, arm: int | None, reward: float) -> Observation:
        game = self._playing()
        played = np.zeros(game.arms)
        if arm is not None:
            played[arm] = 1.0
        features = np.empty(0) if game.over else game.features()
        seen = np.concatenate([played, [reward, game.round / game.horizon], features])
        missing = self.observation_space.shape[0] - seen.size  # type: ignore[index]
        return np.pad(seen, (0, missing)).astype(np.float32)


gymnasium.register(id="armrace/Bandit-v0", entry_point=f"{__name__}:BanditEnv")
