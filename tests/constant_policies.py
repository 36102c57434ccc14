"""Policies that always play one arm: the least that a test of compilation can compile."""

from typing import NamedTuple

import numpy as np

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.policies import Policy

__all__ = ["First", "Second"]


class FirstState(NamedTuple):
    plays: np.ndarray


class SecondState(NamedTuple):
    plays: np.ndarray


class First(Policy, frozen=True, tag="first-constant"):
    """Always plays arm 0."""

    def start(self, arms, horizon):
        return FirstState(np.zeros(1, dtype=np.int64))


class Second(Policy, frozen=True, tag="second-constant"):
    """Plays as the first, and is other code."""

    def start(self, arms, horizon):
        return SecondState(np.zeros(1, dtype=np.int64))


def _implement_all(state_class, number):
    """Make implementations whose code differs by a number, as the fingerprints must."""

    @implement(distribution, state_class)
    def constant_distribution(state, out):
        out.fill(0.0)
        out[0] = 1.0

    @implement(choose, state_class)
    def constant_choose(state, stream):
        return make_ticket(0)

    @implement(assign, state_class)
    def constant_assign(state, ticket):
        return ticket

    @implement(learn, state_class)
    def constant_learn(state, ticket, reward):
        state.plays[0] += number


for _number, _state in enumerate((FirstState, SecondState), start=1):
    _implement_all(_state, _number)
