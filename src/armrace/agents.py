"""Agents that decide in Python, one call a round, against the compiled engine and its attacks.

An agent is any object with ``choose()``, which returns an arm, and ``learn(arm, reward)``. The
engine draws rewards, lets the attack answer and keeps the ledger, as for compiled policies; it only
plays the arm that it is told. :class:`PythonAgent` makes a policy of an agent, which
:func:`armrace.simulate`, :func:`armrace.compare` and :func:`armrace.redteam` take.
"""

from __future__ import annotations

import hashlib
import operator
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, NoReturn, SupportsIndex

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter, UnknownName
from armrace.kernels.dispatch import implement, implementations
from armrace.kernels.engine import STOP, make_drawer, make_stepper, write_row
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import (
    ContextShape,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    learn,
    make_ticket,
)
from armrace.kernels.handles import Handle
from armrace.kernels.laws import CHUNK
from armrace.kernels.pointers import LiveAttack, LiveRewards
from armrace.kernels.streams import Stream
from armrace.policies import Policy
from armrace.randomness import Purpose

if TYPE_CHECKING:
    from armrace.simulation.experiment import Experiment
    from armrace.simulation.replication import Parts

__all__ = ["Game", "PythonAgent"]

Floats = npt.NDArray[np.float64]

_MEMORY = 0.05
"""The weight of the latest arm in the estimate of what an agent is about to play."""
_TOLERANCE = 1e-6

_GIVEN: dict[str, Callable[..., Any]] = {}
"""What makes agents, by name: a function of a notebook cannot be imported."""


class PythonAgent(Policy, frozen=True, tag="python-agent"):
    """Plays what an agent of your own decides, in Python: a network, a language model, any program.

    ``agent`` makes a new agent for each replication: a class or function, or its name as
    ``module:name``, that is called with the number of arms, the horizon and a seed. The agent has

    - ``choose()``, which returns an arm; where visitors differ, ``choose(features)``;
    - ``learn(arm, reward)``, which is told what the arm paid, forged or not;
    - if it can say so, ``probabilities()``, or ``probabilities(features)``: with which probability
      ``choose`` will return each arm. It is called before ``choose``.

    **What the attack sees.** The arms that were played, as always; and, before it answers, the
    probabilities that the agent declares, if it does. Else they are unknown, and an attack that
    asks for them is given what anybody could compute who watched: shares of the arms that were
    played, of which the latest counts 0.05 and each earlier one 0.95 times the one after it.

    An agent has no compiled state: an attack cannot rehearse it, and a learner cannot run it.
    """

    family: ClassVar[str] = "published"
    takes_contexts: ClassVar[bool] = True
    takes_any_reward: ClassVar[bool] = True

    agent: Annotated[Any, "what makes an agent: a class, a function, or its name as module:name"]

    def validate(self) -> None:
        if isinstance(self.agent, str):
            self.factory()
            return
        name = getattr(self.agent, "__qualname__", None)
        if not callable(self.agent) or name is None:
            raise InvalidParameter(
                "agent must be a class or a function that makes an agent, or its name as "
                f"module:name; got {self.agent!r:.100}."
            )
        path, number = f"{self.agent.__module__}:{name}", 1
        # A function that is made within another shares its name with all that are made there.
        while "<" in name and _GIVEN.get(path, self.agent) is not self.agent:
            number += 1
            path = f"{self.agent.__module__}:{name} {number}"
        _GIVEN[path] = self.agent
        msgspec.structs.force_setattr(self, "agent", path)

    def factory(self) -> Callable[..., Any]:
        """Return what makes an agent."""
        if self.agent in _GIVEN:
            return _GIVEN[self.agent]
        module, _, name = self.agent.partition(":")
        try:
            found = operator.attrgetter(name)(import_module(module))
        except (ImportError, AttributeError, ValueError) as error:
            raise UnknownName(f"there is no agent named {self.agent!r}: {error}.") from None
        if not callable(found):
            raise InvalidParameter(f"agent must name a class or a function; got {self.agent!r}.")
        return found  # type: ignore[no-any-return]

    def code(self) -> str:
        """Return a digest of the file that defines the agent, where there is one."""
        module = sys.modules.get(self.agent.partition(":")[0])
        file = getattr(module, "__file__", None)
        return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file else ""

    def start_with(self, arms: int, horizon: int, shape: ContextShape | None) -> NoReturn:
        self.start(arms, horizon)

    def start(self, arms: int, horizon: int) -> NoReturn:
        raise InvalidParameter(
            f"policy must have a compiled state here; got {self.tag()}, which decides in Python: "
            "it can be simulated, compared and attacked."
        )


class Told(NamedTuple):
    """What an agent has decided, and what it was paid, where the engine reads and writes them."""

    arm: npt.NDArray[np.int64]
    weights: Floats
    reward: Floats


@implement(distribution, Told)
def _told_distribution(state: Told, out: Floats) -> None:
    for arm in range(out.size):
        out[arm] = state.weights[arm]


@implement(choose, Told)
def _told_choose(state: Told, stream: Stream, eligible: Eligible = None) -> Ticket:
    return make_ticket(state.arm[0], 0, state.weights[state.arm[0]])


@implement(assign, Told)
def _told_assign(state: Told, ticket: Ticket) -> Ticket:
    return ticket


@implement(learn, Told)
def _told_learn(state: Told, ticket: Ticket, reward: float) -> None:
    state.reward[0] = reward


def wait_for_arms(arms: int) -> Told:
    """Return the state that plays the arms that a :class:`Game` is told."""
    return Told(np.zeros(1, dtype=np.int64), np.full(arms, 1.0 / arms), np.zeros(1))


def agent_maker(experiment: Experiment, replication: int) -> Callable[[], Any] | None:
    """Return what makes the agent of a replication; None for a compiled policy."""
    policy = experiment.policy
    if not isinstance(policy, PythonAgent):
        return None
    source = np.random.SeedSequence([experiment.seed, int(Purpose.LEARNER), replication])
    seed = int(source.generate_state(1)[0])
    return lambda: policy.factory()(experiment.environment.arms, experiment.horizon, seed)


class Game:
    """One replication, played round after round by whoever calls :meth:`step`.

    Args:
        parts: fresh states, streams and ledger of an experiment whose policy is a
            :class:`PythonAgent`.
        attack: the attack of the same parts.
    """

    def __init__(self, parts: Parts, attack: LiveAttack) -> None:
        self.parts = parts
        self.round = 0
        self.horizon = int(parts.record.checkpoints[-1])
        self._told: Told = parts.policy_state
        self._row = 0
        rewards = LiveRewards(parts.law, parts.workspace.drawn, parts.ledger.clean_totals)
        # These objects own the memory behind the addresses that compiled code is given.
        self._owners = attack, rewards
        self._drawn = Handle(rewards.rewards)
        given = (parts.policy, attack.attack, rewards.rewards, parts.learner_stream)
        passed = [Handle(each) for each in (*given, parts.ledger, parts.workspace)]
        crowd = () if parts.crowd is None else (Handle(parts.crowd),)
        step = make_stepper(fingerprint(implementations(parts.policy)))
        self._play: Callable[[int], None] = lambda number: step(*passed, number, *crowd)

    @property
    def arms(self) -> int:
        """The number of arms."""
        return self._told.weights.size

    @property
    def over(self) -> bool:
        """Whether all rounds were played."""
        return self.round >= self.horizon

    @property
    def stopped(self) -> bool:
        """Whether another thread has asked the replication to stop."""
        return bool(self.parts.workspace.control[STOP])

    def features(self) -> Floats:
        """Return the features of the visitor of this round; none where visitors are alike."""
        if self.parts.crowd is None:
            return np.empty(0)
        if self.round % CHUNK == 0:
            make_drawer()(self._drawn, self.round // CHUNK)
        visitor = self.parts.workspace.drawn.visitors[self.round % CHUNK]
        return np.array(self.parts.crowd.vectors[visitor])

    def step(self, arm: SupportsIndex, probabilities: npt.ArrayLike | None = None) -> float:
        """Play an arm, and return what it paid, forged or not.

        Args:
            arm: the arm to play.
            probabilities: with which probability each arm was to be played, for the attack to
                see; by default they are estimated from the arms that were played before.
        """
        told = self._told
        if self.over:
            raise InvalidParameter(f"all {self.horizon} rounds were played; start again.")
        told.arm[0] = _checked_arm(arm, self.arms)
        if probabilities is not None:
            told.weights[:] = _checked_weights(probabilities, self.arms)
        self._play(self.round)
        self.round += 1
        if probabilities is None:
            weights = told.weights
            weights *= 1.0 - _MEMORY
            weights[told.arm[0]] += _MEMORY
        record = self.parts.record
        if self.round == record.checkpoints[self._row]:
            write_row(self.parts.ledger, record, self._row)
            self._row += 1
        return float(told.reward[0])


def _checked_arm(arm: Any, arms: int) -> int:
    try:
        number = operator.index(arm)
    except TypeError:
        number = -1
    if not 0 <= number < arms:
        raise InvalidParameter(f"arm must be a whole number in [0, {arms - 1}]; got {arm!r:.100}.")
    return number


def _checked_weights(given: npt.ArrayLike, arms: int) -> Floats:
    try:
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            f"probabilities must be {arms} numbers; got {given!r:.100}."
        ) from None
    if weights.shape != (arms,) or not (
        (weights >= 0.0).all() and abs(weights.sum() - 1.0) <= _TOLERANCE
    ):
        raise InvalidParameter(
            f"probabilities must be {arms} numbers of at least 0 that sum to 1; "
            f"got {weights.tolist()!r:.100}."
        )
    return weights


def seconds_a_round(parts: Parts, attack: LiveAttack, make: Callable[[], Any]) -> float:
    """Measure what a round takes with an agent: the mean of a second, or at least one round."""
    game, agent = Game(parts, attack), make()
    started = time.perf_counter()
    while game.round == 0 or (not game.over and time.perf_counter() - started < 1.0):
        _play_round(game, agent)
    return (time.perf_counter() - started) / game.round


def play_agent(parts: Parts, attack: LiveAttack, make: Callable[[], Any]) -> None:
    """Let an agent play a replication to the last checkpoint, or until asked to stop."""
    game, agent = Game(parts, attack), make()
    while not game.over and not game.stopped:
        _play_round(game, agent)


def _play_round(game: Game, agent: Any) -> None:
    told = () if game.parts.crowd is None else (game.features(),)
    declare = getattr(agent, "probabilities", None)
    # The attack must not know the arm: what it sees was fixed before the arm was drawn.
    weights = None if declare is None else declare(*told)
    arm = agent.choose(*told)
    agent.learn(arm, game.step(arm, weights))
