"""Scores of vendors: on a scale of their own, with a reward, after it, or before it comes."""

import pytest

from armrace.errors import InvalidParameter
from armrace_client.operations import Visit
from serving import is_replay

BOTS = {"from": 99, "to": 1}
"""The scale of a vendor whose bots score 1 and whose people 99."""


@pytest.fixture
def ads(service):
    service.create(
        "ads", ["a", "b"], 0, policy="ucb1", window=60, quarantine=0.8, suspicion=BOTS, seed=1
    )
    visits = [Visit(unit=f"unit {number}") for number in range(6)]
    return service.decide_batch("ads", visits).made()


def held(service):
    return [(each.decision, each.suspicion) for each in service.quarantine("ads")]


def test_a_score_with_a_reward_is_read_on_the_scale_of_the_experiment(service, ads):
    for decision, score in zip(ads, (1, 20, 21, 50, 99), strict=False):
        service.reward(decision, 1.0, suspicion=score)
    # Above 0.8 are scores below 99 - 0.8 * 98 = 20.6.
    assert [round(share, 3) for _, share in held(service)] == [1.0, 0.806]
    rows = service.rows("ads")
    assert [row.suspicion for row in rows[:5]] == pytest.approx([1, 79 / 98, 78 / 98, 0.5, 0])
    assert [row.counts for row in rows[:5]] == [False, False, True, True, True]
    with pytest.raises(InvalidParameter, match=r"suspicion must be in \[1, 99\]; got 0.5"):
        service.reward(ads[5], 1.0, suspicion=0.5)


@pytest.mark.parametrize("by", ["decision", "unit"])
@pytest.mark.parametrize("settle", ["window", "immediate"])
@pytest.mark.parametrize("when", ["before", "open", "closed"])
def test_scores_come_before_rewards_after_them_and_after_windows(service, clock, by, settle, when):
    service.create(
        "ads", ["a", "b"], 0, policy="ucb1", window=60, quarantine=0.8, suspicion=BOTS,
        settle=settle, seed=1,
    )  # fmt: skip
    made = service.decide_batch("ads", [Visit(unit=f"unit {n}") for n in range(4)]).made()
    names = [each.decision if by == "decision" else f"unit {n}" for n, each in enumerate(made)]
    scores = {names[0]: 1, names[1]: 98, names[2]: 10, "unit 9": 2}
    if when == "before":
        answer = service.suspect("ads", scores, by=by, reason="vendor")
    clock.move(1)
    for each in made[:2]:
        service.reward(each, 1.0)
    clock.move(100 if when == "closed" else 1)
    if when != "before":
        answer = service.suspect("ads", scores, by=by, reason="vendor")
    assert (answer.visits, answer.unknown, answer.unknown_listed) == (2, 1, ["unit 9"])
    # The third visit earned nothing; once its window has closed there is nothing to hold.
    assert answer.changed == (1 if when == "closed" else 2)
    rows = service.rows("ads")
    assert [row.counts for row in rows] == [False, True, None, None]
    assert len(service.quarantine("ads")) == 1
    assert service.actions("ads")[0].reason.endswith("; vendor")
    if when != "closed":
        service.reward(made[2], 1.0)
        assert len(service.quarantine("ads")) == 2
    clock.move(100)
    service.describe("ads")
    assert is_replay(service)
    service.release("ads", made)
    assert sum(arm.withheld for arm in service.describe("ads").arms) == 0
    assert is_replay(service)


def test_a_lower_score_releases_nothing_and_the_same_again_changes_nothing(service, ads):
    service.reward(ads[0], 1.0)
    assert service.suspect("ads", {ads[0].decision: 1}).changed == 1
    again = service.suspect("ads", {ads[0].decision: 1})
    assert (again.changed, again.unchanged) == (0, 1)
    assert service.suspect("ads", {ads[0].decision: 99}).changed == 0
    assert len(held(service)) == 1


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"suspicion": {"from": 1}}, "suspicion must have from and to; got"),
        ({"suspicion": {"from": 1, "to": 1}}, "suspicion must lead to another score; got"),
        ({"suspicion": {"from": "a", "to": 1}}, "suspicion from must be a number; got 'a'"),
        ({"suspicion": {"from": 0, "to": float("inf")}}, "suspicion to must be finite"),
    ],
)
def test_a_scale_that_is_none_is_refused(service, settings, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        service.create("ads", ["a", "b"], 0, **settings)


def test_scores_that_cannot_be_used_are_refused(service, ads):
    with pytest.raises(InvalidParameter, match=r"suspicion must be in \[1, 99\]; got 100"):
        service.suspect("ads", {ads[0].decision: 1, ads[1].decision: 100})
    assert held(service) == []
    service.create("open", ["a", "b"], 0)
    with pytest.raises(InvalidParameter, match="scores need a quarantine"):
        service.suspect("open", {"1": 1.0})
