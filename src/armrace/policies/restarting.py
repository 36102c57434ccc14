"""A wrapper that lets any policy start afresh: now and then, or when the rewards of an arm change.

At a restart the state of the base becomes that of the start, and nothing learned before counts.
Rewards of earlier decisions that come later are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.copying import copy_state
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    distribution_among,
    drop,
    learn,
    replacing,
)
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.base import ArmView
from armrace.policies.common.blocks import SMALLEST_BLOCK, Blocks, end_blocks, make_blocks
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.common.wrapping import Wrapper, require_restrictable, resolve_base
from armrace.specification import MAXIMAL_HORIZON

_numbered = replacing(Ticket, "inner_memo")


class Restarting(Wrapper, frozen=True, tag="restarting"):
    """Starts a base policy afresh: every so many rounds, in periods that double, or at an alarm.

    With ``when`` ``period``, after every ``period`` rounds, for which the base plans. With
    ``doubling``, after ``period`` rounds, then after twice as many, and so on.

    With ``alarm``, when the rewards of an arm have changed, by the comparison that an
    :func:`armrace.audit.audit` makes: each block of 16, 32, 64, ... rewards of an arm is compared
    with all of the arm's rewards before it, since the last restart. The alarm is raised where

        ``n kl(x, z) + m kl(y, z) - ln(pi (n + 1/2))/2 - ln(pi (m + 1/2))/2 + ln(w)``

    is above ``ln(K S / level)``, for ``n`` rewards with mean ``x`` before the block, ``m`` with
    mean ``y`` in it, ``z`` the mean of all, ``w`` the weight of the block's place, and ``S`` sizes
    of blocks: if means do not move and nobody forges, with a probability of at most ``level``.
    Between two restarts, that is; a run has as many such chances as restarts.

    **What an alarm cannot notice.** An arm that gets better while it is not played. A base that
    has settled hardly plays the others; it notices that its own arm got worse.

    **What restarts cost.** Each one costs what the base needs to learn again. Without
    changes and forgers, one with ``alarm`` costs almost nothing, and one with ``period`` multiplies
    the regret by about the number of periods. A forger who causes alarms makes it forget.

    A base may be given by name or, with parameters, as ``{"name": "ucb1"}``. Policies for visitors
    who differ are refused.

    >>> policy = Restarting(base="ucb1", when="doubling", period=4)
    >>> state, stream = policy.start(arms=2, horizon=100), None
    >>> for _ in range(12):  # restarts after 4 rounds and after 8 more
    ...     ticket = assign(state, choose(state, stream))
    ...     learn(state, ticket, 1.0)
    >>> int(state.clock[RESTARTS])
    2
    """

    family: ClassVar[str] = "robust"
    reference: ClassVar[str] = (
        "This library's theory page on audits, for the alarm; restarts in periods are folklore"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = (
        "The alarm is compared with that of an audit on the same rewards, and each period with a "
        "run of the base by itself."
    )

    base: Annotated[Any, "policy that starts afresh: a name, or its parameters with a name"] = (
        "thompson"
    )
    when: Annotated[Literal["alarm", "period", "doubling"], "what makes it start afresh"] = "alarm"
    period: Annotated[
        int, Limits("rounds until a restart, with doubling until the first", 1, MAXIMAL_HORIZON)
    ] = 1000
    level: Annotated[
        float,
        Limits("chance of a false alarm between restarts", 0, 1, low_open=True, high_open=True),
    ] = 0.05

    def validate(self) -> None:
        base = resolve_base(self)
        if base.takes_contexts:
            raise InvalidParameter(
                f"base must be a policy for visitors who are alike; got {base.tag()}."
            )
        require_restrictable(base)

    def layer_count(self, arms: int, horizon: int) -> int:
        return int(self.base.layer_count(arms, self._planned(horizon)))

    def start(self, arms: int, horizon: int) -> RestartingState:
        blocks = make_blocks(arms, horizon)
        first = math.inf if self.when == "alarm" else self.period
        return RestartingState(
            memory=self._memory(arms, horizon),
            clock=np.zeros(2, dtype=np.int64),
            periods=np.array([first, 2.0 if self.when == "doubling" else 1.0]),
            threshold=math.log(arms * blocks.sums.shape[1] / self.level)
            if self.when == "alarm"
            else math.inf,
            scratch=self._memory(arms, horizon),
        )

    def inspect(self, state: RestartingState) -> Sequence[ArmView]:
        return self.base.inspect(state.memory.base)

    def _memory(self, arms: int, horizon: int) -> Memory:
        return Memory(
            base=self.base.start(arms, self._planned(horizon)),
            counts=make_counts(arms),
            blocks=make_blocks(arms, horizon),
        )

    def _planned(self, horizon: int) -> int:
        return min(self.period, horizon) if self.when == "period" else horizon


class Memory(NamedTuple):
    """What is forgotten at a restart."""

    base: Any
    counts: Counts
    blocks: Blocks


RESTARTS, SINCE = 0, 1
"""Positions in the clock: how many restarts there were, and the rounds since the last one."""

_LENGTH, _FACTOR = 0, 1


class RestartingState(NamedTuple):
    """What was learned since the last restart, and what the next one waits for."""

    memory: Memory
    clock: npt.NDArray[np.int64]
    periods: npt.NDArray[np.float64]
    """The rounds of this period, and by how much the next one is longer."""
    threshold: float
    """The evidence of a change that raises the alarm."""
    scratch: Memory
    """What is known at the start: nothing."""


@outlined
def _restart(state: RestartingState) -> None:
    copy_state(state.memory, state.scratch)
    state.clock[RESTARTS] += 1
    state.clock[SINCE] = 0


@inlined
def _end_period(state: RestartingState) -> None:
    if state.clock[SINCE] >= state.periods[_LENGTH]:
        _restart(state)
        state.periods[_LENGTH] *= state.periods[_FACTOR]


@implement(distribution, RestartingState)
def restarting_distribution(state: RestartingState, out: npt.NDArray[np.float64]) -> None:
    distribution(state.memory.base, out)


@implement(distribution_among, RestartingState)
def restarting_distribution_among(
    state: RestartingState, eligible: npt.NDArray[np.bool_], out: npt.NDArray[np.float64]
) -> None:
    distribution_among(state.memory.base, eligible, out)


@implement(choose, RestartingState)
def restarting_choose(state: RestartingState, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose(state.memory.base, stream, eligible)


@implement(assign, RestartingState)
def restarting_assign(state: RestartingState, ticket: Ticket) -> Ticket:
    _end_period(state)  # if its last reward has not come yet
    completed = assign(state.memory.base, ticket)
    count_play(state.memory.counts, completed.arm)
    state.clock[SINCE] += 1
    return _numbered(completed, float(state.clock[RESTARTS]))


@implement(learn, RestartingState)
def restarting_learn(state: RestartingState, ticket: Ticket, reward: float) -> None:
    if ticket.inner_memo != state.clock[RESTARTS]:
        return  # a decision of before the restart
    memory, arm = state.memory, ticket.arm
    learn(memory.base, _numbered(ticket, 0.0), reward)
    record(memory.counts, arm, reward)
    pulls, total = memory.counts.pulls[arm], memory.counts.sums[arm]
    if pulls % SMALLEST_BLOCK == 0:
        outstanding = max(0, memory.counts.assigned[arm] - pulls)
        end_blocks(memory.blocks, arm, pulls, total, outstanding, memory.counts.rounds[0])
        if memory.blocks.evidence[arm].max() > state.threshold:
            _restart(state)
    _end_period(state)


@implement(drop, RestartingState)
def restarting_drop(state: RestartingState, ticket: Ticket) -> None:
    if ticket.inner_memo == state.clock[RESTARTS]:
        drop(state.memory.base, _numbered(ticket, 0.0))
