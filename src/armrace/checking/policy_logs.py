"""Checks of a policy whose log is applied again, as it was or with something taken back.

The policy then takes decisions that its state would not have made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from armrace.checking.contract import expect
from armrace.checking.policy_stage import ARMS, HORIZON, MEANS, expect_sound
from armrace.kernels.generics import Ticket
from armrace.kernels.states import equal_states
from armrace.online import Assigned, Decision, Dropped, Event, Learned, Learner
from armrace.policies import Policy


def folded_log_is_the_state(policy: Policy) -> None:
    """Check that a log, applied to a fresh learner, gives the same state and later decisions."""
    learner, _ = _live(policy, 21)
    replayed = _replayed(policy, learner.log, 21)
    same = equal_states(learner._live.policy, replayed._live.policy)
    expect(same, policy, "has another state than its folded log")
    same = str(list(learner.log)) == str(list(replayed.log))  # NaN is not equal to itself
    expect(same, policy, "completes tickets otherwise when its log is folded")
    one, other = learner.decide(), replayed.decide()
    expect(str(one) == str(other), policy, f"decides {one} live but {other} from its log")


def retracted_rewards_leave_no_trace(policy: Policy) -> None:
    """Check that a log without some rewards gives the learner that never received them.

    The decisions were made by the state that had the rewards, so in general they are not those
    that the state without the rewards would make. The log has their tickets as that state completed
    them; the learner that never received the rewards completes the drawn tickets itself. Both must
    agree, so ``assign`` may take nothing from a ticket that a state has filled in.
    """
    learner, drawn = _live(policy, 22)
    log = list(learner.log)
    kept = [e for e in log if not (isinstance(e, Learned) and e.number % 3 == 0)]
    refolded = _replayed(policy, kept, 22)
    never = Learner(policy, arms=ARMS, horizon=HORIZON, seed=22)
    assigned: dict[int, Decision] = {}
    for event in log:
        if isinstance(event, Assigned):
            assigned[event.number] = never.assign(drawn[event.number])
        elif isinstance(event, Learned) and event.number % 3:
            never.learn(assigned[event.number], event.reward)
        elif isinstance(event, Dropped):
            never.drop(assigned[event.number])
    same = equal_states(refolded._live.policy, never._live.policy)
    expect(same, policy, "remembers rewards that were retracted")
    expect_sound(policy, refolded._state, " after a retraction")


def voided_decisions_leave_no_trace(policy: Policy) -> None:
    """Check that a log without some decisions gives the learner that never made them.

    They are left out with their rewards, and the decisions after them stand. Tickets are given as
    the state that had made all decisions completed them, and as they were drawn: both must lead to
    the same state, from which the policy can go on.
    """
    learner, drawn = _live(policy, 24)
    voided, never = (Learner(policy, arms=ARMS, horizon=HORIZON, seed=24) for _ in range(2))
    assigned: dict[int, tuple[Decision, Decision]] = {}
    for event in learner.log:
        if isinstance(event, Assigned):
            if event.number % 3:
                pair = voided.recount(event.ticket), never.recount(drawn[event.number])
                assigned[event.number] = pair
        elif isinstance(event, Learned | Dropped) and event.number in assigned:
            for each, decision in zip((voided, never), assigned[event.number], strict=True):
                if isinstance(event, Learned):
                    each.learn(decision, event.reward)
                else:
                    each.drop(decision)
    same = equal_states(voided._live.policy, never._live.policy)
    expect(same, policy, "remembers decisions that were voided")
    expect_sound(policy, voided._state, " without some of its decisions")
    arm = voided.decide().ticket.arm
    expect(0 <= arm < ARMS, policy, f"chooses arm {arm} without some of its decisions")


def foreign_decisions_are_taken(policy: Policy) -> None:
    """Check that decisions that the state would not make itself are counted and learned from.

    They come from every layer. A policy whose state can be inspected must count each of them, and
    its reward, for the arm. For any policy those of some layer must leave a trace in the state:
    rounds of another layer may be played without being learned from.
    """
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=23)
    layers = policy.layer_count(ARMS, HORIZON)
    coins = np.random.default_rng(23)
    ignored: dict[int, Ticket] = {}
    for number in range(200):
        arm = int(coins.integers(ARMS))
        ticket = Ticket(arm=arm, layer=number % layers, probability=1.0 / ARMS)
        fresh, (assigned, pulls) = copy.deepcopy(learner._state), _counted(learner, arm)
        decision = learner.assign(ticket)
        expect(decision.arm == arm, policy, f"assigns arm {decision.arm} for {arm}")
        learner.learn(decision, float(coins.random() < MEANS[arm]))
        if equal_states(fresh, learner._state):
            ignored[ticket.layer] = ticket
        grown = _counted(learner, arm)
        counted = not learner.inspect() or grown == (assigned + 1, pulls + 1)
        expect(counted, policy, f"does not count the decision {ticket} of another state")
    last = ignored.get(layers - 1)
    expect(len(ignored) < layers, policy, f"ignores the decision {last} of another state")
    expect_sound(policy, learner._state)


def _live(policy: Policy, seed: int) -> tuple[Learner, list[Ticket]]:
    """Return a learner after feedback that was partly late, reordered, missing and dropped.

    The tickets are those of its decisions as they were drawn, before the state completed them.
    """
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=seed)
    coins = np.random.default_rng(seed)
    drawn: list[Ticket] = []
    waiting: list[Decision] = []
    for _ in range(300):
        drawn.append(learner.choose())
        waiting.append(learner.assign(drawn[-1]))
        while len(waiting) > 20 or (waiting and coins.random() < 0.4):
            decision = waiting.pop(int(coins.integers(len(waiting))))
            if coins.random() < 0.05:
                learner.drop(decision)
            else:
                learner.learn(decision, float(coins.random() < MEANS[decision.ticket.arm]))
    return learner, drawn


def _replayed(policy: Policy, log: Iterable[Event], seed: int) -> Learner:
    return Learner.replay(log, policy, ARMS, HORIZON, seed)


def _counted(learner: Learner, arm: int) -> tuple[int, int]:
    """Return how many decisions and rewards of an arm all layers have counted together."""
    views = [view for view in learner.inspect() if view.arm == arm]
    return sum(view.assigned for view in views), sum(view.pulls for view in views)
