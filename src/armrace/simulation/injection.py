"""Feedback for rounds that were never played, reported to a learner that takes any feedback.

The model of the paper has one reward a round, which an attack may change. Here the attack changes
none: it reports plays of its own, as bots can to a system that believes whoever names an arm and a
reward. A system that takes feedback only with the signed name of a decision, once, has no room for
it: each decision has one reward, and what was not decided has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.adversaries.poisoning import deviation
from armrace.environments import Environment
from armrace.errors import InvalidParameter
from armrace.kernels.compiling import entry, inlined
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import assign, decide, learn, make_ticket
from armrace.kernels.handles import call_entry
from armrace.kernels.laws import CHUNK, RewardChunk, make_drawn
from armrace.kernels.pointers import LiveRewards, Rewards, call_at
from armrace.kernels.streams import Stream
from armrace.limits import Limits, check_number
from armrace.policies import Policy
from armrace.randomness import Purpose, reward_place, stream_for
from armrace.simulation.experiment import checkpoints_for
from armrace.specification import MAXIMAL_HORIZON

Floats = npt.NDArray[np.float64]


_COUNTS = {
    "horizon": Limits("rounds that are played", 1, MAXIMAL_HORIZON),
    "replications": Limits("independent runs", 1),
}
_LIMITS = {
    **_COUNTS,
    "delta_0": Limits("how far the others are kept below the target", 0, low_open=True),
    "delta": Limits("chance that the attack may fail", 0, 1, True, True),
    "sigma": Limits("sub-Gaussian parameter", 0, low_open=True),
}


class Injector(NamedTuple):
    """What an attacker has seen and done who reports plays that never were."""

    sums: Floats
    """What each arm paid in the rounds that were played."""
    pulls: npt.NDArray[np.int64]
    injected: npt.NDArray[np.int64]
    """How many plays of each arm were reported that never were."""
    cost: Floats
    means: Floats
    target: int
    plays: float
    """From this many plays on, an arm is struck, once."""
    margin: float
    delta: float
    sigma: float
    least: float
    """The least reward that may be reported; minus infinity if any may be."""


class InjectionResult(NamedTuple):
    """What came out, in rows like those of a simulation's ledger."""

    rows: pl.DataFrame
    replications: int
    interrupted: bool = False


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """Fake data injection on a learner of sub-Gaussian rewards, after Zeng et al. (2025).

    Let ``n`` be the plays of an arm, ``m`` its mean, and ``goal`` the mean of the target less
    ``2 b(plays of the target) + 3 sigma delta_0``, where ``b`` is the deviation of
    :func:`~armrace.adversaries.poisoning.deviation`. As soon as an arm other than the target has
    ``n >= ln T/delta_0^2`` plays, the attacker reports plays of it that never were, which bring its
    mean down to the goal: one play that paid ``goal (n + 1) - m n``, or, if no reward below
    ``least`` may be reported, ``ceil(n (m - goal)/(goal - least))`` plays that paid ``least``.

    UCB with the bonus ``3 sigma sqrt(ln t/n)`` then has an index for it of at most
    ``goal + 3 sigma delta_0``, which with probability ``1 - delta`` is below the target's for ever:
    all other arms are played ``(K - 1) ceil(ln T/delta_0^2)`` times in all.

    Attributes:
        policy: the learner; it must take feedback of plays that it did not choose.
        environment: the laws of the arms.
        horizon: the number of rounds that are played; reported ones do not count.
        target: the arm to promote; by default the worst.
        delta_0: how far the others are kept below the target.
        delta: the chance that the attack may fail.
        sigma: the sub-Gaussian parameter of rewards.
        least: the least reward that may be reported.
        plays: after how many plays an arm is struck; by default ``ln T/delta_0^2``.
        margin: by how much the goal is lower; by default ``3 sigma delta_0``.
        attacked: whether there is an attack at all.
        seed: the seed of all randomness.
        replications: the number of independent runs.
    """

    policy: Policy
    environment: Environment
    horizon: int
    target: int | None = None
    delta_0: float = 0.2
    delta: float = 0.05
    sigma: float = 1.0
    least: float = -math.inf
    plays: float | None = None
    margin: float | None = None
    attacked: bool = True
    seed: int = 0
    replications: int = 1

    def run(self) -> InjectionResult:
        """Play the replications.

        Returns:
            A row for each replication and checkpoint: the plays of the target, how many plays were
            reported that never were, and their cost: how far what was reported is from the mean of
            the arm, added up.
        """
        self.make_injector()
        rows = [self._play(number) for number in range(self.replications)]
        return InjectionResult(pl.concat(rows), self.replications)

    def make_injector(self) -> Injector:
        """Return the attacker before the first round."""
        for name, limits in _LIMITS.items():
            check_number(name, getattr(self, name), limits, whole=name in _COUNTS)
        means = self.environment.mean_rewards(self.horizon)
        target = int(np.argmin(means)) if self.target is None else self.target
        if not 0 <= target < means.size:
            raise InvalidParameter(f"target must be an arm in [0, {means.size - 1}]; got {target}.")
        if not self.delta_0 > 0.0:
            raise InvalidParameter(f"delta_0 must be above 0; got {self.delta_0}.")
        plays = math.log(self.horizon) / self.delta_0**2 if self.plays is None else self.plays
        margin = 3.0 * self.sigma * self.delta_0 if self.margin is None else self.margin
        empty = np.zeros(means.size)
        return Injector(
            sums=empty,
            pulls=np.zeros(means.size, dtype=np.int64),
            injected=np.zeros(means.size, dtype=np.int64),
            cost=np.zeros(1),
            means=means,
            target=target,
            plays=float(plays) if self.attacked else math.inf,
            margin=float(margin),
            delta=self.delta,
            sigma=self.sigma,
            least=float(self.least),
        )

    def _play(self, number: int) -> pl.DataFrame:
        injector, checkpoints = self.make_injector(), checkpoints_for(self.horizon)
        law = self.environment.law()
        law.place[:] = reward_place(self.seed, number)
        state = self.policy.start(injector.means.size, self.horizon)
        record, drawn = np.zeros((checkpoints.size, 3)), make_drawn(injector.means.size)
        live = LiveRewards(law, drawn, np.zeros(injector.means.size))
        stream = stream_for(self.seed, Purpose.LEARNER, number)
        play = _make_loop(fingerprint(implementations(state)))
        call_entry(play, state, stream, live.rewards, drawn, injector, checkpoints, record)
        columns = dict(zip(("target_pulls", "injected", "cost"), record.T, strict=True))
        return pl.DataFrame({"round": checkpoints, **columns}).with_columns(replication=number)


@inlined
def goal_of(injector: Injector) -> float:
    """The mean to which the other arms are brought, as the plays of the target have it now."""
    pulls, target = injector.pulls, injector.target
    own = injector.sums[target] / pulls[target]
    known = deviation(pulls[target], pulls.size, injector.delta, injector.sigma)
    return float(own - 2.0 * known - injector.margin)


@inlined
def forged_plays(injector: Injector, arm: int) -> tuple[int, float]:
    """Return how many plays of an arm to report now, and what each of them is said to have paid."""
    pulls = injector.pulls[arm]
    if (
        arm == injector.target
        or pulls < injector.plays
        or injector.injected[arm] > 0
        or injector.pulls[injector.target] == 0
    ):
        return 0, 0.0
    goal, mean = goal_of(injector), injector.sums[arm] / pulls
    if mean <= goal:
        return 0, 0.0
    alone = goal * (pulls + 1) - mean * pulls
    if alone >= injector.least:
        return 1, alone
    if goal <= injector.least:  # no number of plays brings the mean there
        return 0, 0.0
    return math.ceil(pulls * (mean - goal) / (goal - injector.least)), injector.least


@inlined
def tally_and_strike(injector: Injector, arm: int, reward: float) -> tuple[int, float]:
    """Count a round, and return the plays to report after it, which are booked."""
    injector.sums[arm] += reward
    injector.pulls[arm] += 1
    count, forged = forged_plays(injector, arm)
    injector.injected[arm] += count
    injector.cost[0] += count * abs(forged - injector.means[arm])
    return count, forged


@cache
def _make_loop(code: str) -> Callable[..., None]:
    """Make the loop for states whose implementations have the fingerprint ``code``."""

    @entry(code)
    def play_injected(
        policy: Any,
        stream: Stream,
        rewards: Rewards,
        drawn: RewardChunk,
        injector: Injector,
        checkpoints: npt.NDArray[np.int64],
        record: Floats,
    ) -> None:
        """Play up to the last checkpoint, and give the learner what is reported."""
        played = 0
        for row in range(checkpoints.size):
            for number in range(played, checkpoints[row]):
                column = number % CHUNK
                if column == 0:
                    call_at(rewards.fill, rewards.state, (number // CHUNK, 0, CHUNK))
                ticket = decide(policy, stream)
                reward = drawn.rewards[np.uint64(ticket.arm), np.uint64(column)]
                learn(policy, ticket, reward)
                count, forged = tally_and_strike(injector, ticket.arm, reward)
                for _ in range(count):
                    learn(policy, assign(policy, make_ticket(ticket.arm)), forged)
            played = checkpoints[row]
            record[row, 0] = injector.pulls[injector.target]
            record[row, 1] = injector.injected.sum()
            record[row, 2] = injector.cost[0]

    return play_injected
