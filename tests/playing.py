"""Playing a policy and its textbook form on the same table with the same random numbers."""

import copy
import math

import numpy as np

from armrace.kernels.generics import Ticket, assign, decide, distribution, learn
from armrace.kernels.streams import uniform
from armrace.randomness import Purpose, stream_for
from armrace.simulation import make_experiment
from armrace.simulation.replication import make_parts, play_out

SEED = 5
MEANS = (0.2, 0.6, 0.5, 0.3)


def make_table(rounds, means=MEANS, seed=SEED):
    return (np.random.default_rng(seed).random((rounds, len(means))) < means).astype(float)


def run(policy, environment, horizon, seed=1, **attack):
    """The parts of a compiled run, after it."""
    experiment = make_experiment(
        policy=policy, environment=environment, horizon=horizon, replications=1, seed=seed, **attack
    )
    parts = make_parts(experiment, 0)
    play_out(parts)
    return parts


def final_state(policy, environment, horizon):
    """The state after a compiled run."""
    return run(policy, environment, horizon, SEED).policy


def learned(policy, rewards):
    """A state of two arms of which one has paid these rewards."""
    state = policy.start(arms=2, horizon=max(100, len(rewards)))
    for reward in rewards:
        learn(state, Ticket(0, 0, 1.0), reward)
    return state


def weights_of(state):
    """The probabilities of a state that eliminates arms, of its own or of its top layer."""
    return probabilities(state, getattr(state, "top", state).active.shape[-1])


def probabilities(state, arms):
    weights = np.full(arms, np.nan)
    distribution(state, weights)
    return weights


def play(policy, table):
    """The arms that the policy plays, and its state after them."""
    state = policy.start(table.shape[1], len(table))
    stream = stream_for(SEED, Purpose.LEARNER, 0)
    arms = []
    for row in table:
        ticket = decide(state, stream)
        learn(state, ticket, row[ticket.arm])
        arms.append(ticket.arm)
    return arms, state


def play_textbook(textbook, table):
    """The arms that a textbook form plays; it has ``weights()`` and ``learn(arm, w, reward)``."""
    stream = stream_for(SEED, Purpose.LEARNER, 0)
    arms = []
    for row in table:
        weights = textbook.weights()
        arm = int(np.searchsorted(np.cumsum(weights), uniform(stream), side="right"))
        textbook.learn(arm, weights, row[arm])
        arms.append(arm)
    return arms


def play_indices(index, table):
    """The arms with the largest ``index(rewards of the arm, round)``, infinite without rewards."""
    rewards, arms = [[] for _ in table.T], []
    for number, row in enumerate(table, start=1):
        indices = [index(seen, number) if seen else math.inf for seen in rewards]
        best = max(indices)
        arms.append(next(a for a, each in enumerate(indices) if each >= best - 1e-11))
        rewards[arms[-1]].append(row[arms[-1]])
    return arms


def three_rounds(policy):
    """The first arm's probabilities while two arms lose 1, 1/4 and 1/2, and the state after it."""
    state = policy.start(arms=2, horizon=100)
    weights = [probabilities(state, 2)]
    for arm, loss in ((0, 1.0), (1, 0.25), (0, 0.5)):
        learn(state, assign(state, Ticket(arm=arm, probability=weights[-1][arm])), 1 - loss)
        weights.append(probabilities(state, 2))
    return [pair[0] for pair in weights], state


def is_sound(state, arms):
    """Whether probabilities are probabilities and nothing in the state is infinite or NaN."""
    weights = probabilities(state, arms)
    return bool(np.all(weights >= 0)) and abs(weights.sum() - 1) < 1e-9 and _is_finite(state)


def _is_finite(state):
    return all(
        _is_finite(member) if isinstance(member, tuple) else bool(np.all(np.isfinite(member)))
        for member in state
    )


def ticket_for(state, arm):
    """A decision of the state's own that happens to choose ``arm``."""
    for seed in range(10_000):
        stream = stream_for(seed, Purpose.LEARNER, 0)
        if decide(copy.deepcopy(state), stream).arm == arm:
            return decide(state, stream_for(seed, Purpose.LEARNER, 0))
    raise AssertionError(f"no seed chooses arm {arm}")
