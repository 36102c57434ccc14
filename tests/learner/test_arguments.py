"""What a learner is made of is checked and converted, so that it can always be saved."""

import copy
import pickle
from decimal import Decimal

import numpy as np
import pytest

from armrace.errors import ForeignTicket, InvalidParameter
from armrace.learner import Learner


class Loud(str):
    """Text that calls itself by another name."""

    __slots__ = ()

    def __str__(self):
        return self.upper()


def survives(learner):
    """Whether it can be saved as text and restored with what it has learned."""
    for _ in range(5):
        learner.learn(learner.decide(), 1.0)
    restored = Learner.restore(learner.snapshot().to_json())
    assert restored.snapshot() == learner.snapshot()
    assert restored.arms == learner.arms
    assert restored.decide() == learner.decide()


@pytest.mark.parametrize(
    ("given", "arms"),
    [
        ({"arms": np.int64(3)}, [0, 1, 2]),
        ({"arms": np.array([4, 5])}, [4, 5]),
        ({"arms": np.array(["a", "b"])}, ["a", "b"]),
        ({"arms": [np.str_("a"), np.uint8(7)]}, ["a", 7]),
        ({"arms": ("a", "b")}, ["a", "b"]),
        ({"arms": [Loud("red"), Loud("green")]}, ["red", "green"]),
        ({"arms": [-(2**63), 2**63 - 1]}, [-(2**63), 2**63 - 1]),
        ({"arms": ["", "\N{SNOWMAN}"]}, ["", "\N{SNOWMAN}"]),
        ({"horizon": np.int32(100)}, [0, 1]),
        ({"seed": np.uint64(3)}, [0, 1]),
        ({"watch": np.True_}, [0, 1]),
        ({"watch": False}, [0, 1]),
    ],
    ids=str,
)
def test_whatever_is_accepted_can_be_saved(given, arms):
    learner = Learner(**{"policy": "ucb1", "arms": 2, "horizon": 100, **given})
    assert learner.arms == arms
    assert {type(arm) for arm in learner.arms} <= {int, str}
    assert (type(learner.horizon), type(learner.seed), type(learner.watch)) == (int, int, bool)
    survives(learner)


NO_ARMS = [[0.5, 1.5], [1.0, 2.0], [("a",), ("b",)], [b"a", b"b"], [True, False], [None, "a"]]
NO_ARMS += [[np.True_, np.False_], [2**70, 1], [2**63, 1], ["\ud800", "a"], [np.array([1]), 2]]
NO_ARMS += [
    np.zeros((2, 2)),
    None,
    True,
    b"ab",
    {"a": 1, "b": 2},
    {"a", "b"},
    frozenset({"a", "b"}),
]
NO_ARMS += [iter("ab"), 10**9, 100_001, 2**70, 0, -3]


@pytest.mark.parametrize("arms", NO_ARMS, ids=range(len(NO_ARMS)))
def test_arms_that_could_not_be_saved_or_held_are_refused(arms):
    with pytest.raises(InvalidParameter, match="arms must"):
        Learner("ucb1", arms, 100)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"arms": ["red"]}, "arms must name at least 2 arms; got 1."),
        ({"arms": 1}, "arms must name at least 2 arms; got 1."),
        ({"arms": 2.5}, "arms must be a list of names or a number; got 2.5."),
        ({"arms": "red"}, "arms must be a list of names or a number; got 'red'."),
        ({"arms": ["red", "red"]}, "arms must have different names; some are equal."),
        ({"horizon": 0}, r"horizon must be in \[1, 1e\+15\]; got 0."),
        ({"seed": -1}, "seed must be in .*; got -1."),
        ({"watch": 1}, "watch must be true or false; got 1."),
        ({"watch": None}, "watch must be true or false; got None."),
        ({"log": "yes"}, "log must be true or false; got 'yes'."),
        ({"horizon": True}, "horizon must be a whole number; got True."),
        ({"horizon": 2**70}, "horizon must be in"),
        ({"horizon": 100.0}, "horizon must be a whole number"),
        ({"horizon": None}, "horizon must be a whole number"),
        ({"seed": 1.0}, "seed must be a whole number"),
        ({"seed": 2**200}, "seed must be in"),
    ],
)
def test_other_parameters_are_refused_with_a_sentence(given, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        Learner(**{"policy": "ucb1", "arms": 2, "horizon": 100, **given})


def compilations(learner):
    """What Numba has compiled for the calls of this learner."""
    found = []
    for call in learner._calls:
        for cell in getattr(call, "__closure__", None) or ():
            found += [cell.cell_contents] if isinstance(cell.cell_contents, list) else []
    return [len(entries) for entries in found]


def test_numbers_of_other_types_are_converted_and_compile_nothing():
    """Tickets come back from JSON, where 1.0 may have become 1."""
    learner = Learner("exp3", 2, 100)
    decisions = [learner.decide() for _ in range(8)]
    before = compilations(learner)
    first = learner._calls.learn
    changed = [
        lambda ticket: ticket._replace(inner_probability=1),
        lambda ticket: ticket._replace(memo=0),
        lambda ticket: ticket._replace(arm=np.int8(ticket.arm), layer=np.int64(0)),
        lambda ticket: ticket._replace(memo=np.float32(0.0), inner_arm=np.int8(-1)),
        list,
        tuple,
    ]
    for change, decision in zip(changed, decisions, strict=False):
        learner.learn((np.int32(decision.number), decision.arm, change(decision.ticket)), 1)
    for reward, decision in zip((np.float32(0.5), np.True_), decisions[6:], strict=True):
        learner.learn(list(decision), reward)
    assert learner.rewards == 8
    assert learner._calls.learn is first
    assert compilations(learner) == before


TYPES = {
    "memo": (None,),
    "layer": (-0.5, 0.0, True),
    "phase": (2**63, 0.5, "0"),
    "arm": (0.0, None, np.array([0, 1])),
    "probability": ("1", True, 1j),
    "inner_layer": (None,),
    "inner_probability": ([1.0],),
    "inner_arm": (0.0, 2**63, None),
}


@pytest.mark.parametrize("log", [True, False])
@pytest.mark.parametrize("name", TYPES)
def test_ticket_members_of_other_types_do_not_pass(name, log):
    learner = Learner("exp3", 2, 100, log=log)
    decision = learner.decide()
    for value in TYPES[name]:
        forged = decision._replace(ticket=decision.ticket._replace(**{name: value}))
        for refuse in (lambda forged: learner.learn(forged, 1.0), learner.drop):
            with pytest.raises(ForeignTicket, match="no decision of this learner"):
                refuse(forged)
    assert learner.pending == 1


@pytest.mark.parametrize("number", [0.5, 0.0, None, True, "0", 2**63, -(2**63) - 1, np.array([0])])
def test_numbers_of_decisions_of_other_types_do_not_pass(number):
    learner = Learner("exp3", 2, 100)
    decision = learner.decide()
    array = np.array([decision.arm, 1 - decision.arm])
    for forged in (decision._replace(number=number), decision._replace(arm=array)):
        with pytest.raises(ForeignTicket, match="no decision of this learner"):
            learner.learn(forged, 1.0)
    assert learner.pending == 1


@pytest.mark.parametrize(
    "reward",
    [-0.1, 1.1, np.nan, np.inf, "much", None, np.array([0.5]), np.ones(2), Decimal("NaN"),
     Decimal("0.5"), 1j, "1", [1.0], b"1"],
)  # fmt: skip
def test_what_is_no_reward_is_refused(reward):
    learner = Learner("exp3", 2, 100)
    decision = learner.decide()
    with pytest.raises(InvalidParameter, match=r"reward must be in \[0, 1\]; got"):
        learner.learn(decision, reward)
    assert learner.pending == 1


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda learner: pickle.loads(pickle.dumps(learner))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_copies_are_independent(copied):
    learner = Learner("ucb1", ["red", "green"], 100, seed=3)
    held = [learner.decide() for _ in range(10)]
    learner.learn(held[0], 1.0)
    other = copied(learner)
    assert other.snapshot() == learner.snapshot()
    before = learner.snapshot()
    assert other.decide().number == 10
    other.learn(held[1], 1.0)
    assert learner.snapshot() == before
    learner.learn(held[1], 1.0)
    assert learner.decide().number == 10
    with pytest.raises(ForeignTicket, match="had its reward already"):
        other.learn(held[1], 1.0)
    assert other.snapshot() == learner.snapshot()
