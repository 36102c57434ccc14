"""Several services on one store: what one does, the others see, and failures stay uncertain."""

from __future__ import annotations

import pytest

from armrace.errors import StoreFailed
from armrace.service.loading import LogReader
from armrace_client.operations import LeasedVisit, Visit
from serving import RecoveringStore


@pytest.fixture
def servers(make_service):
    one = make_service(RecoveringStore())
    one.create("ads", ["a", "b"], 0, seed=1)
    return one, make_service(one.engine.store, one.keyring)


def test_a_batch_that_the_store_has_not_kept_has_no_answer(servers):
    """A member that is called invalid would not be sent again."""
    service, store = servers[0], servers[0].engine.store
    made, lease = service.decide_many("ads", 2), service.lease("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward_many([(each, 1.0) for each in made])
    with pytest.raises(StoreFailed):
        service.report("ads", lease.lease, [LeasedVisit(0), LeasedVisit(1)])
    with pytest.raises(StoreFailed):
        service.decide_batch("ads", [Visit(request="r"), Visit(request="s")])
    store.fails = False
    answers = service.reward_many([(each, 1.0) for each in made])
    assert [each.status for each in answers] == ["accepted", "accepted"]


@pytest.mark.parametrize("meanwhile", ["void", "visits"])
def test_a_preview_shows_one_state(servers, monkeypatch, meanwhile):
    """Whatever other servers do before it has replayed the log."""
    one, other = servers
    one.engine.snapshot_step = other.engine.snapshot_step = 1
    made = [one.decide("ads", source="mill") for _ in range(4)]
    replay, acts = LogReader.replay, [lambda: other.decide_many("ads", 3)]
    if meanwhile == "void":
        acts = [lambda: other.void("ads", made[0])]

    def interrupted(self, ruled, end):
        if acts:
            acts.pop()()
        return replay(self, ruled, end)

    monkeypatch.setattr(LogReader, "replay", interrupted)
    seen = one.void("ads", sources="mill", preview=True)
    assert seen.before.decisions == seen.visits - (4 - seen.changed)
    assert seen.after.decisions == seen.before.decisions - seen.changed
    assert seen.changed == (3 if meanwhile == "void" else 4)
