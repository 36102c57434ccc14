"""Rewards sent in the background: whatever happens, each is sent or said not to be."""

import asyncio
import math
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from armrace_client import ArmraceError, AsyncRewardQueue, RewardItem, RewardQueue
from armrace_client import queue as queue_module
from armrace_client.answers import RewardAnswer
from armrace_client.errors import InvalidParameter, ServiceUnreachable, TooManyOpen
from processes import python

ACCEPTED = RewardAnswer("accepted")


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(queue_module, "PAUSE_SECONDS", 0.01)


def test_everything_is_sent_although_the_service_is_away_for_a_while():
    sent, away = [], [2]

    def send(batch):
        if away[0]:
            away[0] -= 1
            raise ServiceUnreachable("away.")
        sent.extend(batch)
        return [RewardAnswer("accepted" if item.value < 1 else "invalid") for item in batch]

    with RewardQueue(send, room=5) as queue:
        for number in range(20):
            queue.put(f"decision {number}", float(number == 7), "web", 0.25)
    assert [item.decision for item in sent] == [f"decision {number}" for number in range(20)]
    assert queue.refused == [(RewardItem("decision 7", 1.0, "web", 0.25), RewardAnswer("invalid"))]
    with pytest.raises(InvalidParameter, match="closed"):
        queue.put("x", 0.0)


def test_a_full_queue_raises_if_told_to_and_says_what_is_left():
    gate = threading.Event()

    def send(batch):
        assert gate.wait(30)
        return [ACCEPTED] * len(batch)

    queue = RewardQueue(send, room=2, when_full="raise")

    def put_many():
        for _ in range(10):
            queue.put("x", 0.0)

    with pytest.raises(TooManyOpen, match="at most 2"):
        put_many()
    with pytest.raises(ServiceUnreachable, match=r"rewards could not be sent in 0\.1 seconds"):
        queue.close(timeout=0.1)
    gate.set()
    queue.close()


def test_a_refused_batch_is_sent_one_by_one_and_the_rest_arrives():
    sent = []

    def send(batch):
        if any(item.decision == "poison" for item in batch):
            raise InvalidParameter("the body is refused.")
        sent.extend(item.decision for item in batch)
        return [ACCEPTED] * len(batch)

    queue = RewardQueue(send)
    for name in ("first", "poison", "last"):
        queue.put(name, 1.0)
    with pytest.raises(InvalidParameter, match=r"1 rewards could not .* body is refused"):
        queue.close()
    assert sorted(sent) == ["first", "last"]
    ((item, answer),) = queue.refused
    assert (item.decision, answer.detail) == ("poison", "the body is refused.")


def test_a_revoked_key_is_told_when_the_queue_is_closed():
    def send(batch):
        raise ArmraceError("the header Authorization must be Bearer with a valid key.")

    queue = RewardQueue(send)
    for number in range(3):
        queue.put(str(number), 1.0)
    with pytest.raises(ArmraceError, match="3 rewards could not be delivered, see refused"):
        queue.close()
    assert [item.decision for item, _ in queue.refused] == ["0", "1", "2"]


def test_an_unexpected_error_is_raised_from_put_and_close_and_nobody_waits_for_ever():
    def send(batch):
        raise RuntimeError("the client has been closed")

    queue = RewardQueue(send, room=1)

    def put_until_told():
        for _ in range(100):
            queue.put("x", 1.0)

    with pytest.raises(ServiceUnreachable, match="the client has been closed"):
        put_until_told()
    with pytest.raises(ServiceUnreachable, match=r"\d rewards could not be sent: RuntimeError"):
        queue.close()


def test_a_reward_is_either_sent_or_refused_while_the_queue_closes():
    """Puts race with close from many threads; what put took must have been sent."""
    for _ in range(50):
        sent, taken, begin = [], [], threading.Barrier(5)

        def send(batch, sent=sent):
            sent.extend(item.decision for item in batch)
            return [ACCEPTED] * len(batch)

        queue = RewardQueue(send)

        def put(name, queue=queue, taken=taken, begin=begin):
            begin.wait()
            for number in range(20):
                try:
                    queue.put(f"{name} {number}", 1.0)
                except InvalidParameter:
                    return
                taken.append(f"{name} {number}")

        threads = [threading.Thread(target=put, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        begin.wait()
        queue.close()
        for thread in threads:
            thread.join()
        assert sorted(sent) == sorted(taken)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("x", math.nan), "reward must be a finite number; got nan"),
        (("x", math.inf), "reward must be a finite number; got inf"),
        (("x", "1"), "reward must be a finite number; got '1'"),
        (("x", None), "reward must be a finite number; got None"),
        ((7, 1.0), "decision must be a decision or its name; got 7"),
        (("x", 1.0, 7), "source must be text; got 7"),
        (("x", 1.0, None, math.nan), "suspicion must be a finite number; got nan"),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(arguments, words):
    sent = []
    with RewardQueue(lambda batch: sent.extend(batch) or [ACCEPTED] * len(batch)) as queue:
        with pytest.raises(InvalidParameter, match=words):
            queue.put(*arguments)
        queue.put("x", np.float32(0.5), suspicion=np.float64(0.25))
    assert sent == [RewardItem("x", 0.5, None, 0.25)]
    assert type(sent[0].value) is float


@pytest.mark.parametrize(("room", "when_full"), [(0, "block"), (1.5, "block"), (1, "drop")])
def test_bad_settings_of_a_queue_are_refused(room, when_full):
    with pytest.raises(InvalidParameter, match="must be"):
        RewardQueue(lambda batch: [], room, when_full)


def test_a_program_that_ends_sends_what_is_left():
    program = """
import time
from armrace_client import RewardQueue
from armrace_client.answers import RewardAnswer

def send(batch):
    time.sleep(0.2)
    print(len(batch), flush=True)
    return [RewardAnswer("accepted")] * len(batch)

queue = RewardQueue(send)
for number in range(700):
    queue.put("x", 1.0)
"""
    done = python("-c", program, check=True)
    assert sum(map(int, done.stdout.split())) == 700
    assert done.stderr == ""


def test_the_queue_of_an_event_loop_waits_sends_and_tells():
    sent = []

    async def send(batch):
        await asyncio.sleep(0)
        sent.extend(batch)
        return [RewardAnswer("accepted" if item.value < 1 else "invalid") for item in batch]

    async def work():
        async with AsyncRewardQueue(send, room=3) as queue:
            await asyncio.gather(*[queue.put(str(n), float(n == 7), "web") for n in range(50)])
        with pytest.raises(InvalidParameter, match="closed"):
            await queue.put("x", 0.0)
        return queue.refused

    assert asyncio.run(work()) == [(RewardItem("7", 1.0, "web"), RewardAnswer("invalid"))]
    assert sorted(int(item.decision) for item in sent) == list(range(50))


def test_puts_that_wait_leave_the_threads_of_the_event_loop_alone():
    """A client that connects needs one of these threads, and so does the end of the queue."""
    sent = []

    async def send(batch):
        await asyncio.get_running_loop().getaddrinfo("127.0.0.1", 80)
        sent.extend(batch)
        return [ACCEPTED] * len(batch)

    async def work():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        queue, held = AsyncRewardQueue(send, room=1), threading.Event()
        await asyncio.wait_for(asyncio.gather(*[queue.put(str(n), 0.0) for n in range(20)]), 30)
        while len(sent) < 20:
            await asyncio.sleep(0.01)
        busy = loop.run_in_executor(None, held.wait, 60)
        await asyncio.wait_for(queue.close(), 30)
        held.set()
        await busy

    asyncio.run(work())
    assert sorted(int(item.decision) for item in sent) == list(range(20))


def test_a_put_does_not_block_the_event_loop_if_a_thread_takes_the_last_room(monkeypatch):
    gate = threading.Event()

    async def send(batch):
        while not gate.is_set():
            await asyncio.sleep(0.01)
        return [ACCEPTED] * len(batch)

    async def work():
        async with AsyncRewardQueue(send, room=1) as queue:
            await queue.put("is being sent", 0.0)
            while not queue._queue.has_room:
                await asyncio.sleep(0.01)

            def check_late(*arguments):
                monkeypatch.undo()
                thread = threading.Thread(target=queue._queue.put, args=("of a thread", 0.0))
                thread.start()
                thread.join()
                return queue_module.check_reward(*arguments)

            monkeypatch.setattr(queue_module, "check_reward", check_late)
            late = asyncio.create_task(queue.put("of the loop", 0.0))
            await asyncio.sleep(0.05)
            assert not late.done()
            gate.set()
            await late

    # In a thread, so that a loop that is blocked for ever fails the test.
    thread = threading.Thread(target=lambda: asyncio.run(work()), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def test_rewards_that_an_event_loop_left_behind_are_told():
    async def send(batch):
        await asyncio.sleep(60)

    async def work():
        queue = AsyncRewardQueue(send)
        await queue.put("x", 1.0)
        await asyncio.sleep(0.05)
        return queue

    queue = asyncio.run(work())
    with pytest.raises(ServiceUnreachable, match="1 rewards could not be sent"):
        queue._queue.close()


def test_a_queue_begins_its_thread_with_the_first_reward():
    """A server that makes its queue and forks then has a thread in each process that uses it."""
    before = threading.active_count()
    with RewardQueue(lambda batch: [ACCEPTED] * len(batch)) as queue:
        assert threading.active_count() == before
        queue.put("x", 1.0)
        assert threading.active_count() == before + 1
