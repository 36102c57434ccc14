"""What happens to experiments, as plain data: the events of the log.

An experiment is the fold of its events (:mod:`armrace.service.experiment`). Times are whole
milliseconds since 1970 and never decrease along the log. A decision is known by the place of its
event in the log, its sequence number, which is unique in the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from armrace.errors import DamagedFile
from armrace.kernels.generics import Ticket
from armrace.service.answers import ArmStatus, Phase
from armrace.service.chain import Record

__all__ = [
    "RULINGS",
    "ArmAdded",
    "ArmChanged",
    "Contradicted",
    "Created",
    "Decided",
    "DecidedAhead",
    "Event",
    "PhaseChanged",
    "Released",
    "Retracted",
    "Rewarded",
    "StreamOpened",
    "Ticked",
    "decode",
    "decode_many",
    "encode",
    "rulings_in",
    "subject",
]


class _Event(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    time: int
    experiment: int
    """Experiments are numbered in the order of their creation, from 0."""


class Created(_Event, frozen=True, tag=0, gc=False):
    """An experiment was created."""

    tenant: str
    name: str
    settings: dict[str, Any]


class Decided(_Event, frozen=True, tag=1, gc=False):
    """A decision was made."""

    arm: int
    """The arm's place in the experiment, counted from 0 in the order in which arms came."""
    ticket: Ticket | None
    """What the policy drew; ``None`` if a floor chose the arm, of which the policy learns nothing.
    """
    taken: int
    """How many random numbers the learner had taken by then; 0 if a floor chose the arm."""
    probability: float | None
    """The probability of the arm, floors included; ``None`` where it is not known."""
    shares: bytes = b""
    """The probability of every arm in single precision, if no arm was left out; else empty."""
    unit: str | None = None
    request: str | None = None


class Rewarded(_Event, frozen=True, tag=2, gc=False):
    """The reward of a decision came."""

    decision: int
    steps: int
    """The reward on the grid of :mod:`armrace.service.rewards`."""
    source: str | None = None
    suspicion: float | None = None


class Retracted(_Event, frozen=True, tag=3, gc=False):
    """Rewards were taken back: they count as if they had never come."""

    decisions: list[int]
    reason: str = ""


class Released(_Event, frozen=True, tag=4, gc=False):
    """Rewards were released from quarantine, or retracted ones reinstated: they count."""

    decisions: list[int]
    reason: str = ""


class ArmAdded(_Event, frozen=True, tag=5, gc=False):
    """A new arm came after the existing ones."""

    arm: str


class ArmChanged(_Event, frozen=True, tag=6, gc=False):
    """An arm was paused, resumed or retired."""

    arm: int
    status: ArmStatus
    told: bool = False
    """Whether the policy learned of it: its learner was told, or a new generation started. Up to
    version 0.2.0 it did not, and chose among the others."""


class PhaseChanged(_Event, frozen=True, tag=7, gc=False):
    """The experiment was paused, resumed or finished."""

    phase: Phase


class Ticked(_Event, frozen=True, tag=8, gc=False):
    """Time passed: decisions whose window has closed are settled, without any other event."""


class Contradicted(_Event, frozen=True, tag=9, gc=False):
    """Another reward came for a decision that had one; it was refused and is counted."""

    decision: int


class StreamOpened(_Event, frozen=True, tag=10, gc=False):
    """In logs of earlier versions: a server was given a random stream that no other has.

    Streams of an experiment are numbered from 1 in the order of these events.
    """


class DecidedAhead(Decided, frozen=True, tag=11, gc=False):
    """In logs of earlier versions: a server drew a decision before its turn to append it.

    The random numbers were not the learner's own, so that ``taken`` is 0.
    """

    stream: int = 0
    """The number of the random stream, as :class:`StreamOpened` gave it out."""
    stream_taken: int = 0
    """How many numbers of the stream had been taken by then."""
    known: int = 0
    """The last record of the log that the state included from which the arm was drawn; the
    server's own decisions with the same number that come before this one were included too."""


Event = (
    Created
    | Decided
    | Rewarded
    | Retracted
    | Released
    | ArmAdded
    | ArmChanged
    | PhaseChanged
    | Ticked
    | Contradicted
    | StreamOpened
    | DecidedAhead
)

encode = msgspec.msgpack.Encoder().encode
"""Write an event as bytes."""

_decode = msgspec.msgpack.Decoder(Event).decode


def decode(payload: bytes) -> Event:
    """Read an event back.

    Raises:
        DamagedFile: the bytes are not an event of this version.
    """
    try:
        event: Event = _decode(payload)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
    return event


_decode_list = msgspec.msgpack.Decoder(list[Event]).decode


def decode_many(payloads: Sequence[bytes]) -> list[Event]:
    """Read many events back at once, which takes half the time of one by one.

    Raises:
        DamagedFile: some bytes are not an event of this version.
    """
    # A MessagePack list: its header with the number of members, then the members.
    content = b"\xdd" + len(payloads).to_bytes(4, "big") + b"".join(payloads)
    try:
        events: list[Event] = _decode_list(content)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
    return events


RULINGS = 0
"""The subject of all rulings; decisions have sequence numbers from 1 on."""


def subject(event: Event) -> int | None:
    """Return what a store can find an event by: the decision of a reward, or ``RULINGS``."""
    if isinstance(event, Rewarded):
        return event.decision
    return RULINGS if isinstance(event, (Retracted, Released)) else None


def rulings_in(records: Iterable[Record]) -> dict[int, dict[int, bool]]:
    """Return the last ruling about each decision, by experiment.

    Args:
        records: records of a log; those that are not rulings are left out.
    """
    rulings: dict[int, dict[int, bool]] = {}
    for record in records:
        if record.subject == RULINGS:
            event = decode(record.payload)
            assert isinstance(event, (Retracted, Released))
            found = dict.fromkeys(event.decisions, isinstance(event, Released))
            rulings.setdefault(event.experiment, {}).update(found)
    return rulings
