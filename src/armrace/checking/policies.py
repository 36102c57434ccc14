"""The contract of a policy, as checks that users can run on their own policies.

Each check takes a policy and raises :class:`ContractBroken` with a sentence if the policy does
not keep that part of the contract. ``check_policy`` runs them all.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.checking.contract import (
    ContractBroken,
    compare_with_reference,
    expect,
    require_round_trip,
)
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implements
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Ticket,
    choose,
    decide,
    distribution,
    distribution_among,
    is_restrictable,
    learn,
)
from armrace.kernels.laws import rewards_between
from armrace.kernels.states import equal_states, lasting_arrays
from armrace.kernels.streams import Stream
from armrace.online import Assigned, Decision, Dropped, Event, Learned, Learner
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out

__all__ = ["POLICY_CHECKS", "check_policy"]

_ARMS = 3
_HORIZON = 600
_MEANS = (0.9, 0.5, 0.1)
_DRAWS = 1000
_SUM_TOLERANCE = 1e-9
_LARGEST_STATISTIC = 50.0
"""A chi-square variable with two degrees of freedom exceeds this with probability exp(-25). The
margin is for weights so small that Pearson's statistic has a heavier tail."""

Floats = npt.NDArray[np.float64]


def check_policy(policy: Policy) -> None:
    """Run every check of the contract.

    Args:
        policy: the policy to check.

    Raises:
        ContractBroken: the policy violates a part of the contract; the message says which.
    """
    for check in POLICY_CHECKS:
        check(policy)


def _weights(state: Any, arms: int = _ARMS) -> Floats:
    weights = np.full(arms, np.nan)
    distribution(state, weights)
    return weights


def _walk(policy: Policy, rounds: int = _HORIZON) -> tuple[Any, Stream]:
    """Return a state after some rounds with immediate feedback."""
    state = policy.start(_ARMS, _HORIZON)
    stream = stream_for(11, Purpose.LEARNER, 0)
    coins = np.random.default_rng(11)
    for _ in range(rounds):
        ticket = decide(state, stream)
        learn(state, ticket, float(coins.random() < _MEANS[ticket.arm]))
    return state, stream


def indices_stay_in_bounds(policy: Policy) -> None:
    """Arms and layers exist, and arrays are used within their bounds.

    It runs interpreted and before all other checks: compiled code does not notice a wrong index,
    and would overwrite memory.
    """
    layers = policy.layer_count(_ARMS, _HORIZON)
    state, stream = policy.start(_ARMS, _HORIZON), stream_for(12, Purpose.LEARNER, 0)
    coins = np.random.default_rng(12)
    try:
        for _ in range(_HORIZON):
            _weights(state)
            ticket = decide(state, stream)
            sound = 0 <= ticket.arm < _ARMS and NO_LAYER <= ticket.layer < layers
            sound = sound and NO_LAYER <= ticket.inner_layer < layers
            sound = sound and NO_ARM <= ticket.inner_arm < _ARMS
            expect(
                sound, policy, f"gives {ticket} where there are {_ARMS} arms and {layers} layers"
            )
            learn(state, ticket, float(coins.random() < _MEANS[ticket.arm]))
    except IndexError as error:
        breach = f"leaves the bounds of an array: {error}"
        raise ContractBroken(f"{policy.tag()} {breach}.") from error


def distribution_is_one(policy: Policy) -> None:
    """Check that weights are probabilities that sum to 1, in every state of a run."""
    for rounds in (0, 1, 2, 3, 10, 100, _HORIZON):
        state, _ = _walk(policy, rounds)
        weights = _weights(state)
        expect(bool(np.all(weights >= 0)), policy, f"gives the weights {weights}")
        total = float(weights.sum())
        expect(abs(total - 1) < _SUM_TOLERANCE, policy, f"gives weights that sum to {total}")


def weights_are_declared(policy: Policy) -> None:
    """Check that a policy whose tickets carry probabilities below 1 says that it draws by them."""
    state, stream = policy.start(_ARMS, _HORIZON), stream_for(13, Purpose.LEARNER, 0)
    coins = np.random.default_rng(13)
    for number in range(_HORIZON):
        ticket = decide(state, stream)
        declared = policy.draws_by_weights or not ticket.probability < 1.0
        breach = f"draws by weights in round {number + 1}, but does not declare draws_by_weights"
        expect(declared, policy, breach)
        learn(state, ticket, float(coins.random() < _MEANS[ticket.arm]))


def distribution_only_looks(policy: Policy) -> None:
    """Check that computing the distribution does not change the state."""
    state, _ = _walk(policy, 50)
    before = copy.deepcopy(state)
    first, second = _weights(state), _weights(state)
    expect(bool(np.array_equal(first, second)), policy, "gives other weights when asked twice")
    expect(equal_states(before, state), policy, "changes its state when asked for its weights")


def tickets_carry_their_probability(policy: Policy) -> None:
    """Check that the probability on a ticket equals that of the distribution."""
    state, stream = _walk(policy, 0)
    coins = np.random.default_rng(5)
    for _ in range(200):
        weights = _weights(state)
        ticket = decide(state, stream)
        announced = float(weights[ticket.arm]) if policy.exact_tickets else math.nan
        expect(
            math.isclose(ticket.probability, announced, rel_tol=1e-9)
            or (math.isnan(ticket.probability) and math.isnan(announced)),
            policy,
            f"announces {announced} and writes {ticket.probability} on the ticket",
        )
        learn(state, ticket, float(coins.random() < _MEANS[ticket.arm]))


def frequencies_match(policy: Policy) -> None:
    """Check that arms are drawn with the stated probabilities, by Pearson's test, seeds fixed."""
    for rounds in (0, 7, 100, 400):
        state, stream = _walk(policy, rounds)
        weights = _weights(state)
        counts = np.zeros(_ARMS)
        for _ in range(_DRAWS):
            # Each draw from a copy: to decide changes the state, and with it the distribution.
            counts[decide(copy.deepcopy(state), stream).arm] += 1
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


def compiled_agrees(policy: Policy) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(
        make_experiment(
            policy=policy,
            environment=_MEANS,
            adversary="zero-best-when-likely",
            budget=25,
            horizon=_HORIZON,
            replications=1,
            seed=3,
        )
    )


def learner_equals_simulator(policy: Policy) -> None:
    """Check that the live learner, given the simulator's rewards, makes the same decisions."""
    experiment = make_experiment(
        policy=policy, environment=_MEANS, horizon=_HORIZON, replications=1, seed=4
    )
    parts = make_parts(experiment, 0)
    learner = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=4)
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
    learner = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=6)
    coins = np.random.default_rng(6)
    held = [learner.decide() for _ in range(40)]
    for decision in held[::2]:
        learner.learn(decision, float(coins.random() < _MEANS[decision.ticket.arm]))
    restored = Learner.restore(learner.snapshot().to_json(), policy=policy)
    for decision in held[1::2]:
        learner.learn(decision, 1.0)
        restored.learn(decision, 1.0)
    for _ in range(200):
        one, other = learner.decide(), restored.decide()
        same = str(one) == str(other)  # where the probability is NaN, == would never hold
        expect(same, policy, f"decides {one} but restored {other}")
        reward = float(coins.random() < _MEANS[one.ticket.arm])
        learner.learn(one, reward)
        restored.learn(other, reward)
    expect(learner.snapshot() == restored.snapshot(), policy, "ends elsewhere when it was restored")


def extremes_leave_it_sound(policy: Policy) -> None:
    """Check that extreme rewards (0, 1, alternating) leave a finite state and valid weights.

    The loop is compiled with bounds checks: a state that such rewards drive out of an array would
    overwrite memory otherwise.
    """
    horizon = 20_000
    streaks = (
        np.zeros((horizon, _ARMS)),
        np.ones((horizon, _ARMS)),
        np.tile(np.eye(_ARMS), (horizon // _ARMS + 1, 1))[:horizon],
    )
    for table in streaks:
        experiment = make_experiment(
            policy=policy,
            environment={"name": "table", "rewards": table},
            horizon=horizon,
            replications=1,
        )
        parts = make_parts(experiment, 0)._replace(checked=True)
        try:
            play_out(parts)
        except InvalidParameter as error:
            raise ContractBroken(f"After extreme rewards {error}") from error
        weights = _weights(parts.policy)
        sound = bool(np.all(weights >= 0)) and abs(float(weights.sum()) - 1) < _SUM_TOLERANCE
        expect(sound, policy, f"gives the weights {weights} after extreme rewards")
        expect(not _has_nan(parts.policy), policy, "has a NaN in its state after extreme rewards")


def feedback_may_come_anyhow(policy: Policy) -> None:
    """Check that late, reordered and missing rewards are accepted, and counted once each."""
    learner = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=8)
    coins = np.random.default_rng(8)
    decisions = [learner.decide() for _ in range(150)]
    order = coins.permutation(150)
    for position in order[:100]:
        decision = decisions[position]
        learner.learn(decision, float(coins.random() < _MEANS[decision.ticket.arm]))
    expect(learner.pending == 50, policy, f"has {learner.pending} rewards pending, not 50")
    weights = _weights(learner._state)
    expect(abs(float(weights.sum()) - 1) < _SUM_TOLERANCE, policy, f"gives the weights {weights}")


def _live(policy: Policy, seed: int) -> tuple[Learner, list[Ticket]]:
    """Return a learner after feedback that was partly late, reordered, missing and dropped.

    The tickets are those of its decisions as they were drawn, before the state completed them.
    """
    learner = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=seed)
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
                learner.learn(decision, float(coins.random() < _MEANS[decision.ticket.arm]))
    return learner, drawn


def _replayed(policy: Policy, log: Iterable[Event], seed: int) -> Learner:
    return Learner.replay(log, policy, _ARMS, _HORIZON, seed)


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
    never = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=22)
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
    weights = _weights(refolded._state)
    sound = bool(np.all(weights >= 0)) and abs(float(weights.sum()) - 1) < _SUM_TOLERANCE
    expect(sound, policy, f"gives the weights {weights} after a retraction")
    expect(not _has_nan(refolded._state), policy, "has a NaN in its state after a retraction")


def foreign_decisions_are_taken(policy: Policy) -> None:
    """Check that decisions that the state would not make itself are counted and learned from.

    They come from every layer. A policy whose state can be inspected must count each of them, and
    its reward, for the arm. For any policy those of some layer must leave a trace in the state:
    rounds of another layer may be played without being learned from.
    """
    learner = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=23)
    layers = policy.layer_count(_ARMS, _HORIZON)
    coins = np.random.default_rng(23)
    ignored: dict[int, Ticket] = {}
    for number in range(200):
        arm = int(coins.integers(_ARMS))
        ticket = Ticket(arm=arm, layer=number % layers, probability=1.0 / _ARMS)
        fresh, (assigned, pulls) = copy.deepcopy(learner._state), _counted(learner, arm)
        decision = learner.assign(ticket)
        expect(decision.arm == arm, policy, f"assigns arm {decision.arm} for {arm}")
        learner.learn(decision, float(coins.random() < _MEANS[arm]))
        if equal_states(fresh, learner._state):
            ignored[ticket.layer] = ticket
        grown = _counted(learner, arm)
        counted = not learner.inspect() or grown == (assigned + 1, pulls + 1)
        expect(counted, policy, f"does not count the decision {ticket} of another state")
    last = ignored.get(layers - 1)
    expect(len(ignored) < layers, policy, f"ignores the decision {last} of another state")
    weights = _weights(learner._state)
    expect(abs(float(weights.sum()) - 1) < _SUM_TOLERANCE, policy, f"gives the weights {weights}")
    expect(not _has_nan(learner._state), policy, "has a NaN in its state")


def _counted(learner: Learner, arm: int) -> tuple[int, int]:
    """Return how many decisions and rewards of an arm all layers have counted together."""
    views = [view for view in learner.inspect() if view.arm == arm]
    return sum(view.assigned for view in views), sum(view.pulls for view in views)


def choosing_leaves_no_trace(policy: Policy) -> None:
    """Check that a choice that is not assigned changes nothing except scratch space."""
    state, stream = _walk(policy, 120)
    before, weights = copy.deepcopy(state), _weights(state)
    for _ in range(5):
        choose(state, stream)
        if is_restrictable(state):
            choose(state, stream, np.array([True, False, True]))
    expect(equal_states(before, state), policy, "changes its state when it chooses")
    same = bool(np.allclose(weights, _weights(state), rtol=1e-9, atol=0))
    expect(same, policy, "has other weights after a choice that was not assigned")


def restricted_choices_are_as_announced(policy: Policy) -> None:
    """Check restricted choices: only eligible arms, as often as tickets or the policy announce.

    Where tickets carry a probability, it must be that of the restricted draw; where the policy
    implements ``distribution_among``, draws and tickets must agree with it.
    """
    for rounds, eligible in ((0, [False, True, True]), (90, [True, False, True])):
        state, stream = _walk(policy, rounds)
        if not is_restrictable(state):
            return
        mask, counts, announced = np.array(eligible), np.zeros(_ARMS), np.full(_ARMS, np.nan)
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
    least = 0.0 if np.isnan(announced[mask]).any() else 1.0 - _SUM_TOLERANCE
    sound = least <= total <= 1.0 + _SUM_TOLERANCE
    expect(sound, policy, f"announces {announced} among eligible arms")
    _expect_frequencies(policy, counts, weights)


def batches_equal_single_calls(policy: Policy) -> None:
    """Check that decisions and rewards in batches equal those one by one."""
    one = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=24)
    many = Learner(policy, arms=_ARMS, horizon=_HORIZON, seed=24)
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
    learner = Learner(policy, arms=_ARMS - 1, horizon=_HORIZON, seed=25)
    for _ in range(60):
        decision = learner.decide()
        learner.learn(decision, float(decision.number % 2))
    before = {view.arm: view for view in learner.inspect()}
    learner.add_arm("new")
    after = {view.arm: view for view in learner.inspect()}
    kept = all(after[arm].pulls == view.pulls for arm, view in before.items())
    expect(kept, policy, "forgets its arms when one is added")
    expect(after[_ARMS - 1].pulls == 0, policy, "has rewards of an arm that is new")
    played = False
    for _ in range(100):
        decision = learner.decide()
        played = played or decision.arm == "new"
        learner.learn(decision, 0.5)
    expect(played, policy, "never plays an arm that was added")
    replayed = Learner.replay(learner.log, policy, _ARMS - 1, _HORIZON, 25)
    same = equal_states(learner._live.policy, replayed._live.policy)
    expect(same, policy, "has another state than its folded log once an arm was added")


def specification_survives_json(policy: Policy) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(policy)


def _has_nan(state: Any) -> bool:
    """Whether an array of a state is NaN somewhere; scratch space may never have been written."""
    return any(bool(np.isnan(array).any()) for _, array in lasting_arrays(state))


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
    foreign_decisions_are_taken,
    choosing_leaves_no_trace,
    restricted_choices_are_as_announced,
    batches_equal_single_calls,
    new_arms_are_unknown,
)
