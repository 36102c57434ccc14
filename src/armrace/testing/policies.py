"""The contract of a policy, as checks that users can run on their own policies.

Each check takes a policy and raises :class:`ContractBroken` with a sentence if the policy does
not keep that part of the contract. ``check_policy`` runs them all: those of what it announces
and draws, of its specification and of its compiled code, and those of a live learner and of its
log, replayed as it was or with parts removed: rewards come late or in batches, arms come and go,
and a policy takes decisions that its state would not have made. ``check_guarantee`` plays the
attacks of the library: none may cost more than is proven.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from armrace.environments import Bernoulli
from armrace.kernels.dispatch import implementations, implements
from armrace.kernels.engine import make_checked_loop
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    choose,
    decide,
    distribution_among,
    is_restrictable,
    learn,
)
from armrace.kernels.handles import call_entry
from armrace.kernels.laws import rewards_between
from armrace.kernels.states import equal_states
from armrace.learner import Assigned, Decision, Dropped, Event, Learned, Learner, Ticket
from armrace.policies import Policy
from armrace.policies.common.counts import RandomisedFeedback
from armrace.randomness import Purpose, stream_for
from armrace.red_team.library import winners_for
from armrace.red_team.search import builtin_attacks
from armrace.red_team.target import Target
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out
from armrace.simulation.simulate import run_experiments
from armrace.statistics import clopper_pearson, mean_interval
from armrace.testing.contract import (
    ARMS,
    HORIZON,
    MEANS,
    SUM_TOLERANCE,
    ContractBroken,
    Floats,
    compare_with_reference,
    expect,
    expect_sound,
    require_round_trip,
    walk,
    weights_of,
    within_bounds,
)
from armrace.theory import gaps_of

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
    if isinstance(policy, RandomisedFeedback) and policy.falls:
        best, worst = worst, best  # to it, the arm that pays least is the best
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
            assigned[event.number] = never.count(drawn[event.number])
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


_DRAWS = 1000
_LARGEST_STATISTIC = 50.0
"""A chi-square variable with two degrees of freedom exceeds this with probability exp(-25). The
margin is for weights so small that Pearson's statistic has a heavier tail."""


def indices_stay_in_bounds(policy: Policy) -> None:
    """Arms and layers exist, and arrays are used within their bounds.

    It runs interpreted and before all other checks: compiled code does not notice a wrong index,
    and would overwrite memory.
    """
    layers = policy.layer_count(ARMS, HORIZON)
    state, stream = policy.start(ARMS, HORIZON), stream_for(12, Purpose.LEARNER, 0)
    coins = np.random.default_rng(12)
    with within_bounds(policy):
        for _ in range(HORIZON):
            weights_of(state)
            ticket = decide(state, stream)
            sound = 0 <= ticket.arm < ARMS and NO_LAYER <= ticket.layer < layers
            sound = sound and NO_LAYER <= ticket.inner_layer < layers
            sound = sound and NO_ARM <= ticket.inner_arm < ARMS
            expect(sound, policy, f"gives {ticket} where there are {ARMS} arms and {layers} layers")
            learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def distribution_is_one(policy: Policy) -> None:
    """Check that weights are probabilities that sum to 1, in every state of a run."""
    for rounds in (0, 1, 2, 3, 10, 100, HORIZON):
        state, _ = walk(policy, rounds)
        weights = weights_of(state)
        expect(bool(np.all(weights >= 0)), policy, f"gives the weights {weights}")
        total = float(weights.sum())
        expect(abs(total - 1) < SUM_TOLERANCE, policy, f"gives weights that sum to {total}")


def weights_are_declared(policy: Policy) -> None:
    """Check that a policy whose tickets carry probabilities below 1 says that it draws by them."""
    state, stream = policy.start(ARMS, HORIZON), stream_for(13, Purpose.LEARNER, 0)
    coins = np.random.default_rng(13)
    for number in range(HORIZON):
        ticket = decide(state, stream)
        declared = policy.draws_by_weights or not ticket.probability < 1.0
        breach = f"draws by weights in round {number + 1}, but does not declare draws_by_weights"
        expect(declared, policy, breach)
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def distribution_only_looks(policy: Policy) -> None:
    """Check that computing the distribution does not change the state."""
    state, _ = walk(policy, 50)
    before = copy.deepcopy(state)
    first, second = weights_of(state), weights_of(state)
    expect(bool(np.array_equal(first, second)), policy, "gives other weights when asked twice")
    expect(equal_states(before, state), policy, "changes its state when asked for its weights")


def tickets_carry_their_probability(policy: Policy) -> None:
    """Check that the probability on a ticket equals that of the distribution."""
    state, stream = walk(policy, 0)
    coins = np.random.default_rng(5)
    for _ in range(200):
        weights = weights_of(state)
        ticket = decide(state, stream)
        announced = float(weights[ticket.arm]) if policy.exact_tickets else math.nan
        expect(
            math.isclose(ticket.probability, announced, rel_tol=1e-9)
            or (math.isnan(ticket.probability) and math.isnan(announced)),
            policy,
            f"announces {announced} and writes {ticket.probability} on the ticket",
        )
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))


def frequencies_match(policy: Policy) -> None:
    """Check that arms are drawn with the stated probabilities, by Pearson's test, seeds fixed."""
    for rounds in (0, 7, 100, 400):
        state, stream = walk(policy, rounds)
        weights = weights_of(state)
        counts = np.zeros(ARMS)
        for _ in range(_DRAWS):
            counts[choose(state, stream).arm] += 1  # the state stays, and with it its distribution
        _expect_frequencies(policy, counts, weights)


def choosing_leaves_no_trace(policy: Policy) -> None:
    """Check that a choice that is not assigned changes nothing except scratch space."""
    state, stream = walk(policy, 120)
    before, weights = copy.deepcopy(state), weights_of(state)
    for _ in range(5):
        choose(state, stream)
        if is_restrictable(state):
            choose(state, stream, np.array([True, False, True]))
    expect(equal_states(before, state), policy, "changes its state when it chooses")
    same = bool(np.allclose(weights, weights_of(state), rtol=1e-9, atol=0))
    expect(same, policy, "has other weights after a choice that was not assigned")


def restricted_choices_are_as_announced(policy: Policy) -> None:
    """Check restricted choices: only eligible arms, as often as tickets or the policy announce.

    Where tickets carry a probability, it must be that of the restricted draw; where the policy
    implements ``distribution_among``, draws and tickets must agree with it.
    """
    for rounds, eligible in ((0, [False, True, True]), (90, [True, False, True])):
        state, stream = walk(policy, rounds)
        if not is_restrictable(state):
            return
        mask, counts, announced = np.array(eligible), np.zeros(ARMS), np.full(ARMS, np.nan)
        if implements(distribution_among, type(state)):
            distribution_among(state, mask, announced)
        for _ in range(_DRAWS):
            ticket = choose(state, stream, mask)
            arm, probability = ticket.arm, ticket.probability
            expect(eligible[arm], policy, "chooses an arm that is not eligible")
            counts[arm] += 1
            if policy.exact_tickets:
                announced[arm] = probability if math.isnan(announced[arm]) else announced[arm]
                same = math.isclose(probability, announced[arm], rel_tol=1e-9)
                sentence = f"announces {announced[arm]} among eligible arms and then {probability}"
                expect(same, policy, sentence)
        if not np.isnan(announced).all():
            _expect_restricted(policy, counts, announced, mask)


def _expect_restricted(policy: Policy, counts: Floats, announced: Floats, mask: Any) -> None:
    """Compare restricted draws with the probabilities announced; NaN for arms never drawn."""
    weights = np.nan_to_num(announced, nan=0.0)
    total = float(weights.sum())
    # an arm that was not drawn may have a small probability that no ticket announced
    least = 0.0 if np.isnan(announced[mask]).any() else 1.0 - SUM_TOLERANCE
    sound = least <= total <= 1.0 + SUM_TOLERANCE
    expect(sound, policy, f"announces {announced} among eligible arms")
    _expect_frequencies(policy, counts, weights)


def _expect_frequencies(policy: Policy, counts: Floats, weights: Floats) -> None:
    """Compare how often arms were drawn with their probabilities, by Pearson's test."""
    drawn = counts[weights <= 0].sum()
    expect(drawn == 0, policy, f"draws arms that it gave the weight 0, {drawn:.0f} times")
    expected = counts.sum() * weights[weights > 0]
    statistic = float(((counts[weights > 0] - expected) ** 2 / expected).sum())
    expect(
        statistic < _LARGEST_STATISTIC,
        policy,
        f"draws {counts} where {counts.sum() * weights} were expected",
    )


def check_policy(policy: Policy) -> None:
    """Run every check of the contract.

    Args:
        policy: the policy to check.

    Raises:
        ContractBroken: the policy violates a part of the contract; the message says which.
    """
    for check in POLICY_CHECKS:
        check(policy)


def specification_survives_json(policy: Policy) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(policy)


def compiled_agrees(policy: Policy) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(
        make_experiment(
            policy=policy,
            environment=MEANS,
            adversary="zero-best-when-likely",
            budget=25,
            horizon=HORIZON,
            replications=1,
            seed=3,
        )
    )


def extremes_leave_it_sound(policy: Policy) -> None:
    """Check that extreme rewards (0, 1, alternating) leave a finite state and valid weights.

    The loop is compiled with bounds checks: a state that such rewards drive out of an array would
    overwrite memory otherwise.
    """
    horizon = 20_000
    streaks = (
        np.zeros((horizon, ARMS)),
        np.ones((horizon, ARMS)),
        np.tile(np.eye(ARMS), (horizon // ARMS + 1, 1))[:horizon],
    )
    for table in streaks:
        state = policy.start(ARMS, horizon)
        pulls = np.zeros(ARMS, dtype=np.int64)
        layer_pulls = np.zeros(policy.layer_count(ARMS, horizon), dtype=np.int64)
        play = make_checked_loop(fingerprint(implementations(state)))
        try:
            stream = stream_for(0, Purpose.LEARNER, 0)
            call_entry(play, state, stream, table, pulls, layer_pulls)
        except IndexError as error:
            breach = f"left the bounds of an array in round {pulls.sum()} of extreme rewards"
            raise ContractBroken(f"{policy.tag()} {breach}.") from error
        expect_sound(policy, state, " after extreme rewards")


POLICY_CHECKS: tuple[Callable[[Policy], None], ...] = (
    specification_survives_json,
    indices_stay_in_bounds,
    distribution_is_one,
    distribution_only_looks,
    tickets_carry_their_probability,
    weights_are_declared,
    frequencies_match,
    compiled_agrees,
    learner_equals_simulator,
    restoring_changes_nothing,
    extremes_leave_it_sound,
    feedback_may_come_anyhow,
    folded_log_is_the_state,
    retracted_rewards_leave_no_trace,
    voided_decisions_leave_no_trace,
    foreign_decisions_are_taken,
    choosing_leaves_no_trace,
    restricted_choices_are_as_announced,
    batches_equal_single_calls,
    new_arms_are_unknown,
    paused_arms_are_not_missed,
    decisions_of_others_leave_no_trace,
)


_ATTACKED_MEANS = (0.1, 0.9)
_BUDGETS = (3.0, 30.0, 300.0)
_ATTACKED_HORIZON = 100_000
_ATTACKED_RUNS = 20
_SEED = 20
_LEVEL = 1e-6
"""The probability that a policy which keeps its guarantee is refused, for each attack."""


class GuaranteeCheck(NamedTuple):
    """What was compared at one budget."""

    budget: float
    bound: float | None
    """What the guarantee says; None if it says nothing."""
    worst: float
    """The largest mean pseudo-regret of any attack."""
    attack: str

    @property
    def is_vacuous(self) -> bool:
        """Whether no attack could have refuted the guarantee."""
        gap = max(_ATTACKED_MEANS) - min(_ATTACKED_MEANS)
        return self.bound is None or self.bound >= gap * _ATTACKED_HORIZON


def check_guarantee(
    policy: Policy, budgets: Sequence[float] = _BUDGETS, replications: int = _ATTACKED_RUNS
) -> list[GuaranteeCheck]:
    """Play all built-in attacks and the winners of searches, and compare with the guarantee.

    Two arms of means 0.9 and 0.1, 100,000 rounds. A bound that holds with high probability is
    refuted if more runs exceed it than its failure probability explains; a bound on the
    expectation, if the mean exceeds it by more than its error explains; in both cases an attack
    refuses a policy that keeps its guarantee with a probability of about one in a million.

    Args:
        policy: the policy, whose ``guarantee`` is checked.
        budgets: the corruptions that are tried.
        replications: runs of each attack.

    Returns:
        What was compared, one entry for each budget.

    Raises:
        ContractBroken: an attack costs more than the guarantee allows.
    """
    return [_check_at(policy, budget, replications) for budget in budgets]


def _check_at(policy: Policy, budget: float, replications: int) -> GuaranteeCheck:
    """Play all attacks at one budget, and refuse the guarantee if one of them refutes it."""
    target = Target(
        policy=policy,
        environment=Bernoulli(means=_ATTACKED_MEANS),
        budget=budget,
        horizon=_ATTACKED_HORIZON,
    )
    attacks = list(dict.fromkeys([*builtin_attacks(target), *winners_for(target)]))
    experiments = [target.experiment(attack, replications, _SEED) for attack in attacks]
    results = run_experiments(experiments, progress=False)
    samples = [result.sample("pseudo_regret") for result in results]
    worst = int(np.argmax([sample.mean() for sample in samples]))
    found = policy.guarantee(gaps_of(_ATTACKED_MEANS), _ATTACKED_HORIZON, budget)
    for attack, sample in zip(attacks, samples, strict=True):
        if found is None:
            break
        if found.failure > 0:
            exceeding = int((sample > found.pseudo_regret).sum())
            refuted = clopper_pearson(exceeding, sample.size, _LEVEL).low > found.failure
        else:
            refuted = mean_interval(sample, 2 * _LEVEL)[0] > found.pseudo_regret
        breach = (
            f"loses {sample.mean():,.0f} on average to {attack.tag()} with a budget of "
            f"{budget:g}, where its guarantee says {found.pseudo_regret:,.0f}"
        )
        expect(not refuted, policy, breach)
    bound = None if found is None else found.pseudo_regret
    return GuaranteeCheck(budget, bound, float(samples[worst].mean()), attacks[worst].tag())
