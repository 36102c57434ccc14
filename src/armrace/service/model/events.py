"""What happens to an experiment, as plain data: the events of its log.

An experiment is the replay of its events (:mod:`armrace.service.model.experiment`). Times are whole
milliseconds since 1970 and never decrease along a log. A visit is known by the place of its
decision in the log, its sequence number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec

from armrace.contexts import Code
from armrace.errors import DamagedFile
from armrace.kernels.generics import Ticket
from armrace.service.log.chain import LogRecord
from armrace_client.answers import ArmStatus, Phase, Verdict

Verdicts = dict[int, Verdict]
"""The last ruling about each visit."""
By = Literal["policy", "floor", "editor", "lease", "holdout"]


class Actor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who made a change."""

    key: str | None = None
    """The id of an API key; ``None`` for a program in the process of the service."""
    label: str | None = None
    person: str | None = None
    """The person, if a trusted proxy said so."""


class _Event(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    time: int


class Created(_Event, frozen=True, tag=0, gc=False):
    """The experiment was created."""

    tenant: str
    name: str
    settings: dict[str, Any]
    actor: Actor | None = None


class Decided(_Event, frozen=True, tag=1, gc=False):
    """A decision was made: the beginning of a visit."""

    arm: int
    """The arm's index in the experiment, counted from 0 in the order in which arms came."""
    ticket: Ticket | None
    """What the policy drew; ``None`` if it had no part in the decision and learns nothing."""
    taken: int
    """The position of the learner's random stream by then; 0 if it drew nothing."""
    probability: float | None
    """The probability of the arm, floors included; ``None`` where it is not known."""
    shares: bytes = b""
    """The probability of every arm in single precision, if no arm was left out; else empty."""
    unit: bytes | None = None
    request: bytes | None = None
    """Keyed hashes: the log holds no identifiers of people."""
    source: str | None = None
    labels: dict[str, str] | None = None
    by: By = "policy"
    lease: int = 0
    """The record that granted the lease under which the arm was drawn; 0 if there is none."""
    draw: int = 0
    """The number of the draw under the lease."""


class DecidedIn(Decided, frozen=True, tag=13, gc=False):
    """A decision was made for a visitor whose features are known."""

    code: Code = Code(b"", 0)
    """The encoded features; the log holds no others. Where a decision gave features of arms, those
    of all arms follow the visitor's."""


def decided(code: Code | None, *members: Any) -> Decided:
    """Return the event of a decision, in a context if there is one."""
    made = Decided(*members)
    return made if code is None else DecidedIn(**msgspec.structs.asdict(made), code=code)


class Rewarded(_Event, frozen=True, tag=2, gc=False):
    """The reward of a visit came."""

    decision: int
    steps: int
    """The reward on the grid of :mod:`armrace.service.model.settings`."""
    source: str | None = None
    suspicion: float | None = None
    labels: dict[str, str] | None = None
    metrics: dict[str, int] | None = None
    """The guardrails that came with it, each on the grid of its own range."""
    part: bytes | None = None
    """A keyed hash of what it is for, if the rewards of the visit add up."""


class Ruled(_Event, frozen=True, tag=3, gc=False):
    """Visits were retracted, voided, held or released."""

    verdict: Verdict
    decisions: list[int]
    selection: str = ""
    """How they were selected, in a few words."""
    reason: str = ""
    actor: Actor | None = None


class HoldChanged(_Event, frozen=True, tag=4, gc=False):
    """A standing hold began or ended."""

    begins: bool
    source: str | None
    labels: dict[str, str]
    reason: str = ""
    actor: Actor | None = None


class ArmCreated(_Event, frozen=True, tag=5, gc=False):
    """A new arm came after the existing ones."""

    arm: str
    reason: str = ""
    actor: Actor | None = None
    features: bytes = b""
    """The code of its features, where arms have some."""


class ArmChanged(_Event, frozen=True, tag=6, gc=False):
    """An arm was paused, resumed or retired."""

    arm: int
    status: ArmStatus
    reason: str = ""
    actor: Actor | None = None
    told: bool = True
    """Whether the policy learned of it. In logs of version 0.2.0 and before it did not, and chose
    among the others."""


class PhaseChanged(_Event, frozen=True, tag=7, gc=False):
    """The experiment was paused, resumed or finished."""

    phase: Phase
    reason: str = ""
    actor: Actor | None = None


class Ticked(_Event, frozen=True, tag=8, gc=False):
    """Time passed: visits whose window has closed are settled, without any other event."""


class Contradicted(_Event, frozen=True, tag=9, gc=False):
    """Another reward came for a visit that had one; it was refused and is counted."""

    decision: int


class StartedAfresh(_Event, frozen=True, tag=10, gc=False):
    """A new generation began: a guessed horizon was reached, or somebody asked for it."""

    horizon: int
    reason: str = ""
    actor: Actor | None = None


class LeaseGranted(_Event, frozen=True, tag=11, gc=False):
    """Somebody may draw decisions elsewhere."""

    seed: bytes
    weights: list[int]
    """Of every arm of the experiment, in units of 2^-32."""
    visits: int
    expires: int
    actor: Actor | None = None


class Deleted(_Event, frozen=True, tag=12, gc=False):
    """The experiment was deleted; the last record of its log."""

    records: int
    """How many records there were before."""
    exported: bool
    reason: str = ""
    actor: Actor | None = None


_Action = (
    Created | Ruled | HoldChanged | ArmCreated | ArmChanged | PhaseChanged | StartedAfresh | Deleted
)
Event = Decided | DecidedIn | Rewarded | Ticked | Contradicted | LeaseGranted | _Action

encode = msgspec.msgpack.Encoder().encode
"""Write an event as bytes."""

_decode_list = msgspec.msgpack.Decoder(list[Event]).decode


def decode(payload: bytes) -> Event:
    """Read an event back."""
    return decode_many((payload,))[0]


def decode_many(payloads: Sequence[bytes]) -> list[Event]:
    """Read many events back at once, which takes half the time of one by one."""
    # A MessagePack list: its header with the number of members, then the members.
    content = b"\xdd" + len(payloads).to_bytes(4, "big") + b"".join(payloads)
    try:
        events: list[Event] = _decode_list(content)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
    return events


ACTIONS = 0
"""The subject of all that somebody did; visits have sequence numbers from 2 on."""


def subject(event: Event) -> int | None:
    """Return what a store can find an event by: the visit of a reward, or ``ACTIONS``."""
    if isinstance(event, (Decided, Ticked, Contradicted, LeaseGranted)):
        return None
    return event.decision if isinstance(event, Rewarded) else ACTIONS


def verdicts_in(records: Iterable[LogRecord]) -> Verdicts:
    """Return the last ruling about each visit among the records of a log."""
    found: Verdicts = {}
    for event in decode_many([each.payload for each in records if each.subject == ACTIONS]):
        if isinstance(event, Ruled):
            found.update(dict.fromkeys(event.decisions, event.verdict))
    return found
