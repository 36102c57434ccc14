"""Checks of a policy in a live learner, and of its log replayed as it was or with parts removed.

Rewards come late or in batches, arms come and go, and a policy takes decisions that its state would
not have made.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from armrace.kernels.laws import rewards_between
from armrace.kernels.states import equal_states
from armrace.learner import Assigned, Decision, Dropped, Event, Learned, Learner, Ticket
from armrace.policies import Policy
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out
from armrace.testing.contract import ARMS, HORIZON, MEANS, expect, expect_sound

_PAUSED_ROUNDS = 3000


def learner_equals_simulator(policy: Policy) -> None:
    """Check that the live learner, given the simulator's rewards, makes the same decisions."""
    experiment = make_experiment(
        policy=policy, environment=MEANS, horizon=HORIZON, replications=1, seed=4
    )
    parts = make_parts(experiment, 0)
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=4)
    for row in rewards_between(parts.law, 0, experiment.horizon):
        decision = learner.decide()
        learner.learn(decision, float(row[decision.ticket.arm]))
    play_out(parts)
    expect(
        equal_states(parts.policy, learner._state),
        policy,
        "ends elsewhere live than in the simulator",
    )


def restoring_changes_nothing(policy: Policy) -> None:
    """Check that a learner restored from a snapshot continues like the original."""
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=6)
    coins = np.random.default_rng(6)
    held = [learner.decide() for _ in range(40)]
    for decision in held[::2]:
        learner.learn(decision, float(coins.random() < MEANS[decision.ticket.arm]))
    restored = Learner.restore(learner.snapshot().to_json(), policy=policy)
    for decision in held[1::2]:
        learner.learn(decision, 1.0)
        restored.learn(decision, 1.0)
    for _ in range(200):
        one, other = learner.decide(), restored.decide()
        same = str(one) == str(other)  # where the probability is NaN, == would never hold
        expect(same, policy, f"decides {one} but restored {other}")
        reward = float(coins.random() < MEANS[one.ticket.arm])
        learner.learn(one, reward)
        restored.learn(other, reward)
    expect(learner.snapshot() == restored.snapshot(), policy, "ends elsewhere when it was restored")


def feedback_may_come_anyhow(policy: Policy) -> None:
    """Check that late, reordered and missing rewards are accepted, and counted once each."""
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=8)
    coins = np.random.default_rng(8)
    decisions = [learner.decide() for _ in range(150)]
    order = coins.permutation(150)
    for position in order[:100]:
        decision = decisions[position]
        learner.learn(decision, float(coins.random() < MEANS[decision.ticket.arm]))
    expect(learner.pending == 50, policy, f"has {learner.pending} rewards pending, not 50")
    expect_sound(policy, learner._state)


def batches_equal_single_calls(policy: Policy) -> None:
    """Check that decisions and rewards in batches equal those one by one."""
    one = Learner(policy, arms=ARMS, horizon=HORIZON, seed=24)
    many = Learner(policy, arms=ARMS, horizon=HORIZON, seed=24)
    coins = np.random.default_rng(24)
    for size in (1, 7, 40):
        batch = many.decide_many(size)
        singles = [one.decide() for _ in range(size)]
        expect(str(list(batch)) == str(singles), policy, "decides otherwise in a batch")
        rewards = (coins.random(size) < 0.5).astype(np.float64)
        for decision, reward in zip(singles, rewards.tolist(), strict=True):
            one.learn(decision, reward)
        many.learn_many(batch, rewards)
    same = equal_states(one._live.policy, many._live.policy)
    expect(same, policy, "learns otherwise from a batch")


def new_arms_are_unknown(policy: Policy) -> None:
    """Check that an arm added during a run is equivalent to an arm that was never played."""
    if not policy.takes_new_arms:
        return
    learner = Learner(policy, arms=ARMS - 1, horizon=HORIZON, seed=25)
    for _ in range(60):
        decision = learner.decide()
        learner.learn(decision, float(decision.number % 2))
    before = {view.arm: view for view in learner.inspect()}
    learner.add_arm("new")
    after = {view.arm: view for view in learner.inspect()}
    if before:  # a policy need not show its arms
        expect(len(after) == ARMS, policy, f"shows {len(after)} of {ARMS} arms when one is added")
        kept = all(after[arm].pulls == view.pulls for arm, view in before.items())
        expect(kept, policy, "forgets its arms when one is added")
        expect(after[ARMS - 1].pulls == 0, policy, "has rewards of an arm that is new")
    played = False
    for _ in range(100):
        decision = learner.decide()
        played = played or decision.arm == "new"
        learner.learn(decision, 0.5)
    expect(played, policy, "never plays an arm that was added")
    _expect_folded(policy, learner, HORIZON, "once an arm was added", ARMS - 1)


def paused_arms_are_not_missed(policy: Policy) -> None:
    """Check that a policy that declares it goes on without its best arm, and gets it back.

    The worse of the two arms that are left is played about as seldom as by a policy that never had
    another one. A leader that is not told would play both alike.
    """
    best, worst, coins = 0, ARMS - 1, np.random.default_rng(27)
    learner = Learner(policy, arms=ARMS, horizon=_PAUSED_ROUNDS, seed=27)
    if not policy.loses_arms:
        return
    _count(learner, worst, coins)
    learner.pause_arm(best)
    restored = Learner.restore(learner.snapshot().to_json(), policy=policy)
    expect(restored.paused == [best], policy, "forgets a paused arm when it is restored")
    _count(learner, worst, coins)
    played = _count(learner, worst, coins)
    expect(learner.distribution()[best] == 0.0, policy, "gives a paused arm a probability")
    others = Learner(policy, arms=[1, worst], horizon=_PAUSED_ROUNDS, seed=27)
    _count(others, worst, coins)
    alone = _count(others, worst, coins)
    sentence = f"plays the worse arm {played} times once the best is paused, and {alone} without it"
    expect(played <= 1.5 * alone + _PAUSED_ROUNDS / 100, policy, sentence)
    learner.resume_arm(best)
    expect(_count(learner, best, coins) > 0, policy, "never plays an arm again that was paused")
    _expect_folded(policy, learner, _PAUSED_ROUNDS, "once an arm was paused")


def _count(learner: Learner, arm: int, coins: np.random.Generator) -> int:
    """Play a third of the rounds; return how often an arm was played."""
    plays = 0
    for _ in range(_PAUSED_ROUNDS // 3):
        decision = learner.decide()
        plays += decision.arm == arm
        learner.learn(decision, float(coins.random() < MEANS[int(decision.arm)]))
    return plays


def _expect_folded(
    policy: Policy, learner: Learner, horizon: int, when: str, arms: int = ARMS
) -> None:
    replayed = Learner.replay(learner.log, policy, arms, horizon, learner.seed)
    same = equal_states(learner._live.policy, replayed._live.policy)
    expect(same, policy, f"has another state than its folded log {when}")


def decisions_of_others_leave_no_trace(policy: Policy) -> None:
    """Check that decisions of others teach a policy nothing that weights by probabilities."""
    if not policy.draws_by_weights or policy.learns_from_others:
        return
    learner = Learner(policy, arms=ARMS, horizon=HORIZON, seed=28)
    for _ in range(60):
        decision = learner.decide()
        learner.learn(decision, MEANS[decision.ticket.arm])
    before = learner.distribution()
    arm = max(before, key=lambda each: before[each] if before[each] < 1.0 else -1.0)
    for number in range(20):
        shown = learner.assign(Ticket(int(arm), probability=1.0))
        learner.learn(shown, 1.0) if number % 2 else learner.drop(shown)
    expect(learner.distribution() == before, policy, "learns from a decision that was not its own")
    _expect_folded(policy, learner, HORIZON, "after a decision of others")


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
