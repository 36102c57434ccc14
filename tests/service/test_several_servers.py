"""Several services on one store: what one does, the others see, and failures stay uncertain."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from armrace.errors import ForeignTicket, StoreFailed, UnknownName
from armrace.service import MemoryStore
from armrace.service.loading import LogReader
from armrace_client.operations import LeasedVisit, Visit


class FailingStore(MemoryStore):
    """Fails at the end of a transaction that may write, when told to."""

    recovers, fails = True, False

    @contextmanager
    def transaction(self, logs=(), **more):
        with super().transaction(logs, **more) as transaction:
            yield transaction
            if self.fails and logs:
                raise StoreFailed("the connection was lost.")


@pytest.fixture
def servers(make_service):
    one = make_service(FailingStore())
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


@pytest.mark.parametrize("behind", [0, 3])
def test_an_experiment_that_another_server_deletes_is_gone(servers, behind):
    one, other = servers
    made = other.decide("ads")
    for _ in range(behind):
        one.decide("ads")
    one.finish("ads")
    one.delete("ads", without_export=True)
    with pytest.raises(ForeignTicket):
        other.reward(made, 1.0)
    with pytest.raises(UnknownName):
        other.decide("ads")
    one.create("ads", ["c", "d"], 0, seed=1)
    assert other.decide("ads").arm in ("c", "d")


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
