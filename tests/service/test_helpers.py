"""Work in a helper, a process of its own: the same answers, whatever happens to the helper."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from armrace.errors import DamagedFile, RequestFailed
from armrace.policies.ucb import Ucb1
from armrace.service import MemoryStore, background, engine
from armrace.service.background import in_helper
from armrace.service.loading import Gone, LogReader
from armrace.service.log.store import in_transaction
from armrace.service.model.settings import Settings
from processes import started
from serving import is_replay

RULINGS = {
    "void": {"sources": ["bot"]},
    "retract": {"sources": ["bot", "nowhere"], "since": 0},
    "hold": {"labels": {"page": "1"}},
}


@pytest.fixture
def long_ago(service, clock):
    """Some thousands of visits, with bots among them."""
    service.create("ads", ["a", "b", "c"], 0, window=10, quarantine=0.5, seed=1)
    for number in range(20):
        clock.move(1)
        made = [
            service.decide("ads", unit=f"{number}-{place}", source="bot" if place % 7 else "shop")
            for place in range(20)
        ]
        for place, each in enumerate(made[::2]):
            labels, suspicion = {"page": str(place % 3)}, place / 20
            service.reward(each, place % 2, labels=labels, suspicion=suspicion)
    return service


def answers(service, folder, kind):
    """What comes of everything that reads the whole log."""
    export = Path(folder) / "export.ndjson"
    service.export("ads", export, overwrite=True)
    preview = getattr(service, kind)("ads", **RULINGS[kind], preview=True)
    ruled = getattr(service, kind)("ads", **RULINGS[kind], head=preview.head)
    found = preview, ruled, service.quarantine("ads"), service.history("ads")
    return export.read_bytes(), service.verify(), *map(msgspec.json.encode, found)


@pytest.mark.parametrize("kind", RULINGS)
def test_answers_are_the_same_here_and_in_a_helper(long_ago, monkeypatch, tmp_path, kind):
    called = []

    def noted(read, known, work, *arguments):
        called.append(getattr(work, "__name__", ""))
        return in_helper(read, known, work, *arguments)

    here = answers(long_ago, tmp_path, kind)
    long_ago.release("ads", **RULINGS[kind])
    monkeypatch.setattr(engine, "in_helper", noted)
    monkeypatch.setattr(engine, "_WORTH_HELP", 0)
    again = answers(long_ago, tmp_path, kind)
    assert {"_write_export", "select", "_shown", "_quarantined", "_verified"} <= {*called}
    assert ("_replayed" in called) == (kind != "hold" or b'"replayed":true' in again[3])
    assert again[0] == here[0]
    assert again[4] == here[4]
    first, second = (msgspec.json.decode(each[3]) for each in (here, again))
    assert {**first, "head": ""} == {**second, "head": ""}
    assert is_replay(long_ago)


def _dies(path: str, times: int) -> str:
    left = Path(path)
    if (count := len(left.read_text())) < times:
        left.write_text("x" * (count + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    print("not an answer")
    return f"{count} deaths"


def test_work_of_a_helper_that_is_killed_is_done_by_another_one(tmp_path):
    counted = tmp_path / "deaths"
    counted.write_text("")
    assert in_helper(None, None, _dies, str(counted), 1) == "1 deaths"
    with pytest.raises(RequestFailed, match="ended twice"):
        in_helper(None, None, _dies, str(counted), 9)
    assert in_helper(None, None, _dies, str(counted), 3) == "3 deaths"


def _first_part(reader: LogReader) -> int:
    return next(reader.parts(end=550))[0].sequence  # the next 50 are asked for ahead


def _defect() -> None:
    raise ZeroDivisionError


def test_errors_come_back_as_they_were_raised(long_ago):
    read = partial(in_transaction, long_ago.engine.store)
    with pytest.raises(Gone, match="not there any more"):
        in_helper(read, None, _first_part, long_ago.engine.reader(7))
    with pytest.raises(RuntimeError, match=r"in _defect(.|\n)*ZeroDivisionError"):
        in_helper(read, None, _defect)
    # What was asked for ahead and is not wanted any more is no answer to what is asked next.
    assert [in_helper(read, None, _first_part, long_ago.engine.reader(1)) for _ in range(3)] == [
        1,
        1,
        1,
    ]


class _Damaged(MemoryStore):
    @contextmanager
    def transaction(self, *given, **more):
        raise DamagedFile("the disk is gone.")
        yield


def test_an_error_of_the_store_while_a_helper_reads_is_one_of_the_service(long_ago):
    with pytest.raises(DamagedFile, match="the disk is gone"):
        in_helper(partial(in_transaction, _Damaged()), None, _first_part, long_ago.engine.reader(1))


def test_policies_that_no_other_process_can_import_are_replayed_here(long_ago, monkeypatch):
    class Mine(Ucb1, frozen=True, tag="mine-alone"):
        """A policy of a script."""

    assert long_ago.engine.work_out(10**6, None, os.getpid) != os.getpid()
    monkeypatch.setattr(Settings, "make_policy", lambda settings: Mine())
    settings = long_ago.engine.loaded[0].experiment.settings
    assert long_ago.engine.work_out(10**6, settings, os.getpid) == os.getpid()


_PARENT = """
import os, sys
from armrace.service.background import in_helper
print(in_helper(None, None, os.getpid), flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, None])
def test_a_helper_ends_with_the_process_that_it_helps(ending):
    command = [sys.executable, "-c", _PARENT]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        helper = Path("/proc", process.stdout.readline().strip())
        assert helper.exists()
        if ending is None:
            process.stdin.close()
        else:
            process.send_signal(ending)
        process.wait(30)
        limit = time.monotonic() + 30
        while helper.exists() and time.monotonic() < limit:
            time.sleep(0.01)
        assert not helper.exists()


def test_a_copy_of_the_process_has_helpers_of_its_own():
    mine = in_helper(None, None, os.getpid)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        with open(writing, "w") as answer:  # noqa: PTH123  # a file descriptor
            answer.write(str(in_helper(None, None, os.getpid)))
        background._end_helpers()
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:  # noqa: PTH123
        theirs = answer.read()
    os.waitpid(child, 0)
    assert theirs.isdigit()
    assert int(theirs) != mine == in_helper(None, None, os.getpid)
