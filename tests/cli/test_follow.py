"""Rewards and verdicts from a stream of NATS and from standard input, with kills in the middle."""

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig

from armrace.cli.buses import Message, NatsStream
from armrace.cli.follow import Follower
from armrace.cli.main import run
from armrace.cli.messages import Mapping, MessageVerdict
from armrace.cli.outputs import INTERRUPTED
from armrace.errors import InvalidParameter
from armrace.service import Keyring, MemoryStore, Service
from armrace_client import Client
from armrace_client.calls import RewardItem
from armrace_client.operations import Visit
from hosting import free_port, hosted
from processes import started

NATS_SERVER = Path(sys.executable).with_name("nats-server")
COLUMNS = """
experiment = "shop"
stream = "fraud"
subject = "fraud.>"

[[messages]]
when = { kind = "conversion" }
do = "reward"
decision = "decision"
value = "paid"
source = "network"
suspicion = "vendor.score"
labels = { click = "click_id" }
metrics = { milliseconds = "took" }
part = "order"

[[messages]]
when = { kind = "verdict", verdict = "bot" }
do = "void"
by = "unit"
name = "visitor.id"
reason = "rule"

[[messages]]
when = { kind = "verdict", verdict = "fine" }
do = "release"
by = "unit"
name = "visitor.id"

[[messages]]
when = { kind = "score" }
do = "suspect"
by = "unit"
name = "visitor.id"
score = "score"
"""


def conversion(decision, paid=1.0, **more):
    return {"kind": "conversion", "decision": decision, "paid": paid, **more}


def verdict(unit, said="bot", **more):
    return {"kind": "verdict", "verdict": said, "visitor": {"id": unit}, **more}


@pytest.fixture
def columns(tmp_path):
    path = tmp_path / "columns.toml"
    path.write_text(COLUMNS)
    return path


@pytest.fixture
def service():
    return filled(Service(MemoryStore(), Keyring()))


def filled(service, visits=60):
    service.create("shop", ["a", "b"], 0, policy="ucb1", window=3600, quarantine=0.7)
    made = service.decide_batch("shop", [Visit(unit=f"u{n}") for n in range(visits)]).made()
    service.decisions_made = [each.decision for each in made]
    return service


def standing(service):
    """What each visit stands as: its reward and whether it is void and counts."""
    return [(row.reward, row.void, row.counts) for row in service.rows("shop")]


# --- messages ---------------------------------------------------------------------------------


def test_columns_are_read_as_declared(columns):
    mapping = Mapping.load(columns)
    sent = conversion("token", "2.5", network=7, vendor={"score": "0.25"}, click_id="c1", took=12)
    sent["order"] = "order 3"
    found = mapping.read(json.dumps(sent).encode())
    labels, metrics = {"click": "c1"}, {"milliseconds": 12.0}
    assert found == RewardItem("token", 2.5, "7", 0.25, labels, metrics, "order 3")
    assert mapping.read(json.dumps(conversion("t")).encode()) == RewardItem("t", 1.0)
    said = mapping.read(json.dumps(verdict(12, rule="fast")).encode())
    assert said == MessageVerdict("void", "shop", "unit", "12", "fast")
    flat = {"kind": "score", "visitor.id": "u1", "score": "0.9"}
    assert mapping.read(json.dumps(flat).encode()) == MessageVerdict(
        "suspect", "shop", "unit", "u1", "", 0.9
    )
    assert mapping.read(b'{"kind": "page view"}') is None


NO_OBJECT = "the message is not a JSON object"
BAD = {
    b"\xff\xfe": NO_OBJECT,
    b"[1, 2]": NO_OBJECT,
    b"[" * 100_000: NO_OBJECT,
    b'{"kind": "conversion"': NO_OBJECT,
    b'{"kind": "conversion", "paid": 1}': "missing required field `decision`",
    b'{"kind": "conversion", "decision": " ", "paid": 1}': "missing required field `decision`",
    b'{"kind": "conversion", "decision": {"a": 1}, "paid": 1}': "got `object` - at `decision`",
    b'{"kind": "conversion", "decision": "d", "paid": "much"}': "got `str` - at `value`",
    b'{"kind": "conversion", "decision": "d", "paid": null}': "missing required field `value`",
    json.dumps(verdict(True)).encode(): "Expected `str`, got `bool` - at `name`",
    json.dumps(verdict(None)).encode(): "Object missing required field `name`",
    b'{"kind": "score", "visitor": {"id": "u1"}, "score": null}': "missing required field `score`",
    json.dumps(verdict("x" * 10_000)).encode(): "Expected `str` of length <= 200 - at `name`",
    b'{"kind": "verdict", "verdict": "bot", "visitor": {"id": ' + b"1" * 6000 + b"}}": NO_OBJECT,
    b'{"kind": "' + b"x" * 2**20 + b'"}': "the message has more than 1,048,576 bytes",
}


@pytest.mark.parametrize("content", BAD, ids=range(len(BAD)))
def test_messages_that_cannot_be_used_are_refused(columns, content):
    with pytest.raises(InvalidParameter, match=BAD[content]):
        Mapping.load(columns).read(content)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("messages = 1", "columns.toml: Expected `array`, got `int` - at `messages`."),
        ("[[messages]]\ndo = 'void'\nby = 'unit'", "columns.toml: void needs name - at `messages"),
        ("[[messages]]\ndo = 'forgive'", "Invalid enum value 'forgive' - at `messages[0].do`."),
        ("[[messages]]\ndo='void'\nby='unit'\nname='u'", "void needs an experiment"),
        ("experiment='e'\n[[messages]]\ndo='void'\nby='bot'\nname='u'", "by must be decision"),
        (
            "experiment='e'\n[[messages]]\ndo='suspect'\nby='source'\nname='u'\nscore='s'",
            "scores are by decision or unit; got 'source'",
        ),
        ("do = ", "is not a TOML file"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_refused(columns, capsys, text, sentence):
    columns.write_text(text)
    assert run(["follow", str(columns)]) == 2
    assert sentence in capsys.readouterr().err


def test_a_stream_needs_a_name(columns, capsys):
    columns.write_text(COLUMNS.replace('stream = "fraud"', ""))
    assert run(["follow", str(columns), "--nats", "nats://127.0.0.1:1"]) == 2
    assert "must name the stream that is followed" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address", ["bus", "http://bus:4222", "nats://", "nats://me:secret@bus:99999", "nats://[::1"]
)
def test_an_address_that_is_none_of_nats_is_refused(columns, capsys, address):
    assert run(["follow", str(columns), "--nats", address]) == 2
    error = capsys.readouterr().err
    assert "nats must be an address such as nats://user:password@host:4222." in error
    assert "secret" not in error


# --- standard input ---------------------------------------------------------------------------


def command(columns, address, *more):
    return [sys.executable, "-m", "armrace", "follow", str(columns), "--server", address, *more]


def test_lines_of_standard_input_are_worked_off(service, columns, tmp_path):
    made = service.decisions_made
    aside = tmp_path / "aside.ndjson"
    lines = [conversion(each, 0.5) for each in made[:40]]
    lines += [conversion(made[0], 0.5), conversion(made[1], 0.75), conversion("forged")]
    lines += [conversion(made[41], 1, click_id="é" * 10_000)]  # a label of 20 kB
    lines += [verdict("u1"), verdict("u2"), verdict("nobody"), verdict("u2", "fine")]
    lines += [{"kind": "score", "visitor": {"id": "u3"}, "score": 0.9}]
    lines += [{"kind": "page view"}, conversion(made[42], "nan")]
    text = "\n".join(map(json.dumps, lines)) + "\n\nnot JSON\n" + "x" * 3_000_000 + "\n"
    text += json.dumps(verdict("u5"))  # without a line break
    with hosted(service) as address:
        done = subprocess.run(
            command(columns, address, "--aside", str(aside), "--json", "-"),
            input=text, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        rows = standing(service)
    found = json.loads(done.stdout)
    assert {name: found[name] for name in ("accepted", "duplicate", "verdicts", "unknown")} == {
        "accepted": 40, "duplicate": 1, "verdicts": 6, "unknown": 1,
    }  # fmt: skip
    assert (found["changed"], found["ignored"]) == (5, 1)
    assert found["set_aside"]["the message is not a JSON object"] == 1
    assert rows[:6] == [
        (0.5, False, True), (0.5, True, False), (0.5, False, True), (0.5, False, False),
        (0.5, False, True), (0.5, True, False),
    ]  # fmt: skip
    kept = [json.loads(line) for line in aside.read_text().splitlines()]
    reasons = {each["place"]: each["reason"] for each in kept}
    assert len(kept) == 6
    assert reasons[51] == "reward must be a finite number; got nan."
    assert reasons[42] == "the decision has had the reward 0.5; got 0.75."
    assert reasons[53] == "the message is not a JSON object"
    assert reasons[54] == "the message has more than 1,048,576 bytes"
    assert json.loads(kept[0]["message"]) == lines[41]
    assert "message 53 cannot be used: the message is not a JSON object." in done.stderr


def test_a_stop_without_the_service_says_where_to_go_on(columns):
    line = command(columns, f"http://127.0.0.1:{free_port()}")
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(line, text=True, **pipes) as follower:
        follower.stdin.write(f"\n{json.dumps(verdict('u1'))}\n")
        follower.stdin.flush()
        assert "trying again until it answers" in follower.stderr.readline()
        follower.send_signal(signal.SIGTERM)
        said = follower.stderr.read()
        assert said == "armrace: stopped before message 2, since the service does not answer.\n"
        assert follower.wait(30) == INTERRUPTED


# --- a stream ---------------------------------------------------------------------------------


@contextmanager
def bus(folder, port):
    """A NATS server that keeps its streams in a folder."""
    line = [NATS_SERVER, "-js", "-sd", folder, "-a", "127.0.0.1", "-p", str(port)]
    with started(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield process


def on_bus(port, work):
    """Do something with a connection to the bus, once it is there; return what comes of it."""

    async def connected():
        client = await nats.connect(
            f"nats://127.0.0.1:{port}", reconnect_time_wait=0.05, error_cb=quiet
        )
        try:
            return await work(client.jetstream())
        finally:
            await client.close()

    return asyncio.run(connected())


async def quiet(error):
    pass


def prepare(port):
    """Make the stream, and a consumer that is soon given again what was not acknowledged."""

    async def work(stream):
        await stream.add_stream(name="fraud", subjects=["fraud.>"])
        waits = ConsumerConfig(durable_name="armrace", ack_wait=0.5, max_ack_pending=5000)
        await stream.add_consumer("fraud", waits)

    on_bus(port, work)


def publish(port, messages):
    async def work(stream):
        for each in messages:
            content = each if isinstance(each, bytes) else json.dumps(each).encode()
            await stream.publish("fraud.all", content)

    on_bus(port, work)


def left(port):
    """How many messages are not acknowledged yet."""

    async def work(stream):
        info = await stream.consumer_info("fraud", "armrace")
        return info.num_pending + info.num_ack_pending

    return on_bus(port, work)


def until(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def followed(service_address, columns, bus_port, take=None):
    """Follow the stream in a thread; yield the follower."""
    mapping, stopping = Mapping.load(columns), threading.Event()
    with Client(service_address, retries=0) as client:
        follower = Follower(client, mapping, stopping)
        stream = NatsStream(f"nats://127.0.0.1:{bus_port}", "fraud", "fraud.>", "armrace")
        ends = (take or follower.take, stopping)
        thread = threading.Thread(target=stream.follow, args=ends)
        thread.start()
        try:
            yield follower
        finally:
            stopping.set()
            thread.join(30)
            assert not thread.is_alive()


def test_nothing_is_lost_or_counted_twice_when_follower_bus_and_service_are_killed(
    columns, tmp_path
):
    port, place = free_port(), free_port()
    store = MemoryStore()
    keyring = Keyring()
    service = filled(Service(store, keyring), visits=900)
    made = service.decisions_made
    line = command(columns, f"http://127.0.0.1:{place}", "--nats", f"nats://127.0.0.1:{port}")
    folder = tmp_path / "bus"

    def rewarded(service):
        return sum(row.reward is not None for row in service.rows("shop"))

    def stage(number):
        """A third of the messages, rewards and verdicts mixed, one of them broken."""
        part = range(300 * number, 300 * number + 300)
        messages = []
        for n in part:
            messages.append(conversion(made[n], (n % 10) / 10))
            messages += [verdict(f"u{n}", rule="fast")] if n % 7 == 0 else []
            messages += [verdict(f"u{n}", "fine")] if n % 14 == 0 else []
        return [*messages, b"broken"]

    with bus(folder, port):
        prepare(port)
        publish(port, stage(0))
        with hosted(service, port=place), started(line) as follower:
            until(lambda: rewarded(service) > 0)
            follower.kill()  # perhaps before the acknowledgement
            follower.wait()
        # The bus is killed too, and the service is not there.
        publish(port, stage(1))
    with bus(folder, port) as process, started(line, stderr=subprocess.PIPE, text=True) as follower:
        service = Service(store, keyring)
        until(lambda: "trying again until it answers" in follower.stderr.readline())
        with hosted(service, port=place):
            until(lambda: rewarded(service) >= 600)
            process.kill()
            process.wait()
            until(lambda: "trying again until it can" in follower.stderr.readline())
            with bus(folder, port):
                publish(port, stage(2))
                until(lambda: rewarded(service) == 900 and left(port) == 0)
                follower.send_signal(signal.SIGTERM)
                assert follower.wait(30) == 0
            rows = standing(service)
    for n, (reward, void, counts) in enumerate(rows):
        assert reward == pytest.approx((n % 10) / 10, abs=1e-6)
        assert void == (n % 14 == 7)
        assert counts == (not void)


def test_what_is_delivered_again_is_not_worked_off_after_what_came_later(
    service, columns, tmp_path
):
    port = free_port()
    with bus(tmp_path / "bus", port), hosted(service) as address:
        prepare(port)
        publish(port, [verdict("u1")])

        async def take_and_forget(stream):  # as a follower that is killed
            pull = await stream.pull_subscribe_bind("armrace", "fraud")
            return await pull.fetch(1)

        assert len(on_bus(port, take_and_forget)) == 1
        publish(port, [verdict("u1", "fine")])
        with followed(address, columns, port):
            until(lambda: left(port) == 0)
        assert [each.action for each in service.actions("shop")][:2] == ["release", "void"]
        assert standing(service)[1][1] is False


def test_a_message_is_acknowledged_only_when_the_service_has_made_it_durable(
    service, columns, tmp_path
):
    port, may_end = free_port(), threading.Event()
    with bus(tmp_path / "bus", port), hosted(service) as address:
        prepare(port)
        publish(port, [conversion(service.decisions_made[0]), b"broken"])
        taken = []

        def slow(messages, share):
            taken.append(messages)
            may_end.wait(30)
            return {2: "the message is not a JSON object"}

        with followed(address, columns, port, slow):
            until(lambda: taken)
            assert left(port) == 2
            may_end.set()
            until(lambda: left(port) == 0)
        assert [each.place for each in taken[0]] == [1, 2]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ('stream = "other"', "has no stream 'other'."),
        ('stream = "fraud"\ndurable = "pushed"', "the consumer 'pushed' must be pulled"),
    ],
)
def test_a_stream_that_cannot_be_followed_is_named(columns, tmp_path, capsys, wrong, sentence):
    port = free_port()
    columns.write_text(COLUMNS.replace('stream = "fraud"', wrong))
    with bus(tmp_path / "bus", port):
        prepare(port)

        async def push(stream):
            await stream.add_consumer(
                "fraud", ConsumerConfig(durable_name="pushed", deliver_subject="there")
            )

        on_bus(port, push)
        assert run(["follow", str(columns), "--nats", f"nats://me:secret@127.0.0.1:{port}"]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert "secret" not in error


def test_a_service_that_lets_nobody_in_ends_the_command(columns, tmp_path, capsys):
    keyring = Keyring()
    keyring.create(["admin"])
    service = filled(Service(MemoryStore(), keyring), 1)
    port = free_port()
    with bus(tmp_path / "bus", port), hosted(service) as address:
        prepare(port)
        publish(port, [verdict("u0")])
        line = ["follow", str(columns), "--nats", f"nats://127.0.0.1:{port}", "--server", address]
        assert run([*line, "--key", "wrong"]) == 2
        assert "key" in capsys.readouterr().err
        assert left(port) == 1


def test_what_makes_the_service_refuse_a_batch_is_found_in_it(service, columns):
    """A reason of more than 1,000 characters, which only the service refuses."""
    with hosted(service) as address, Client(address) as client:
        follower = Follower(client, Mapping.load(columns), threading.Event())
        sent = [verdict(f"u{n}", rule="x" * 2000 if n == 5 else "fast") for n in range(9)]
        refused = follower.take(
            [Message(n, json.dumps(each).encode()) for n, each in enumerate(sent)]
        )
        assert list(refused) == [5]
        assert [row[1] for row in standing(service)[:9]] == [n != 5 for n in range(9)]
