"""Webhooks: alarms are told to an address that the operator names, signed, at least once.

A thread looks every second at what the engine's own audits have found. Each new alarm is written
into a file beside the keys before it is sent, and leaves the file when the receiver has answered
2xx, so that a restart neither loses nor repeats it. Another thread sends, so that a receiver that
hangs holds up nothing but what is sent to it.

Messages have the headers and signatures of the specification "Standard Webhooks".
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import httpx2
import msgspec
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from armrace.audit.findings import Alarm
from armrace.errors import ArmraceError, InvalidParameter, UnwritableOutput
from armrace.files import atomic_path, folder_locked
from armrace.service.engine import Engine
from armrace.service.log.marks import marks_path
from armrace.service.notices import describe_alarms
from armrace.service.work import Principal
from armrace_client.operations import Describe, ReadHistory, RunAudit

_LOOK_SECONDS = 1.0
_SECONDS = 10.0
"""How long a receiver may take to answer."""
_FIRST_WAIT, _LONGEST_WAIT = 15.0, 3600.0
"""Seconds to the second attempt, which double with each; more than an attempt takes."""
_KEPT_SECONDS = 7 * 86_400.0
"""How long a message is tried."""
_MOST_WAITING = 100
"""While so many messages wait, further alarms are told later, if they are still up then."""
_FORGOTTEN_SECONDS = 3600.0
"""An alarm that comes back sooner is not a new one, unless something was ruled meanwhile."""
_LEAST_SECRET = 24

T = TypeVar("T")
Note = Callable[..., None]
"""Writes a line of the log: an event, and what belongs to it."""


class WebhookSettings(NamedTuple):
    """Where alarms are told."""

    url: str
    secret: Path
    """A file whose text begins with ``whsec_``; read for every message, so that it can change."""
    pages: str
    """Where people reach the pages of the service, for links."""

    def check(self) -> None:
        """Refuse an address that is none, or a secret that cannot be used."""
        for name, address in (("webhook", self.url), ("url", self.pages)):
            found = httpx2.URL()
            with suppress(httpx2.InvalidURL):
                found = httpx2.URL(address)
            if found.scheme not in ("http", "https") or not found.host or found.userinfo:
                raise InvalidParameter(
                    f"{name} must be an http or https address without a password; got "
                    f"{found.scheme or 'another text'}."
                )
        read_secret(self.secret)


def read_secret(path: Path) -> bytes:
    """Return the secret that a file holds."""
    kind, secret = "", b""
    try:
        with suppress(binascii.Error, UnicodeDecodeError):
            kind, _, text = path.read_text(encoding="ascii").strip().partition("_")
            secret = base64.b64decode(text, validate=True)
    except OSError as error:
        raise InvalidParameter(f"webhook_secret cannot be read: {error.strerror}.") from None
    if kind != "whsec" or len(secret) < _LEAST_SECRET:
        raise InvalidParameter(
            f"webhook_secret must be a file with whsec_ and at least {_LEAST_SECRET} bytes in "
            'base64, as echo "whsec_$(openssl rand -base64 32)" writes it.'
        )
    return secret


def signature(secret: bytes, name: str, timestamp: str, body: bytes) -> str:
    """Return what signs a message: HMAC-SHA256 over its id, its time and its body.

    >>> secret = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> message = ("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    >>> signature(secret, *message)  # the example of the specification
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    signed = f"{name}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()


# --- what was told, and what waits ------------------------------------------------------------


class WebhookMessage(msgspec.Struct):
    """A message that waits for an answer of its receiver."""

    id: str
    experiment: str
    body: str
    created: float
    due: float
    """When it is tried next, in seconds since 1970."""
    attempts: int = 0


class _Told(msgspec.Struct):
    """The alarms of an experiment that were told."""

    generation: int
    ruled: int
    """When the last ruling was made."""
    alarms: dict[str, float]
    """When each was last seen to be up."""
    looked: float = 0.0
    """When it was last looked."""


class _State(msgspec.Struct):
    told: dict[int, _Told] = {}
    """By the number of the log."""
    waiting: list[WebhookMessage] = []


class WebhookQueue:
    """What was told and what waits, in a file that the servers of a folder share."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.state = _State()
        """As it was when this process last read or wrote it."""
        self._read()

    def _read(self) -> None:
        # A damaged file is replaced: its alarms are told again.
        with suppress(OSError, msgspec.MsgspecError):
            if self._path is not None:
                self.state = msgspec.json.decode(self._path.read_bytes(), type=_State)

    @contextmanager
    def _changing(self) -> Iterator[_State]:
        path = self._path
        with self._lock, nullcontext() if path is None else folder_locked(path.parent):
            self._read()
            yield self.state
            if path is not None:
                with atomic_path(path, private=True) as place:
                    place.write_bytes(msgspec.json.encode(self.state))

    def tell(
        self, log: int, now: _Told, name: str, compose: Callable[[set[str]], dict[str, Any]]
    ) -> bool:
        """Take note of alarms that are up; a message about those that are new waits from now on.

        ``compose`` returns what to tell of these. Return whether there was room for it.
        """
        moment = time.time()
        with self._changing() as state:
            before = state.told.pop(log, None)
            known: dict[str, float] = {}
            if before is not None and before.generation == now.generation:
                lately = moment - _FORGOTTEN_SECONDS if before.ruled == now.ruled else moment
                known = {
                    key: moment if key in now.alarms else at
                    for key, at in before.alarms.items()
                    if at > lately or (at == before.looked and key in now.alarms)
                }
            new = now.alarms.keys() - known.keys()
            has_room = len(state.waiting) < _MOST_WAITING
            if new and has_room:
                message = f"msg_{secrets.token_hex(12)}"
                body = msgspec.json.encode({"id": message, **compose(set(new))}).decode()
                state.waiting.append(WebhookMessage(message, name, body, moment, moment))
                known |= dict.fromkeys(new, moment)
            if known:
                state.told[log] = _Told(now.generation, now.ruled, known, moment)
            return has_room or not new

    def claim(self) -> WebhookMessage | None:
        """Return a message that is due; it is due again later if it is not settled by then."""
        moment = time.time()

        def due() -> Iterator[WebhookMessage]:
            for each in self.state.waiting:
                # The clock may have been set back.
                if not moment < each.due <= moment + 2 * _LONGEST_WAIT:
                    yield each

        if next(due(), None) is None:
            return None
        with self._changing():  # another server may have been faster
            if (message := next(due(), None)) is not None:
                message.due = moment + min(_LONGEST_WAIT, _FIRST_WAIT * 2**message.attempts)
                message.attempts += 1
            return message

    def settle(self, message: WebhookMessage) -> None:
        """Forget a message that has arrived, or that is given up."""
        with self._changing() as state:
            state.waiting = [each for each in state.waiting if each.id != message.id]


# --- looking and sending ----------------------------------------------------------------------


class Webhooks(Collector):
    """Tells the alarms of a service to a webhook, from when it is started until it is closed."""

    def __init__(self, engine: Engine, settings: WebhookSettings, note: Note) -> None:
        settings.check()
        self._engine, self._settings, self._note = engine, settings, note
        self._host = httpx2.URL(settings.url).host
        """All that logs show of the address: the rest is often a secret."""
        keys, path = engine.keyring.path, None
        if keys is not None and os.access(keys.parent, os.W_OK):
            path = marks_path(keys, engine.store.name, "webhook")
        self.outbox = WebhookQueue(path)
        self._seen: dict[int, tuple[int, ...]] = {}
        """What was last looked at of each experiment in memory."""
        self._closing = threading.Event()
        self._attempts = {"delivered": 0, "failed": 0}
        self._cancel: Callable[[], object] = lambda: None
        # Daemons: neither a store nor a receiver that hangs keeps the process from ending.
        self._threads = [
            threading.Thread(target=each, name="webhooks", daemon=True)
            for each in (self._watch, lambda: asyncio.run(self._send()))
        ]

    def start(self) -> None:
        """Begin to look and to send."""
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """Look a last time; what is not sent by now is sent by the next start."""
        self._closing.set()
        self._threads[0].join(_SECONDS)
        with suppress(RuntimeError):  # it has ended
            self._cancel()
        self._threads[1].join(1.0)

    def collect(self) -> Iterator[Metric]:
        """Yield metrics of the deliveries."""
        name, meaning = "armrace_webhook_attempts", "Attempts to tell an alarm."
        attempts = CounterMetricFamily(name, meaning, labels=["outcome"])
        for outcome, count in self._attempts.items():
            attempts.add_metric([outcome], count)
        yield attempts
        waiting = len(self.outbox.state.waiting)
        yield GaugeMetricFamily("armrace_webhook_waiting", "Messages that wait.", waiting)

    def _watch(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closing.wait(_LOOK_SECONDS)
            self._guarded(self.look, "alarms cannot be noted")

    def _guarded(self, work: Callable[[], T], problem: str) -> T | None:
        try:
            return work()
        except Exception as error:  # such as a full disk: it may have room again
            self._note("webhook", f"{problem}: {error}")
            self._closing.wait(_FIRST_WAIT)
            return None

    def look(self) -> None:
        """Tell the alarms that are new in the experiments that are in memory."""
        loaded = self._engine.loaded
        self._seen = {each.log: self._seen.get(each.log, ()) for each in loaded}
        for shard in loaded:
            experiment, history = shard.experiment, shard.experiment.history
            alarms = history.points[-1].alarms if history.points else 0
            ruled = history.rulings[-1].time if history.rulings else 0
            version = (experiment.generation.number, history.audited, alarms, ruled)
            if version == self._seen[shard.log]:
                continue
            try:
                is_done = not (alarms or shard.log in self.outbox.state.told) or self._examine(
                    shard.log, experiment.tenant, experiment.name, _Told(version[0], ruled, {})
                )
            except UnwritableOutput:
                raise
            except ArmraceError:  # deleted meanwhile, or the store does not answer
                continue
            if is_done:
                self._seen[shard.log] = version

    def _examine(self, log: int, tenant: str, name: str, now: _Told) -> bool:
        """Look at an experiment closely; return whether all that is new could be told."""
        principal, perform = Principal(tenant), self._engine.perform
        audit = perform(RunAudit(name), principal)
        view, history = perform(Describe(name), principal), perform(ReadHistory(name), principal)
        alarms = {
            msgspec.json.encode([each.kind, each.arm, each.leaf]).decode(): each
            for each in msgspec.convert(audit["alarms"], list[Alarm])
        }

        def compose(new: set[str]) -> dict[str, Any]:
            told = [each for key, each in alarms.items() if key in new]
            notice = describe_alarms(told, view, history)
            assert notice is not None
            since = "" if notice.since is None else f" since {_text_of(notice.since)} UTC"
            return {
                "type": "alarm",
                "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
                "tenant": tenant,
                "experiment": name,
                "text": f"Rewards of {name} look forged, or something else has changed{since}: "
                f"{notice.happened}",
                "since": notice.since,
                "link": f"{self._settings.pages}/experiment?{urlencode({'name': name})}",
                "certificate": audit["certificate"],
                "alarms": [{**msgspec.to_builtins(each), "words": each.words} for each in told],
            }

        now.alarms = dict.fromkeys(alarms, 0.0)
        return self.outbox.tell(log, now, name, compose)

    async def _send(self) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._cancel = partial(loop.call_soon_threadsafe, task.cancel)
        with suppress(asyncio.CancelledError):
            async with httpx2.AsyncClient(timeout=_SECONDS) as client:
                while not self._closing.is_set():
                    message = self._guarded(self.outbox.claim, "a message cannot be sent")
                    if message is None:
                        await asyncio.sleep(_LOOK_SECONDS)
                    else:
                        await self._deliver(client, message)

    async def _deliver(self, client: httpx2.AsyncClient, message: WebhookMessage) -> None:
        problem = await self._attempt(client, message)
        is_over = problem is None or time.time() > message.created + _KEPT_SECONDS
        if is_over:
            with suppress(ArmraceError):  # else it is sent again
                self.outbox.settle(message)
        self._attempts["delivered" if problem is None else "failed"] += 1
        said = f"{self._host} {problem}; it is {'given up' if is_over else 'tried again'}."
        if problem is None:
            said = f"{self._host} was told of an alarm."
        about = {"experiment": message.experiment, "attempt": message.attempts}
        self._note("webhook", said, id=message.id, **about)

    async def _attempt(self, client: httpx2.AsyncClient, message: WebhookMessage) -> str | None:
        """Send a message; return what went wrong."""
        body, timestamp = message.body.encode(), str(int(time.time()))
        try:
            secret = read_secret(self._settings.secret)
            headers = {
                "Content-Type": "application/json",
                "webhook-id": message.id,
                "webhook-timestamp": timestamp,
                "webhook-signature": signature(secret, message.id, timestamp, body),
            }
            # The time of all of it: one byte now and then would do for the client's own limits.
            async with asyncio.timeout(_SECONDS):
                sent = client.stream("POST", self._settings.url, content=body, headers=headers)
                async with sent as answer:  # whose body nobody reads
                    status = answer.status_code
        except TimeoutError:
            return f"did not answer within {_SECONDS:g} seconds"
        except Exception as error:
            return f"cannot be reached: {error or type(error).__name__}"
        return None if 200 <= status < 300 else f"answered {status}"


def _text_of(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M")
