"""``armrace follow``: rewards and verdicts from a message bus or from standard input."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from threading import Event
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from armrace.cli import options
from armrace.cli.outputs import INTERRUPTED, STANDARD_OUTPUT, check_targets, say, write_json
from armrace.cli.rulings import DEFAULT_SERVER, Key, Server
from armrace.errors import ArmraceError, InvalidParameter, ServiceUnreachable
from armrace.formatting import count, number_of

if TYPE_CHECKING:
    from armrace.cli.buses import Message, Refused
    from armrace.cli.messages import Mapping, MessageVerdict
    from armrace_client import Client
    from armrace_client.calls import RewardItem

_PAUSE = 1.0
"""How long to wait before a service that does not answer is asked again."""
_TIMEOUT = 30.0

File = Annotated[
    Path,
    options.argument(
        "FILE", "A TOML file that says what the columns of messages mean.", show_default=False
    ),
]
Nats = Annotated[
    str | None,
    options.option(
        "--nats URL",
        "A NATS server, as nats://user:password@host:4222, whose stream the file names; by "
        "default messages come as NDJSON on standard input.",
        envvar="ARMRACE_NATS",
    ),
]
Aside = Annotated[
    Path | None,
    options.output_path(
        "--aside FILE", "Append messages that cannot be used to this NDJSON file, with the reason."
    ),
]
EPILOG = options.examples(
    "armrace follow columns.toml --nats nats://bus:4222 --aside bad.ndjson",
    "tail -F verdicts.ndjson | armrace follow columns.toml",
)


def follow(
    *,
    file: File,
    nats: Nats = None,
    server: Server = None,
    key: Key = None,
    aside: Aside = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Bring rewards and verdicts from a NATS JetStream stream, or from standard input, to a server.

    A message is acknowledged when the service has made it durable. One that comes again changes
    nothing, so that the command can be stopped or killed at any time, and started again.
    """
    from armrace.cli.buses import NatsStream, follow_standard_input
    from armrace.cli.messages import Mapping
    from armrace.simulation.progress import progress_bar
    from armrace_client import Client

    check_targets(json, force=force)
    mapping = Mapping.load(file)
    source = follow_standard_input
    if nats is not None:
        if mapping.stream is None:
            raise InvalidParameter(f"{file} must name the stream that is followed.")
        source = NatsStream(nats, mapping.stream, mapping.subject, mapping.durable).follow
    with (
        _stop_on_signals() as stopping,
        Client(server or DEFAULT_SERVER, key, _TIMEOUT, retries=0) as client,
        nullcontext() if aside is None else aside.open("a", encoding="utf-8") as kept,
        progress_bar("messages", None) as bar,
    ):
        code, follower = 0, Follower(client, mapping, stopping, kept, bar)
        try:
            source(follower.take, stopping)
        except Stopped as stop:
            code = 0 if nats else INTERRUPTED  # the bus delivers again what was not acknowledged
            say(f"armrace: stopped before message {stop}, since the service does not answer.")
    if json is not None:
        write_json(json, follower.data())
    if json != STANDARD_OUTPUT:
        for sentence in follower.sentences():
            typer.echo(sentence)
    raise typer.Exit(code)


class Stopped(Exception):
    """The command is to stop while messages are being worked off."""


@contextmanager
def _stop_on_signals() -> Iterator[Event]:
    """Yield an event that SIGTERM and Ctrl-C set; a second one ends the program at once."""
    stopping = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class Follower:
    """Works off messages: rewards first, then verdicts in their order, those of a kind together.

    Those that cannot be used go to ``aside``; ``bar`` is told how much is done, and what.
    """

    def __init__(
        self,
        client: Client,
        mapping: Mapping,
        stopping: Event,
        aside: IO[str] | None = None,
        bar: Callable[[float, str], None] = lambda share, words: None,
    ) -> None:
        self._client, self._mapping, self._stopping = client, mapping, stopping
        self._aside, self._bar = aside, bar
        self._counts, self._reasons = Counter[str](), Counter[str]()
        self._refused: dict[int, str] = {}
        self._first = 0

    def take(self, messages: Sequence[Message], share: float = 0.0) -> Refused:
        """Work off messages; return the places of those that were set aside, and why.

        Raises:
            Stopped: the command is to stop, and the service does not answer.
            ArmraceError: the service lets nobody in, or does not have the experiment.
        """
        from armrace_client.calls import RewardItem
        from armrace_client.operations import MOST_IN_BATCH

        self._refused, self._first = {}, messages[0].place
        rewards: list[tuple[int, RewardItem]] = []
        verdicts: list[tuple[int, MessageVerdict]] = []
        for place, content in messages:
            try:
                found = self._mapping.read(content)
            except InvalidParameter as error:
                self._refuse(place, str(error))
                continue
            if found is None:
                self._counts["ignored"] += 1
            elif isinstance(found, RewardItem):
                rewards.append((place, found))
            else:
                verdicts.append((place, found))
        for begin in range(0, len(rewards), MOST_IN_BATCH):
            self._deliver(rewards[begin : begin + MOST_IN_BATCH], self._reward)
        scored = Counter[str]()

        def kind(each: tuple[int, MessageVerdict]) -> tuple[Any, ...]:
            said = each[1]
            if said.do != "suspect":
                return said.do, said.experiment, said.by
            scored[said.name] += 1  # of several scores of a name, each counts
            return said.do, said.experiment, said.by, said.reason, scored[said.name]

        for _, run in groupby(verdicts, kind):
            self._deliver(list(run), self._rule)
        self._keep(messages)
        total = self._counts
        sent = number_of(total["accepted"] + total["duplicate"], "reward")
        said = number_of(total["verdicts"], "verdict")
        self._bar(share, f"{sent}, {said}, {count(self._reasons.total())} set aside")
        return self._refused

    def _deliver(self, all_: list[Any], send: Callable[[list[Any]], None]) -> None:
        """Send until the service has answered; look for the members because of which it refuses."""
        parts, told = [all_], False
        while parts:
            part = parts.pop()
            try:
                send(part)
            except ServiceUnreachable as error:
                if not told:
                    say(f"armrace: {str(error).rstrip('.')}; trying again until it answers.")
                parts, told = [*parts, part], True
                if self._stopping.wait(_PAUSE):
                    raise Stopped(self._first) from None
            except ArmraceError as error:
                if error.status in (401, 403, 404, 405):
                    raise  # it would refuse all others too
                half = len(part) // 2
                if half:
                    parts += [part[half:], part[:half]]
                else:
                    self._refuse(part[0][0], str(error))

    def _reward(self, part: list[tuple[int, RewardItem]]) -> None:
        answers = self._client.reward_many([each for _, each in part])
        for (place, _), answer in zip(part, answers, strict=True):
            if answer.status in ("accepted", "duplicate"):
                self._counts[answer.status] += 1
            else:
                self._refuse(place, f"the reward is refused as {answer.status}", answer.detail)

    def _rule(self, part: list[tuple[int, MessageVerdict]]) -> None:
        from armrace.offline.identifiers import selector_of

        verdicts = [each for _, each in part]
        one = verdicts[0]
        if one.do == "suspect":
            scores = {each.name: each.score for each in verdicts}
            asked: dict[str, Any] = {"scores": scores, "by": one.by, "reason": one.reason}
        else:
            chosen = selector_of(one.by)([each.name for each in verdicts])
            asked = {**chosen, "reasons": [each.reason for each in verdicts], "listed": 0}
        answer = getattr(self._client, one.do)(one.experiment, **asked)
        self._counts["verdicts"] += len(verdicts)
        self._counts["changed"] += answer.changed
        self._counts["unknown"] += answer.unknown

    def _refuse(self, place: int, reason: str, detail: str = "") -> None:
        kind = reason.partition("; got")[0].rstrip(".")
        if not self._reasons[kind]:
            say(f"armrace: message {place} cannot be used: {(detail or reason).rstrip('.')}.")
        self._reasons[kind] += 1
        self._refused[place] = detail or reason

    def _keep(self, messages: Sequence[Message]) -> None:
        """Write what was set aside to its file, durably."""
        if self._aside is None or not self._refused:
            return
        for place, content in messages:
            if place in self._refused:
                text = content.decode("utf-8", "backslashreplace")
                line = {"message": text, "place": place, "reason": self._refused[place]}
                self._aside.write(msgspec.json.encode(line).decode() + "\n")
        self._aside.flush()
        os.fsync(self._aside.fileno())

    def data(self) -> dict[str, Any]:
        """Return what has become of all messages."""
        names = ("accepted", "duplicate", "verdicts", "changed", "unknown", "ignored")
        return {name: self._counts[name] for name in names} | {"set_aside": dict(self._reasons)}

    def sentences(self) -> list[str]:
        """Say what has become of all messages."""
        found = self._counts
        said = [
            f"{number_of(found['accepted'], 'reward')} accepted, "
            f"{count(found['duplicate'])} known already",
            f"{number_of(found['verdicts'], 'verdict')}, which changed "
            f"{number_of(found['changed'], 'visit')}, {count(found['unknown'])} of unknown names",
        ]
        if found["ignored"]:
            said.append(f"{number_of(found['ignored'], 'message')} of other kinds")
        for reason, number in self._reasons.most_common():
            said.append(f"{number_of(number, 'message')} set aside: {reason}")
        return [f"{each}." for each in said]
