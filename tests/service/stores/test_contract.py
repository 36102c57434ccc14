"""Every store fulfils the contract, and stores that break it are found out."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from armrace.checking import STORE_CHECKS, ContractBroken, check_store
from armrace.service import MemoryStore
from armrace.service.stores.memory import _MemoryTurn
from armrace.service.stores.sqlite import SqliteStore


class KeptMemoryStore(MemoryStore):
    """Stays open, so that it can be 'opened' again."""


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_store_in_memory(check):
    store = KeptMemoryStore()
    check(lambda: store)


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
def test_the_store_in_a_file(check, tmp_path):
    check(lambda: SqliteStore(tmp_path / "log.db"))


def test_the_whole_suite_on_one_store(tmp_path):
    check_store(lambda: SqliteStore(tmp_path / "log.db"))


class KeepsFailedTurns(MemoryStore):
    @contextmanager
    def turn(self):
        with self._lock:
            turn = _MemoryTurn(self)
            try:
                yield turn
            finally:
                turn.commit()


class AppendsAnything(MemoryStore):
    @contextmanager
    def turn(self):
        with super().turn() as turn:
            turn.append = turn._new.extend
            yield turn


class FindsBackwards(MemoryStore):
    @contextmanager
    def turn(self):
        with super().turn() as turn:
            turn.find_many = lambda subjects, after=0: iter(
                [each for each in [*turn.read()][::-1] if each.subject in subjects]
            )
            yield turn


class FindsOne(MemoryStore):
    @contextmanager
    def turn(self):
        with super().turn() as turn:
            find = turn.find_many
            turn.find_many = lambda subjects, after=0: find([*subjects][:1], after)
            yield turn


class ReadsEverything(MemoryStore):
    @contextmanager
    def turn(self):
        with super().turn() as turn:
            read = turn.read
            turn.read = lambda after=0, most=None: read(after)
            yield turn


class ForgetsWhenClosed(MemoryStore):
    def close(self):
        self.records.clear()


class KeepsSnapshots(MemoryStore):
    @contextmanager
    def turn(self):
        with super().turn() as turn:
            turn.forget_snapshots = lambda sequences: None
            yield turn


class TurnsTogether(MemoryStore):
    @contextmanager
    def turn(self):
        import time

        turn = _MemoryTurn(self)
        yield turn
        time.sleep(0.001)
        turn.commit()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (KeepsFailedTurns, "keeps records of a turn that failed"),
        (AppendsAnything, "appends records that do not follow its head"),
        (FindsBackwards, "does not find a subject"),
        (FindsOne, "does not find subjects of this turn"),
        (ReadsEverything, "reads more than is wanted"),
        (ForgetsWhenClosed, "loses records when it is closed"),
        (KeepsSnapshots, "does not remove snapshots"),
        (TurnsTogether, "lets turns of threads overlap"),
    ],
)
def test_a_broken_store_is_found_out(kind, sentence):
    store = kind()
    with pytest.raises(ContractBroken, match=sentence):
        check_store(lambda: store)
