"""Policies and attacks that break the contract are found out, each by the check meant for it."""

from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from armrace.adversaries import Adversary, ZeroBest
from armrace.extending import (
    CountingPolicy,
    Counts,
    Eligible,
    Stream,
    Ticket,
    assign,
    choose,
    corrupt,
    count_play,
    distribution,
    implement,
    learn,
    make_counts,
    make_ticket,
    record,
    stamped,
    uniform,
)
from armrace.learner import Learner
from armrace.testing import ContractBroken, check_adversary, contract
from armrace.testing.policies import (
    batches_equal_single_calls,
    choosing_leaves_no_trace,
    distribution_is_one,
    distribution_only_looks,
    extremes_leave_it_sound,
    feedback_may_come_anyhow,
    folded_log_is_the_state,
    foreign_decisions_are_taken,
    frequencies_match,
    indices_stay_in_bounds,
    new_arms_are_unknown,
    restoring_changes_nothing,
    restricted_choices_are_as_announced,
    retracted_rewards_leave_no_trace,
    tickets_carry_their_probability,
    voided_decisions_leave_no_trace,
    weights_are_declared,
)


class EvenState(NamedTuple):
    counts: Counts
    trace: np.ndarray
    """A number that every reward adds to."""
    scratch: np.ndarray
    fault: np.ndarray


(
    OUT_OF_BOUNDS,
    CHOOSES_AND_COUNTS,
    COUNTS_RESTRICTED_CHOICES,
    WRONG_PROBABILITY,
    WRONG_RESTRICTED_PROBABILITY,
    IGNORES_ELIGIBLE,
    BIASED,
    BIASED_AMONG_ELIGIBLE,
    WEIGHTS_OF_TWO,
    CHANGES_WHEN_ASKED,
    NO_WEIGHTS_WHILE_WAITING,
    COMPLETES_TWICE,
    TRUSTS_THE_TICKET,
    ASSIGNS_ITS_OWN_ONLY,
    LEARNS_FROM_ITS_OWN_ONLY,
    REMEMBERS_IN_SCRATCH,
    IGNORES_NEW_ARMS,
    DIVIDES_BY_ZERO,
    OVERRUNS,
    INNER_ARM_OUT_OF_BOUNDS,
) = range(1, 21)
OWN = 1.0
"""What ``choose`` writes on its tickets, and a decision from elsewhere does not carry."""


class Even(CountingPolicy, frozen=True, tag="even"):
    """Draws all arms evenly, with one mistake."""

    takes_new_arms: ClassVar[bool] = True
    draws_by_weights: ClassVar[bool] = True
    fault: int = 0

    def start(self, arms, horizon):
        return EvenState(make_counts(arms), np.zeros(1), np.zeros(1), np.array([self.fault]))


class Undeclared(Even, frozen=True, tag="undeclared"):
    """The same, but does not say that it draws by weights."""

    draws_by_weights: ClassVar[bool] = False


@implement(distribution, EvenState)
def even_distribution(state, out):
    fault = state.fault[0]
    out.fill(1.0 / out.size)
    if fault == WEIGHTS_OF_TWO:
        out.fill(2.0 / out.size)
    if fault == CHANGES_WHEN_ASKED:
        state.trace[0] += 1.0
    if fault == NO_WEIGHTS_WHILE_WAITING and np.sum(state.counts.pulls) < state.counts.rounds[0]:
        out.fill(0.0)


@implement(choose, EvenState)
def even_choose(state: EvenState, stream: Stream, eligible: Eligible = None) -> Ticket:
    fault, arms = state.fault[0], state.counts.pulls.size
    even = 1.0 / arms
    known = arms - 1 if fault == IGNORES_NEW_ARMS and state.counts.rounds[0] >= 60 else arms
    position = uniform(stream)
    if fault == REMEMBERS_IN_SCRATCH:
        position = (position + 0.37 * state.scratch[0]) % 1.0
    arm = int(position * position * arms if fault == BIASED else position * known)
    if eligible is not None:
        even = 1.0 / np.sum(eligible)
        while not eligible[arm] and fault != IGNORES_ELIGIBLE:
            arm = (
                (arm + 1) % arms if fault == BIASED_AMONG_ELIGIBLE else int(uniform(stream) * arms)
            )
        if fault == WRONG_RESTRICTED_PROBABILITY:
            even = 1.0 / arms
    if fault == OUT_OF_BOUNDS and state.counts.rounds[0] == 50:
        arm = arms
    if fault == CHOOSES_AND_COUNTS or (fault == COUNTS_RESTRICTED_CHOICES and eligible is not None):
        state.counts.rounds[0] += 1
    if fault == INNER_ARM_OUT_OF_BOUNDS:
        return Ticket(arm, 0, even, 0, OWN, 0, 1.0, arms, 0.0)
    return make_ticket(arm, 0, 0.5 if fault == WRONG_PROBABILITY else even, OWN)


@implement(assign, EvenState)
def even_assign(state: EvenState, ticket: Ticket) -> Ticket:
    fault = state.fault[0]
    if fault != ASSIGNS_ITS_OWN_ONLY or ticket.memo == OWN:
        count_play(state.counts, ticket.arm)
    phase = 1 + int(np.sum(state.counts.sums))
    if fault == COMPLETES_TWICE:
        phase = ticket.phase + 1
    if fault == TRUSTS_THE_TICKET and ticket.phase > 0:
        phase = ticket.phase  # of another state, if the decision comes from a log
    return stamped(ticket, phase, ticket.memo)


@implement(learn, EvenState)
def even_learn(state: EvenState, ticket: Ticket, reward: float) -> None:
    fault, counts = state.fault[0], state.counts
    if fault != LEARNS_FROM_ITS_OWN_ONLY or ticket.memo == OWN:
        record(counts, ticket.arm, reward)
    state.trace[0] += ticket.phase
    state.scratch[0] += reward
    if fault == DIVIDES_BY_ZERO:
        state.trace[0] += 0.0 * (1.0 / np.sum(counts.sums))
    if fault == OVERRUNS and np.sum(counts.sums) > 15_000:
        counts.pulls[counts.pulls.size] = 0


@pytest.mark.parametrize(
    ("fault", "check", "sentence"),
    [
        (OUT_OF_BOUNDS, indices_stay_in_bounds, "leaves the bounds of an array"),
        (INNER_ARM_OUT_OF_BOUNDS, indices_stay_in_bounds, "inner_arm=3.* there are 3 arms"),
        (WEIGHTS_OF_TWO, distribution_is_one, "weights that sum to 2"),
        (CHANGES_WHEN_ASKED, distribution_only_looks, "when asked for its weights"),
        (WRONG_PROBABILITY, tickets_carry_their_probability, "writes 0.5 on the ticket"),
        (BIASED, frequencies_match, "were expected"),
        (REMEMBERS_IN_SCRATCH, restoring_changes_nothing, "but restored"),
        (DIVIDES_BY_ZERO, extremes_leave_it_sound, "has a NaN in its state"),
        (OVERRUNS, extremes_leave_it_sound, "left the bounds of an array in round 15"),
        (NO_WEIGHTS_WHILE_WAITING, feedback_may_come_anyhow, "gives the weights"),
        (COMPLETES_TWICE, folded_log_is_the_state, "when its log is folded|folded log"),
        (TRUSTS_THE_TICKET, retracted_rewards_leave_no_trace, "that were retracted"),
        (TRUSTS_THE_TICKET, voided_decisions_leave_no_trace, "decisions that were voided"),
        (ASSIGNS_ITS_OWN_ONLY, foreign_decisions_are_taken, "does not count the decision"),
        (LEARNS_FROM_ITS_OWN_ONLY, foreign_decisions_are_taken, "does not count"),
        (CHOOSES_AND_COUNTS, choosing_leaves_no_trace, "changes its state when it chooses"),
        (COUNTS_RESTRICTED_CHOICES, choosing_leaves_no_trace, "when it chooses"),
        (IGNORES_ELIGIBLE, restricted_choices_are_as_announced, "that is not eligible"),
        (BIASED_AMONG_ELIGIBLE, restricted_choices_are_as_announced, "were expected"),
        (
            WRONG_RESTRICTED_PROBABILITY,
            restricted_choices_are_as_announced,
            r"announces \[.*0\.333.*\] among eligible arms",
        ),
        (IGNORES_NEW_ARMS, new_arms_are_unknown, "never plays an arm that was added"),
    ],
)
def test_a_mistake_is_named(fault, check, sentence):
    check(Even())
    with pytest.raises(ContractBroken, match=sentence):
        check(Even(fault=fault))


def test_a_leak_of_retracted_rewards_is_seen_by_no_other_check_of_logs():
    leaking = Even(fault=TRUSTS_THE_TICKET)
    folded_log_is_the_state(leaking)
    batches_equal_single_calls(leaking)
    restoring_changes_nothing(leaking)


def test_a_batch_that_loses_a_reward_is_named(monkeypatch):
    """No policy can tell a batch from single calls, so the mistake is the learner's."""
    learn_many = Learner.learn_many
    monkeypatch.setattr(
        Learner, "learn_many", lambda self, batch, rewards: learn_many(self, batch[1:], rewards[1:])
    )
    with pytest.raises(ContractBroken, match=r"otherwise (in|from) a batch"):
        batches_equal_single_calls(Even())


def test_weights_that_are_not_declared_are_found_out():
    weights_are_declared(Even())
    with pytest.raises(ContractBroken, match="round 1, but does not declare draws_by_weights"):
        weights_are_declared(Undeclared())


class OneEyed(Even, frozen=True, tag="one-eyed"):
    """Shows all arms but the last."""

    def inspect(self, state):
        return super().inspect(state)[:2]


def test_a_policy_that_does_not_show_a_new_arm_is_named():
    with pytest.raises(ContractBroken, match="shows 2 of 3 arms when one is added"):
        new_arms_are_unknown(OneEyed())


class BreachState(NamedTuple):
    arm: int
    amount: float
    first: int


class Breach(Adversary, frozen=True, tag="breach"):
    """Pays an amount for an arm, and says that it does so from a round on."""

    arm: int = 0
    amount: float = 0.0
    first: int = 0

    def start(self, setting):
        return BreachState(self.arm, self.amount, self.first)

    def windows(self, state, horizon):
        return [(state.first, horizon)]


@implement(corrupt, BreachState)
def pay_amount(state, round, weights, rewards, left, stream):
    rewards[state.arm] = state.amount


@pytest.mark.parametrize(
    ("mistake", "check", "sentence"),
    [
        ({"arm": 3}, contract.indices_stay_in_bounds, "leaves the bounds of an array"),
        ({"arm": 3}, contract.compiled_agrees, "leaves the bounds of an array"),
        ({"amount": 1.5}, contract.proposals_are_rewards, r"rewards to \[1\.5, 1\.5, 1\.5\]"),
        ({"amount": np.nan}, contract.proposals_are_rewards, r"rewards to \[nan"),
        ({"first": 2}, contract.windows_are_kept, r"its windows, in the rounds \[0, 1\]"),
        ({"amount": 1.5}, contract.budget_is_kept, "is refused 600 changes, with 0.0 of"),
    ],
)
def test_a_mistake_of_an_attack_is_named(mistake, check, sentence):
    with pytest.raises(ContractBroken, match=f"^breach .*{sentence}"):
        check(Breach(**mistake))


def test_an_index_out_of_bounds_is_found_before_compiled_code_runs_into_it():
    with pytest.raises(ContractBroken, match=r"^breach leaves the bounds of an array: index 3"):
        check_adversary(Breach(arm=3))


def test_an_attack_that_differs_when_compiled_is_named(monkeypatch):
    """The machine code of an attack is what its Python is, so the difference is made here."""
    run = contract.run_replication
    monkeypatch.setattr(
        contract,
        "run_replication",
        lambda *given: (found := run(*given))._replace(corruption=found.corruption + 1),
    )
    with pytest.raises(
        ContractBroken, match=r"^zero-best has the corruption 21\.0 compiled and 20"
    ):
        contract.compiled_agrees(ZeroBest())
