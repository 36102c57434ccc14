"""A policy that calls the functions of another: compiled, exact, and in bounded time."""

import ast
import inspect
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

from armrace import extending
from armrace.extending import (
    NO_ARM,
    Eligible,
    Floats,
    Limits,
    Policy,
    Stream,
    Ticket,
    assign,
    choose,
    distribution,
    implement,
    learn,
    make_ticket,
    restricted_probability,
    stamped,
    uniform,
    unwrap_ticket,
    wrap_ticket,
)
from armrace.policies import POLICIES, best_of_all_worlds, guarded
from armrace.testing import check_policy

EXPLORED = 1
"""The layer of a round that explores; the base policy's own rounds have layer 0."""


class MixedState(NamedTuple):
    base: Any
    share: np.ndarray
    scratch: np.ndarray


class Mixed(Policy, frozen=True, tag="mixed"):
    """Explores uniformly with some probability, and lets a base policy decide otherwise."""

    draws_by_weights: ClassVar[bool] = True
    base: str = "tsallis-inf"
    share: Annotated[float, Limits("share of the rounds that explore", 0, 1)] = 0.1

    def start(self, arms, horizon):
        base = POLICIES.make(self.base).start(arms, horizon)
        return MixedState(base, np.array([self.share]), np.zeros(arms))

    def layer_count(self, arms, horizon):
        return 2


@implement(distribution, MixedState)
def mixed_distribution(state: MixedState, out: Floats) -> None:
    distribution(state.base, out)
    share = state.share[0]
    for arm in range(out.size):
        out[arm] = share / out.size + (1.0 - share) * out[arm]


@implement(choose, MixedState)
def mixed_choose(state: MixedState, stream: Stream, eligible: Eligible = None) -> Ticket:
    share, arms = state.share[0], state.scratch.size
    even = 1.0 / arms if eligible is None else 1.0 / np.sum(eligible)
    distribution(state.base, state.scratch)
    if uniform(stream) < share:
        arm = 0
        left = int(uniform(stream) / even)
        for place in range(arms):
            if eligible is not None and not eligible[place]:
                continue
            arm = place
            if left == 0:
                break
            left -= 1
        if eligible is None:
            own = state.scratch[arm]
        else:
            own = restricted_probability(state.scratch, arm, eligible)
        probability = share * even + (1.0 - share) * own
        return make_ticket(arm, EXPLORED, probability, 0.0, NO_ARM)
    inner = choose(state.base, stream, eligible)
    probability = share * even + (1.0 - share) * inner.probability
    return wrap_ticket(inner, inner.arm, 0, probability)


@implement(assign, MixedState)
def mixed_assign(state: MixedState, ticket: Ticket) -> Ticket:
    if ticket.inner_arm == NO_ARM:
        return ticket
    completed = assign(state.base, unwrap_ticket(ticket, 1))
    return stamped(ticket, completed.phase, completed.memo)


@implement(learn, MixedState)
def mixed_learn(state: MixedState, ticket: Ticket, reward: float) -> None:
    if ticket.inner_arm != NO_ARM:
        learn(state.base, unwrap_ticket(ticket, 1), reward)


@pytest.mark.long
@pytest.mark.parametrize("base", ["tsallis-inf", "exp3p"])
def test_a_mixed_policy_keeps_the_contract(base):
    """In short, the composed policies of the catalogue do, in tests/testing/test_contracts.py."""
    check_policy(Mixed(base=base))


@pytest.mark.parametrize("module", [guarded, best_of_all_worlds])
def test_what_composed_policies_of_the_library_import_is_there_for_others(module):
    """What else they import is of the policies that they contain."""
    imports = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith(("armrace.kernels.", "armrace.policies.races."))
    ]
    names = {alias.name for node in imports for alias in node.names}
    # What the specification of a guard asks of its base, and how it makes its race.
    names -= {"is_restrictable", "make_pooled_race"}
    assert len(names) > 15
    assert names <= set(extending.__all__)
