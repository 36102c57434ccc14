"""The base of a guard: how it is given, and which policies are refused."""

import json
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import SAME_ARM, Eligible, Ticket, assign, choose, make_ticket
from armrace.kernels.streams import Stream
from armrace.policies import POLICIES, Exp3, Guarded, Policy, Thompson, Ucb1, guarded


def test_a_base_is_given_by_name_by_data_or_as_itself():
    named = Guarded(base="thompson")
    assert named == Guarded(base={"name": "thompson"}) == Guarded(base=Thompson())
    assert len({named, Guarded(base=Thompson()), Guarded()}) == 2
    saved = json.loads(json.dumps(named.to_builtins()))
    assert saved["base"] == {"name": "thompson"}
    assert POLICIES.make(saved) == named
    nested = Guarded(base={"name": "tsallis-inf", "estimator": "iw"})
    assert nested.base.estimator == "iw"
    assert POLICIES.make(nested.to_builtins()) == nested


def test_a_base_says_whether_tickets_are_exact():
    assert Guarded(base="ucb1").exact_tickets
    assert not Guarded(base="thompson").exact_tickets


@pytest.mark.parametrize("base", ["sharp-race", "best-of-all-worlds", "guarded"])
def test_races_are_their_own_guards(base):
    with pytest.raises(
        InvalidParameter, match=f"^base must not be a race or contain one; got {base}"
    ):
        Guarded(base=base)


class Narrow(NamedTuple):
    plays: np.ndarray


class Unrestricted(Policy, frozen=True, tag="unrestricted"):
    """Plays the first arm, whichever are eligible."""

    def start(self, arms, horizon):
        return Narrow(np.zeros(arms))


@implement(choose, Narrow)
def narrow_choose(state: Narrow, stream: Stream) -> Ticket:
    return make_ticket(0)


def test_a_base_whose_choices_cannot_be_restricted_is_refused():
    with pytest.raises(
        InvalidParameter, match=r"^base must be a policy whose choices can be restr"
    ):
        Guarded(base=Unrestricted())


INNER = {"layer": (1, 1.0, SAME_ARM), "probability": (0, 0.5, SAME_ARM), "arm": (0, 1.0, 0)}
"""The layer, probability and arm of an inner policy, of which one says something."""


class Nested(NamedTuple):
    used: str


class Composed(Policy, frozen=True, tag="composed"):
    """Uses the fields of a ticket in which the guard keeps those of its base."""

    used: str = "layer"

    def start(self, arms, horizon):
        return Nested(self.used)


@implement(choose, Nested)
def nested_choose(state: Nested, stream: Stream, eligible: Eligible = None) -> Ticket:
    return Ticket(0, 0, 1.0, 0, 0.0, *INNER[state.used])


@implement(assign, Nested)
def nested_assign(state: Nested, ticket: Ticket) -> Ticket:
    return ticket


@pytest.mark.parametrize("used", INNER)
def test_a_composed_base_is_refused(used):
    with pytest.raises(
        InvalidParameter, match=r"^base must not be composed of other policies; got"
    ):
        Guarded(base=Composed(used=used)).start(2, 100)


class DrawsLate(Ucb1, frozen=True, tag="draws-late"):
    """Chooses as UCB1 does, and says that it will draw by weights, sooner or later."""

    draws_by_weights: ClassVar[bool] = True


class Silent(Exp3, frozen=True, tag="silent"):
    """Draws by weights, and does not say so."""

    draws_by_weights: ClassVar[bool] = False


def test_how_a_base_draws_is_what_it_declares():
    """However long it takes until its first draw: a short run would not show it."""
    assert Guarded(base=DrawsLate()).start(2, 100).weighted[0]
    assert not Guarded(base="ucb1").start(2, 100).weighted[0]
    with pytest.raises(InvalidParameter, match="base must declare that it draws_by_weights"):
        Guarded(base=Silent()).start(2, 100)


def test_to_describe_a_guard_plays_nothing(monkeypatch):
    played = []
    monkeypatch.setattr(guarded, "_play_short_run", played.append)
    policy = Guarded(base={"name": "exp3", "learning_rate": 0.123})
    assert played == []
    policy.start(2, 100)
    policy.start(3, 100)
    assert played == [policy.base]
