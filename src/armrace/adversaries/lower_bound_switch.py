"""The adversary of the lower bound: it misleads until the learner hardly explores, then stops.

To choose when, it simulates the learner before the first round.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels import engine, laws
from armrace.kernels.dispatch import implement, implementations
from armrace.kernels.engine import make_ledger, make_record
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.handles import call_entry
from armrace.kernels.pointers import LiveAttack, LiveRewards
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits
from armrace.randomness import MAXIMAL_SEED, Purpose, reward_place, stream_for
from armrace.specification import Specification, with_nested

_SEED = MAXIMAL_SEED + 1
"""No experiment can have this seed, so a rehearsal does not see any experiment's random numbers."""


class Rehearsed:
    """A policy as the key of a cache, also if its parameters are lists or arrays."""

    def __init__(self, policy: Specification) -> None:
        self.policy = policy
        # With the classes, since a class that is defined again has the name of the former.
        classes = tuple(type(each) for each in with_nested(policy))
        self._key = classes, msgspec.json.encode(policy.to_builtins(), order="sorted")

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rehearsed) and self._key == other._key


def plays_in_rehearsal(
    policy: Any,
    horizon: int,
    means: tuple[float, ...],
    attack: Any,
    budget: float,
    checkpoints: tuple[int, ...],
    run: int,
    luck: int | None = None,
) -> npt.NDArray[np.int64]:
    """Simulate a learner on Bernoulli arms, up to the last checkpoint."""
    arms, layers = len(means), policy.layer_count(len(means), horizon)
    law = laws.make_law(laws.BERNOULLI, arms, means)
    law.place[:] = reward_place(_SEED, run)
    state = policy.start(arms, horizon)
    record = make_record(np.array(checkpoints, dtype=np.int64), arms, layers)
    # Rewards are 0 or 1, so that every change costs 1; without a budget the attack is never called.
    smallest_cost = 1.0 if budget > 0.0 else math.inf
    live_attack = LiveAttack(
        attack, stream_for(_SEED, Purpose.ADVERSARY, run), False, smallest_cost
    )
    ledger, workspace = make_ledger(arms, layers, budget), engine.make_workspace(arms)
    live = LiveRewards(law, workspace.drawn, ledger.clean_totals)
    call_entry(
        engine.make_runner(fingerprint(implementations(state))),
        state,
        live_attack.attack,
        live.rewards,
        stream_for(_SEED, Purpose.LEARNER, run if luck is None else luck),
        ledger,
        record,
        workspace,
    )
    return record.rows.pulls


# In the proof of Theorem 4 every interval is twice as long as all rounds before it.
_GROWTH = 3


class SwitchInterval(NamedTuple):
    """Rounds, counted from 0, and how often the learner plays the bad arm in them on average."""

    start: int
    end: int
    pulls: float


class LowerBoundSwitchState(NamedTuple):
    """The arm whose rewards become 0, for how many first rounds, and with which probability."""

    best: int
    rounds: int
    chance: float


_NO_ATTACK = LowerBoundSwitchState(0, 0, 0.0)


class LowerBoundSwitch(Adversary, frozen=True, tag="lower-bound-switch"):
    """Makes the best arm look worse than the runner-up, until the learner hardly plays it.

    Before the first round it simulates the learner on Bernoulli arms whose best has become worse
    than the runner-up by ``gap``, counts the plays of that arm in the intervals
    ``[3^(i-1) T^epsilon, 3^i T^epsilon)`` and takes the one with the fewest, ``[C, 3C)``. That is
    the paper's choice, and the default for a learner that draws no random numbers. A randomised
    one plays the bad arm rarely everywhere, and returns to it anyway: against it each ``C``
    is rehearsed, and the one with the largest mean pseudo-regret is taken. In the first ``C``
    rounds each reward of the best arm becomes 0 with the probability that gives it the
    simulated mean (not below 0). After that all rewards are honest, but a learner that hardly plays
    the arm does not find out. It knows the means and the learner's algorithm, and looks at nothing
    during the run. Only intervals with ``C`` within the budget, below
    ``T^epsilon_prime`` and at most ``T/3`` are searched; if there is none, ``C`` is the smaller
    of the budget and ``T/3``. A round costs at most 1, so the budget never ends the attack.

    A learner whose pseudo-regret is at most ``c ln T/gap`` on any two stochastic arms has an
    interval in which it plays the bad arm ``m = O(1/((epsilon_prime - epsilon) gap^2))`` times
    on average. With means ``1/2 + gap`` and ``1/2``, ``gap <= 1/6``, its regret then is at least
    ``0.8 gap C - 4m - ln T`` with a probability of some ``((1/2 - gap)/(1/2 + gap))^(2m)/2``:
    linear in ``C`` with constant probability (Theorem 4). If its pseudo-regret is of order
    ``ln^(1 + a) T``, ``a < 1``, the positive part of its regret is still at least of order
    ``T^(epsilon - d)`` in expectation, for every ``d > 0`` (Theorem 5). That constant may be
    tiny: at gap 1/6 and 10^5 rounds Thompson sampling, with ``m = 13``, pays the price in a third
    of the runs; UCB1, with ``m = 140``, soon finds out in all of them, so that only its clean
    regret and its pseudo-regret grow with ``C``.

    Where the paper's text slips, this is what is meant: ``epsilon < epsilon_prime`` is needed;
    there are ``(epsilon_prime - epsilon) log_3 T`` intervals; the first ``C`` steps are false; at
    the end of step 4 the probabilities on the right are those without a switch; step 5a counts
    plays of arm 2; in Theorem 5 it is the complement of the event ``B`` that is unlikely.

    The search plays up to ``runs * T`` rounds for each interval, once for each learner and setting.
    """

    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "Theorems 4 and 5 of Lykouris, Mirrokni and Paes Leme (2018), after Auer and Chiang (2016)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "The construction of Theorems 4 and 5 was read in the paper; six slips are corrected "
        "(see the errata)."
    )

    gap: Annotated[
        float | None,
        Limits(
            "by how much the best arm is made to look worse than the second best; by default "
            "by how much it is better",
            0,
            1,
        ),
    ] = None
    epsilon: Annotated[
        float,
        Limits("the first interval begins at horizon^epsilon", 0, 1, low_open=True, high_open=True),
    ] = 0.5
    epsilon_prime: Annotated[
        float,
        Limits("the last begins before horizon^epsilon_prime", 0, 1, low_open=True, high_open=True),
    ] = 0.9
    runs: Annotated[int, Limits("how often the learner is simulated", 1)] = 100
    interval: Annotated[
        Literal["auto", "plays", "regret"],
        "which interval is taken: that with the fewest plays of the bad arm, or that with the "
        "largest simulated regret; auto is plays for a deterministic learner, else regret",
    ] = "auto"

    def validate(self) -> None:
        if not self.epsilon < self.epsilon_prime:
            raise InvalidParameter(
                f"epsilon must be below epsilon_prime; got {self.epsilon:g} and "
                f"{self.epsilon_prime:g}."
            )

    def check(self, setting: Setting) -> None:
        if setting.policy is None:
            raise InvalidParameter(f"{self.tag()} needs to know the policy that it attacks.")

    def start(self, setting: Setting) -> LowerBoundSwitchState:
        self.check(setting)
        honest = float(setting.means[setting.best])
        shown = self.shown_means(setting)[setting.best]
        # Zeroing with this probability thins the mean ``honest`` to ``shown``, whatever the law.
        chance = 1.0 - shown / honest if honest > 0.0 else 0.0
        starts = self._borders(setting)[:-1]
        if not starts:
            starts = (int(min(setting.budget, setting.horizon // _GROWTH)),)
        attacks = tuple(LowerBoundSwitchState(setting.best, start, chance) for start in starts)
        # With a single candidate the simulations would decide nothing.
        return attacks[0] if len(attacks) == 1 else self._most_harmful(setting, attacks)

    def _most_harmful(
        self, setting: Setting, attacks: tuple[LowerBoundSwitchState, ...]
    ) -> LowerBoundSwitchState:
        """Simulate the learner and choose an interval."""
        learner, means = Rehearsed(setting.policy), tuple(setting.means.tolist())
        by_regret = self.interval == "regret" or (
            self.interval == "auto" and _is_randomised(learner, setting.horizon, means)
        )
        if by_regret:
            regrets = _mean_regrets(learner, setting.horizon, means, attacks, self.runs)
            return attacks[int(np.argmax(regrets))]
        pulls = [interval.pulls for interval in self.intervals(setting)]
        return attacks[int(np.argmin(pulls))]

    def windows(self, state: LowerBoundSwitchState, horizon: int) -> list[tuple[int, int]]:
        return [(0, state.rounds)]

    def smallest_cost(self, state: LowerBoundSwitchState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, state.best)

    def shown_means(self, setting: Setting) -> tuple[float, ...]:
        """The means that the learner sees before the switch.

        Args:
            setting: the means, horizon and budget of the run.
        """
        means = setting.means.tolist()
        second = means[setting.runner_up]
        gap = means[setting.best] - second if self.gap is None else self.gap
        means[setting.best] = min(means[setting.best], max(0.0, second - gap))
        return tuple(means)

    def intervals(self, setting: Setting) -> tuple[SwitchInterval, ...]:
        """The intervals that are searched, with the mean number of plays of the bad arm.

        Args:
            setting: the means, horizon and budget of the run.
        """
        borders = self._borders(setting)
        if len(borders) < 2:
            return ()
        shown = self.shown_means(setting)
        pulls = _mean_pulls(
            Rehearsed(setting.policy), setting.horizon, shown, setting.best, self.runs, borders
        )
        return tuple(map(SwitchInterval, borders, borders[1:], pulls))

    def _borders(self, setting: Setting) -> tuple[int, ...]:
        """Beginnings of the intervals, and the end of the last one."""
        horizon = float(setting.horizon)
        start = horizon**self.epsilon
        borders = [round(start)]
        while (
            start < horizon**self.epsilon_prime
            and borders[-1] <= setting.budget
            and round(_GROWTH * start) <= horizon
        ):
            start *= _GROWTH
            borders.append(round(start))
        return tuple(borders)


# Cached, because every replication starts the attack again with the same search.
@lru_cache(maxsize=256)
def _mean_pulls(
    learner: Rehearsed,
    horizon: int,
    means: tuple[float, ...],
    arm: int,
    runs: int,
    borders: tuple[int, ...],
) -> tuple[float, ...]:
    """Return the mean number of plays of ``arm`` between neighbouring borders, without attack."""
    total = np.zeros(len(borders) - 1)
    for run in range(runs):
        pulls = plays_in_rehearsal(learner.policy, horizon, means, _NO_ATTACK, 0.0, borders, run)
        total += np.diff(pulls[:, arm])
    return tuple((total / runs).tolist())


@lru_cache(maxsize=256)
def _is_randomised(learner: Rehearsed, horizon: int, means: tuple[float, ...]) -> bool:
    """Whether other random numbers of the learner, on the same rewards, lead to other plays."""
    checkpoints = tuple(sorted({max(1, horizon // part) for part in (64, 16, 4, 2, 1)}))
    # The same rewards and other random numbers of the learner: only a randomised learner differs.
    one, other = (
        plays_in_rehearsal(learner.policy, horizon, means, _NO_ATTACK, 0.0, checkpoints, 0, luck)
        for luck in (0, 1)
    )
    return not np.array_equal(one, other)


@lru_cache(maxsize=256)
def _mean_regrets(
    learner: Rehearsed,
    horizon: int,
    means: tuple[float, ...],
    attacks: tuple[LowerBoundSwitchState, ...],
    runs: int,
) -> tuple[float, ...]:
    """Return the mean pseudo-regret of the learner under each attack, on the same rewards."""
    gaps = max(means) - np.array(means)
    return tuple(
        float(
            np.mean(
                [
                    plays_in_rehearsal(
                        learner.policy, horizon, means, attack, attack.rounds, (horizon,), run
                    )[-1]
                    @ gaps
                    for run in range(runs)
                ]
            )
        )
        for attack in attacks
    )


@implement(corrupt, LowerBoundSwitchState)
def thin_best(
    state: LowerBoundSwitchState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round < state.rounds and rewards[state.best] > 0.0 and uniform(stream) < state.chance:
        rewards[state.best] = 0.0
