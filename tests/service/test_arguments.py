"""Arguments of the service and of its clients: ordinary numbers and lists, or one sentence."""

import msgspec
import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace_client.answers import DecisionAnswer
from armrace_client.calls import Calls, RewardItem


class Sent(Calls):
    """A client that returns what it would send."""

    def _send(self, operation, pick):
        return msgspec.to_builtins(operation)


SENT = Sent()
MADE = DecisionAnswer("token", "ads", "a", 0.5)


@pytest.mark.parametrize(
    ("method", "arguments", "sentence"),
    [
        ("decide", ("ads", "abc"), "eligible must be a list of arms; got 'abc'."),
        ("decide", ("ads", 5), "eligible must be a list of arms; got 5."),
        ("create", ("ads", "ab", 0), "arms must be a list of names"),
        ("decide_many", ("ads", 2.5), "count must be a whole number of at least 0; got 2.5."),
        ("decide_many", ("ads", -1), "count must be a whole number of at least 0; got -1."),
        ("decide_many", ("ads", True), "count must be a whole number of at least 0; got True."),
        ("retract", ("ads", 1.5), "decisions must be a list of decisions; got 1.5."),
        ("reward_many", ("ab",), "rewards must be a list of pairs of a decision and its reward;"),
        ("reward_many", ([5],), "rewards must be pairs of a decision and its reward; got 5."),
        (
            "reward_many",
            ([("x", 1, "web", 0.5, {}, {}, None, 3)],),
            "rewards must be pairs of a decision",
        ),
        ("reward_many", ([(MADE,)],), "rewards must be pairs of a decision and its reward; got"),
    ],
)
def test_the_service_and_its_clients_refuse_the_same(service, method, arguments, sentence):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    for target in (service, SENT):
        with pytest.raises(InvalidParameter) as refusal:
            getattr(target, method)(*arguments)
        assert str(refusal.value).startswith(sentence)


def test_one_decision_can_be_retracted_and_released_by_itself(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    made = service.decide("ads")
    service.reward(made, 1.0)
    sequence = service.rows("ads")[0].decision
    for one in (made, made.decision, sequence, [made]):
        assert service.retract("ads", one).changed == 1
        assert service.release("ads", one).changed == 1
    for one in (MADE, "token", ["token"]):
        assert SENT.retract("ads", one)["decisions"] == ["token"]


def test_items_have_sources_of_their_own(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1", quarantine=0.5)
    first, second = service.decide_many("ads", np.int64(2))
    items = [RewardItem(first, 1.0, "own", 0.9), (second, 1.0)]
    answers = service.reward_many(items, source="all")
    assert [each.status for each in answers] == ["accepted"] * 2
    rows = service.rows("ads")
    assert [(row.source, row.suspicion) for row in rows] == [("own", 0.9), ("all", None)]
    sent = SENT.reward_many(items, source="all")["rewards"]
    assert [(each["source"], each.get("suspicion")) for each in sent] == [
        ("own", 0.9),
        ("all", None),
    ]


def test_numbers_of_numpy_are_ordinary_numbers(service):
    body = SENT.reward("x", np.float32(0.5), suspicion=np.float64(0.25))
    expected = {"decision": "x", "value": 0.5, "suspicion": 0.25}
    assert msgspec.json.decode(msgspec.json.encode(body)) == expected
    service.create("ads", ["a", "b"], 0, policy="ucb1", quarantine=np.float32(0.5))
    assert service.describe("ads").settings["quarantine"] == 0.5
