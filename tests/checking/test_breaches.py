"""Policies that break the contract are found out, each by the check that is meant for it."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from armrace.checking import ContractBroken
from armrace.checking import policies as checks
from armrace.extending import (
    CountingPolicy,
    Counts,
    Eligible,
    Stream,
    Ticket,
    assign,
    choose,
    count_play,
    distribution,
    implement,
    learn,
    make_counts,
    make_ticket,
    record,
    uniform,
)


class EvenState(NamedTuple):
    counts: Counts
    fault: np.ndarray


OUT_OF_BOUNDS, CHOOSES_AND_COUNTS, WRONG_PROBABILITY, IGNORES_ELIGIBLE = range(1, 5)


class Even(CountingPolicy, frozen=True, tag="even"):
    """Draws all arms evenly, with one mistake."""

    draws_by_weights: ClassVar[bool] = True
    fault: int = 0

    def start(self, arms, horizon):
        return EvenState(make_counts(arms), np.array([self.fault]))


class Undeclared(Even, frozen=True, tag="undeclared"):
    """The same, but does not say that it draws by weights."""

    draws_by_weights: ClassVar[bool] = False


@implement(distribution, EvenState)
def even_distribution(state, out):
    out.fill(1.0 / out.size)


@implement(choose, EvenState)
def even_choose(state: EvenState, stream: Stream, eligible: Eligible = None) -> Ticket:
    arms = state.counts.pulls.size
    arm = int(uniform(stream) * arms)
    even = 1.0 / arms
    if eligible is not None and state.fault[0] != IGNORES_ELIGIBLE:
        even = 1.0 / np.sum(eligible)
        while not eligible[arm]:
            arm = int(uniform(stream) * arms)
    if state.fault[0] == OUT_OF_BOUNDS and state.counts.rounds[0] == 50:
        arm = arms
    if state.fault[0] == CHOOSES_AND_COUNTS:
        state.counts.rounds[0] += 1
    return make_ticket(arm, 0, 0.5 if state.fault[0] == WRONG_PROBABILITY else even)


@implement(assign, EvenState)
def even_assign(state: EvenState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, EvenState)
def even_learn(state: EvenState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        (OUT_OF_BOUNDS, checks.indices_stay_in_bounds, "leaves the bounds of an array"),
        (CHOOSES_AND_COUNTS, checks.choosing_leaves_no_trace, "changes its state when it chooses"),
        (WRONG_PROBABILITY, checks.tickets_carry_their_probability, "writes 0.5 on the ticket"),
        (IGNORES_ELIGIBLE, checks.restricted_choices_are_as_announced, "that is not eligible"),
    ],
)
def test_a_mistake_is_named(fault, check, sentence):
    check(Even())
    with pytest.raises(ContractBroken, match=sentence):
        check(Even(fault=fault))


def test_weights_that_are_not_declared_are_found_out():
    checks.weights_are_declared(Even())
    with pytest.raises(ContractBroken, match="round 1, but does not declare draws_by_weights"):
        checks.weights_are_declared(Undeclared())
