"""Where messages come from: standard input, or a stream of NATS JetStream."""

from __future__ import annotations

import asyncio
import os
import select
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Event
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from armrace.cli.messages import LARGEST
from armrace.cli.outputs import say
from armrace.errors import ArmraceError, InvalidParameter, missing_package

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

MOST = 5000
"""How many messages are worked off at once."""
_SECONDS = 0.5
"""How long more messages are waited for, and how soon a stop is noticed."""
_ACK_SECONDS = 10.0
"""After how long the bus delivers again what was not acknowledged."""
_PAUSE = 1.0


class Message(NamedTuple):
    """A message, and its place: a line, or a sequence number of the stream."""

    place: int
    content: bytes


Refused = Mapping[int, str]
"""The places of messages that were set aside, and why."""
Take = Callable[[list[Message], float], Refused]
"""Works off messages, and returns when that is durable; is also told how much of all is read."""


def follow_standard_input(take: Take, stopping: Event) -> None:
    """Work off the lines of standard input, until it ends."""
    source, line, rest = sys.stdin.fileno(), 0, b""
    status = os.fstat(source)
    size, read = status.st_size if stat.S_ISREG(status.st_mode) else 0, 0
    ended = False
    while not ended and not stopping.is_set():
        if not select.select([source], [], [], _SECONDS)[0]:
            continue
        part = os.read(source, LARGEST)
        read, ended = read + len(part), not part
        *lines, rest = (rest + part).split(b"\n")
        rest = rest[: LARGEST + 1]  # enough to see that the line is too long
        lines += [rest] if ended else []
        found = [Message(line + at, each) for at, each in enumerate(lines, 1) if each.strip()]
        line += len(lines)
        for begin in range(0, len(found), MOST):
            take(found[begin : begin + MOST], read / size if size else 0.0)


class NatsStream:
    """A stream of NATS JetStream, whose durable consumer knows what was worked off.

    Messages are worked off in the order of the stream, also where some are delivered again: a
    release must not be followed by the void that it came after. So nothing is worked off as long as
    the consumer waits for the acknowledgement of an earlier message that is not here.
    """

    def __init__(self, address: str, stream: str, subject: str, durable: str) -> None:
        self._address, self._stream = address, stream
        self._subject, self._durable = subject, durable
        self._shown = _without_password(address)
        self._told = ""
        self._why: BaseException | None = None

    def follow(self, take: Take, stopping: Event) -> None:
        """Work off messages until told to stop, and wait where the bus cannot be reached."""
        try:
            import nats.errors
        except ModuleNotFoundError as error:
            raise InvalidParameter(missing_package(error)) from None
        while not stopping.is_set():
            try:
                asyncio.run(self._follow(take, stopping))
            except ArmraceError:
                raise
            except (nats.errors.Error, OSError, TimeoutError) as error:
                why = str(self._why or error) or type(error).__name__
                if "authorization" in why.lower():
                    raise InvalidParameter(f"{self._shown} refuses the credentials.") from None
                self._tell(f"{self._shown} cannot be reached ({why}); trying again until it can.")
                self._why = None
                stopping.wait(_PAUSE)

    def _tell(self, words: str) -> None:
        """Say something, once for all the time that it holds."""
        if words and words != self._told:
            say(f"armrace: {words}")
        elif self._told and not words:
            say(f"armrace: {self._shown} is being followed again.")
        self._told = words

    async def _follow(self, take: Take, stopping: Event) -> None:
        from nats.aio.client import Client

        client = Client()
        try:
            await client.connect(
                self._address,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                error_cb=self._note,
            )
            pull = await self._subscribe(client.jetstream())
            here: dict[int, Msg] = {}
            while not stopping.is_set():
                most = MOST - len(here)
                try:
                    found = await pull.fetch(most, timeout=_SECONDS) if most else []
                except TimeoutError:
                    found = []
                here |= {each.metadata.sequence.stream: each for each in found}
                info = await pull.consumer_info()
                if (info.num_ack_pending or 0) > len(here):
                    self._tell("waiting for messages that another follower was given.")
                    await asyncio.sleep(_SECONDS)
                    continue
                self._tell("")
                if here:
                    done = info.delivered.stream_seq if info.delivered else 0
                    share = done / max(1, done + (info.num_pending or 0))
                    messages = [Message(place, here[place].data) for place in sorted(here)]
                    refused = await asyncio.to_thread(take, messages, share)
                    await self._acknowledge(client, here, refused)
                    here = {}
        finally:
            await client.close()

    async def _note(self, error: Exception) -> None:
        """Keep why the bus cannot be reached, which the library's own error does not say."""
        self._why = error

    async def _subscribe(self, bus: JetStreamContext) -> JetStreamContext.PullSubscription:
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import APIError, NotFoundError

        # The bus holds back what comes later once so many wait to be acknowledged.
        wanted = ConsumerConfig(ack_wait=_ACK_SECONDS, max_ack_pending=MOST)
        try:
            pull = await bus.pull_subscribe(self._subject, self._durable, self._stream, wanted)
            config = (await pull.consumer_info()).config
        except NotFoundError:
            raise InvalidParameter(f"{self._shown} has no stream {self._stream!r:.100}.") from None
        except APIError as error:
            if error.code == 503:
                raise TimeoutError(error.description) from None
            raise InvalidParameter(f"{self._shown} refuses: {error.description}.") from None
        if config.ack_policy != AckPolicy.EXPLICIT or config.deliver_subject:
            raise InvalidParameter(
                f"the consumer {self._durable!r:.100} must be pulled and acknowledged explicitly."
            )
        return pull

    @staticmethod
    async def _acknowledge(client: Client, here: Mapping[int, Msg], refused: Refused) -> None:
        """Acknowledge messages, and terminate those that were set aside; wait until it is known."""
        *others, last = sorted(here)
        for place in [*others, last]:
            why = refused.get(place)
            answer = b"+ACK" if why is None else b"+TERM " + why.encode("utf-8", "replace")[:500]
            if place != last:
                await client.publish(here[place].reply, answer)
            else:
                await client.request(here[place].reply, answer, timeout=_ACK_SECONDS)


def _without_password(address: str) -> str:
    """Return what may be shown of an address; refuse one that is none of NATS."""
    with suppress(ValueError):
        place = urlsplit(address)
        if place.scheme in ("nats", "tls", "ws", "wss") and place.hostname:
            return f"{place.scheme}://{place.hostname}:{place.port or 4222}"
    raise InvalidParameter("nats must be an address such as nats://user:password@host:4222.")
