"""Implementations are found by the class of their state, and checked when registered."""

from typing import NamedTuple

import pytest

from armrace.kernels import dispatch
from armrace.kernels.dispatch import implement, implementations
from armrace.kernels.generics import corrupt, decide, learn, observe


class LonelyState(NamedTuple):
    number: int


def test_a_missing_implementation_is_named():
    with pytest.raises(TypeError, match="LonelyState has no implementation of choose"):
        decide(LonelyState(1), None)


def test_an_adversary_need_not_observe():
    assert observe(LonelyState(1), 0, 0, 1.0) is None


def test_an_implementation_with_other_parameters_is_refused():
    def too_short(state, ticket):
        pass

    def mixed_up(state, reward, ticket):
        pass

    expected = r"learn takes \(state, ticket, reward, context\); {} takes"
    for wrong in (too_short, mixed_up):
        with pytest.raises(TypeError, match=expected.format(wrong.__name__)):
            implement(learn, LonelyState)(wrong)
    assert implementations(LonelyState(1)) == []


def test_a_registered_implementation_is_called(monkeypatch):
    monkeypatch.setattr(dispatch, "_REGISTRY", {})
    calls = []

    @implement(corrupt, LonelyState)
    def note(state, round, weights, rewards, left, stream):
        calls.append((state.number, round, left))

    corrupt(LonelyState(7), 3, None, None, 2.5, None)
    assert calls == [(7, 3, 2.5)]
    assert implementations(LonelyState(1)) == [note]


def test_the_implementations_of_states_within_a_state_are_its_own_too(monkeypatch):
    monkeypatch.setattr(dispatch, "_REGISTRY", {})

    class OuterState(NamedTuple):
        inner: LonelyState

    @implement(observe, LonelyState)
    def note(state, round, arm, reward):
        pass

    assert implementations(OuterState(LonelyState(1))) == [note]
