"""Shared parts of the contract suites, and the small problem on which policies are checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.errors import ArmraceError
from armrace.kernels.generics import decide, distribution, learn
from armrace.kernels.states import equal_states, lasting_arrays
from armrace.kernels.streams import Stream
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import Experiment
from armrace.simulation.reference import run_reference
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
