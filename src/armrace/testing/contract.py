"""What every policy and every attack must keep, and the checks of attacks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.environments import Bernoulli, Deterministic, Environment, FiniteSupport
from armrace.errors import ArmraceError
from armrace.kernels.generics import decide, distribution, learn
from armrace.kernels.states import equal_states, lasting_arrays
from armrace.kernels.streams import Stream
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.reference import ReferenceRun, run_reference
from armrace.simulation.replication import make_parts, play_out, run_replication
from armrace.specification import Specification


class ContractBroken(ArmraceError, AssertionError):
    """A policy, an adversary or a store does not do what the library relies on."""

    code: ClassVar[str] = "contract-broken"


def expect(kept: bool, subject: Specification, breach: str) -> None:
    """Raise :class:`ContractBroken` unless ``kept``."""
    if not kept:
        raise ContractBroken(f"{subject.tag()} {breach}.")


@contextmanager
def within_bounds(subject: Specification) -> Iterator[None]:
    """Turn an index out of bounds, in this context, into a :class:`ContractBroken`."""
    try:
        yield
    except IndexError as error:
        raise ContractBroken(f"{subject.tag()} leaves the bounds of an array: {error}.") from error


def require_round_trip(subject: Specification) -> None:
    """Check that a specification written as JSON and read again is unchanged."""
    data = msgspec.json.decode(msgspec.json.encode(subject.to_builtins()))
    expect(data.pop("name") == subject.identifier(), subject, "does not carry its name")
    again = type(subject).from_parameters(data)
    expect(again == subject, subject, f"comes back from JSON as {again}")


def compare_with_reference(experiment: Experiment, subject: Specification | None = None) -> None:
    """Check that the compiled engine and the reference agree.

    The policy's final states must be equal to the last bit, totals up to the order of summation.
    """
    subject = subject or experiment.policy
    with within_bounds(subject):
        reference = run_reference(experiment)
    outcome = run_replication(experiment, 0)
    layers = outcome.layer_corruption.shape[1]
    pulls = np.bincount(reference.arms, minlength=outcome.pulls.shape[1])
    means = experiment.setting().means
    pairs: dict[str, tuple[Any, Any]] = {
        "pulls": (outcome.pulls[-1], pulls),
        "regret": (outcome.regret[-1], reference.regret()),
        "clean regret": (outcome.clean_regret[-1], reference.clean_regret()),
        "pseudo-regret": (outcome.pseudo_regret[-1], reference.pseudo_regret(means)),
        "corruption": (outcome.corruption[-1], reference.corruption()),
        "corruption seen": (outcome.seen_corruption[-1], sum(reference.seen)),
        "corruption per arm": (outcome.arm_corruption[-1], reference.arm_corruption()),
        "corruption per layer": (
            outcome.layer_corruption[-1],
            reference.layer_corruption(layers),
        ),
    }
    for name, (compiled, interpreted) in pairs.items():
        same = np.allclose(compiled, interpreted, rtol=1e-12, atol=1e-9)
        expect(same, subject, f"has the {name} {compiled} compiled and {interpreted} interpreted")
    parts = make_parts(experiment, 0)
    play_out(parts)
    same = equal_states(parts.policy, reference.state)
    expect(same, subject, "leads to another state compiled than interpreted")


ARMS = 3
HORIZON = 600
MEANS = (0.9, 0.5, 0.1)
SUM_TOLERANCE = 1e-9

Floats = npt.NDArray[np.float64]


def weights_of(state: Any) -> Floats:
    """Return the probability with which a state would choose each arm."""
    weights = np.full(ARMS, np.nan)
    distribution(state, weights)
    return weights


def walk(policy: Policy, rounds: int) -> tuple[Any, Stream]:
    """Return a state after some rounds with immediate feedback."""
    state = policy.start(ARMS, HORIZON)
    stream = stream_for(11, Purpose.LEARNER, 0)
    coins = np.random.default_rng(11)
    for _ in range(rounds):
        ticket = decide(state, stream)
        learn(state, ticket, float(coins.random() < MEANS[ticket.arm]))
    return state, stream


def expect_sound(policy: Policy, state: Any, when: str = "") -> None:
    """Check that the weights of a state are probabilities, and that it holds no NaN."""
    weights = weights_of(state)
    sound = bool(np.all(weights >= 0)) and abs(float(weights.sum()) - 1) < SUM_TOLERANCE
    expect(sound, policy, f"gives the weights {weights}{when}")
    # Not of scratch space, which may never have been written.
    sound = not any(bool(np.isnan(array).any()) for _, array in lasting_arrays(state))
    expect(sound, policy, f"has a NaN in its state{when}")


_HORIZON = 600
_SOME, _AMPLE = 20.5, 1e9
"""Budgets: one that ends during the run, and one that is larger than all changes can cost."""
_SMALL = 0.0, 0.5, 3.0
_CLICKS = Bernoulli(means=(0.9, 0.5, 0.1))
_STARS = FiniteSupport(
    values=(0.0, 0.3, 0.6, 1.0),
    probabilities=((0.1, 0.1, 0.1, 0.7), (0.2, 0.3, 0.3, 0.2), (0.7, 0.1, 0.1, 0.1)),
)
_CERTAIN = Deterministic(rewards=(0.75, 0.4, 0.1))


def check_adversary(adversary: Adversary) -> None:
    """Run every check of the contract.

    Args:
        adversary: the attack to check.

    Raises:
        ContractBroken: the attack violates a part of the contract; the message says which.
    """
    for check in ADVERSARY_CHECKS:
        check(adversary)


def _experiment(
    adversary: Adversary, budget: float, environment: Environment = _CLICKS
) -> Experiment:
    """Return a short run of a learner that draws by weights, under the attack."""
    return make_experiment(
        policy="exp3",
        environment=environment,
        adversary=adversary,
        budget=budget,
        horizon=_HORIZON,
        replications=1,
        seed=9,
    )


def _reference(experiment: Experiment) -> ReferenceRun:
    with within_bounds(experiment.adversary):
        return run_reference(experiment)


def specification_survives_json(adversary: Adversary) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(adversary)


def indices_stay_in_bounds(adversary: Adversary) -> None:
    """Arms exist, and arrays are used within their bounds.

    It runs interpreted and before all other checks: compiled code does not notice a wrong index,
    and would overwrite memory.
    """
    for budget in (*_SMALL, _SOME, _AMPLE):
        _reference(_experiment(adversary, budget))


def compiled_agrees(adversary: Adversary) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(_experiment(adversary, _SOME), adversary)


def budget_is_kept(adversary: Adversary) -> None:
    """Check that the attack spends at most its budget, and that an ample one refuses no change."""
    for budget in (*_SMALL, _AMPLE):
        outcome = run_replication(_experiment(adversary, budget), 0)
        spent, refused = float(outcome.corruption[-1]), int(outcome.refused[-1])
        expect(spent <= budget, adversary, f"spends {spent} of {budget}")
    expect(refused == 0, adversary, f"is refused {refused} changes, with {spent} of {budget} spent")


def proposals_are_rewards(adversary: Adversary) -> None:
    """Check that changed rewards stay within [0, 1], so that no change is refused."""
    for environment in (_CLICKS, _STARS, _CERTAIN):
        run = _reference(_experiment(adversary, _AMPLE, environment))
        proposed = np.array(run.proposed)
        strange = proposed[~((proposed >= 0) & (proposed <= 1))]
        expect(strange.size == 0, adversary, f"changes rewards to {strange[:3].tolist()}")


def windows_are_kept(adversary: Adversary) -> None:
    """Check that rewards are changed in the declared windows only; others may be skipped."""
    experiment = _experiment(adversary, _AMPLE)
    run = _reference(experiment)
    outside = np.ones(_HORIZON, dtype=np.bool_)
    for first, last in adversary.windows(adversary.start(experiment.setting()), _HORIZON):
        outside[first:last] = False
    changed = np.any(np.array(run.proposed) != np.array(run.clean), axis=1)
    rounds = np.flatnonzero(changed & outside)[:3].tolist()
    expect(not rounds, adversary, f"changes rewards outside its windows, in the rounds {rounds}")


def smallest_cost_is_honest(adversary: Adversary) -> None:
    """Check that no change costs less than the declared minimum, even if little budget is left."""
    for environment in (_CLICKS, _STARS, _CERTAIN):
        for budget in (3.3, _AMPLE):
            experiment = _experiment(adversary, budget, environment)
            setting = experiment.setting()
            declared = adversary.smallest_cost(adversary.start(setting), setting)
            # The reference calls the attack in every round, whatever smallest cost it declares.
            run = _reference(experiment)
            costs = np.abs(np.array(run.paid) - np.array(run.clean)).max(axis=1)
            least = float(costs[costs > 0].min(initial=math.inf))
            breach = f"declares changes of {declared:g} or more, and makes one of {least:g}"
            expect(least >= declared, adversary, breach)


def equal_seeds_equal_attacks(adversary: Adversary) -> None:
    """Check that the same seed gives the same attack."""
    one, other = (run_replication(_experiment(adversary, _SOME), 0) for _ in range(2))
    same = np.array_equal(one.arm_corruption, other.arm_corruption)
    expect(same, adversary, "attacks differently with the same seed")


ADVERSARY_CHECKS: tuple[Callable[[Adversary], None], ...] = (
    specification_survives_json,
    indices_stay_in_bounds,
    proposals_are_rewards,
    windows_are_kept,
    compiled_agrees,
    budget_is_kept,
    smallest_cost_is_honest,
    equal_seeds_equal_attacks,
)
