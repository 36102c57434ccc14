"""Columns hold what the decoder of single events reads, whatever the bytes."""

from __future__ import annotations

import math
import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from armrace.errors import DamagedFile
from armrace.kernels.generics import SAME_ARM, Ticket
from armrace.kernels.packed_events import DECIDED, REWARDED, UNREAD, read_events
from armrace.service.chain import BEGINNING, Head, Record, link
from armrace.service.columns import Columns
from armrace.service.events import (
    Contradicted,
    Created,
    Decided,
    DecidedAhead,
    Event,
    PhaseChanged,
    Rewarded,
    Ticked,
    encode,
)

whole = st.integers(0, 2**63 - 1) | st.integers(0, 300)
number = st.floats(allow_nan=False)
text = st.none() | st.text(max_size=300)
ticket = st.builds(
    Ticket,
    whole,
    st.integers(-1, 200),
    number,
    whole,
    number,
    st.integers(-1, 9),
    number,
    st.integers(-32, 200),
)
decision = (
    whole,
    whole,
    whole,
    st.none() | ticket,
    whole,
    st.none() | number,
    st.binary(max_size=300),
    text,
    text,
)
decided = st.builds(Decided, *decision) | st.builds(DecidedAhead, *decision, whole, whole, whole)
rewarded = st.builds(Rewarded, whole, whole, whole, whole, text, st.none() | number)
other = (
    st.builds(Ticked, whole, whole)
    | st.builds(Contradicted, whole, whole, whole)
    | st.builds(PhaseChanged, whole, whole, st.just("paused"))
)


def records_of(payloads: list[bytes]) -> list[Record]:
    records: list[Record] = []
    for payload in payloads:
        last = Head(records[-1].sequence, records[-1].digest) if records else BEGINNING
        records.append(link(last, payload))
    return records


def columns_of(events: list[Event]) -> Columns:
    return Columns.read(records_of([encode(event) for event in events]))


@given(st.lists(decided | rewarded | other, min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_columns_hold_what_events_say(events):
    columns = columns_of(events)
    everything = np.arange(columns.size)
    assert columns.decode(everything) == events
    shares, sources = columns.shares(everything), columns.sources(everything)
    for place, event in enumerate(events):
        row = columns.events[place]
        assert (row["time"], row["experiment"]) == (event.time, event.experiment)
        if isinstance(event, Decided):
            assert row["kind"] == DECIDED
            assert (row["arm"], row["taken"]) == (event.arm, event.taken)
            assert shares[place] == event.shares
            assert bool(row["has_ticket"]) == (event.ticket is not None)
            if event.ticket is not None:
                assert Ticket(*columns.tickets[place].item()[2:]) == event.ticket
        elif isinstance(event, Rewarded):
            assert row["kind"] == REWARDED
            assert (row["decision"], row["steps"]) == (event.decision, event.steps)
            assert sources[place] == event.source
            assert np.isnan(row["suspicion"]) == (event.suspicion is None)
            assert event.suspicion in (None, row["suspicion"])


def test_a_ticket_without_an_inner_arm_is_read():
    """As earlier versions wrote it."""
    event = Decided(1, 0, 1, Ticket(1, 2, 0.5, 3, 0.25, 4, 0.75), 3, None)
    packed = msgspec.msgpack.decode(encode(event))
    assert packed[4].pop() == SAME_ARM
    columns = Columns.read(records_of([msgspec.msgpack.encode(packed)]))
    assert columns.events["kind"].tolist() == [DECIDED]
    assert Ticket(*columns.tickets[0].item()[2:]) == event.ticket
    assert columns.decode(np.arange(1)) == [event]


def test_probabilities_that_are_unknown_stay_so():
    event = Decided(1, 0, 1, Ticket(1, -1, math.nan), 3, None)
    columns = columns_of([event])
    assert columns.events["kind"].tolist() == [DECIDED]
    assert math.isnan(columns.tickets["probability"][0])
    assert columns.tickets["layer"][0] == -1


@given(st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_bytes_that_are_no_event_are_left_unread_or_refused(garbage):
    try:
        expected = [msgspec.msgpack.decode(garbage, type=Event)]
    except (msgspec.MsgspecError, ValueError):
        with pytest.raises(DamagedFile, match="not an event"):
            Columns.read(records_of([garbage]))
    else:
        assert Columns.read(records_of([garbage])).decode(np.arange(1)) == expected


def test_an_event_with_a_byte_changed_is_never_read_beyond_its_end():
    rng = random.Random(5)
    whole_event = encode(Decided(1, 0, 1, Ticket(1), 3, 0.5, b"12345678", "unit", "request"))
    for _ in range(3000):
        changed = bytearray(whole_event[: rng.randint(0, len(whole_event))])
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        events, _ = read_events(bytes(changed), np.array([len(changed)]))
        assert events["kind"][0] == UNREAD or events["shares_end"][0] <= len(changed)


def test_creations_divide_the_events():
    settings: dict = {}
    events = [
        Ticked(1, 0),
        Created(2, 1, "main", "ads", settings),
        Created(2, 2, "main", "more", settings),
        Ticked(3, 1),
        Ticked(4, 2),
    ]
    parts = list(columns_of(events).between_creations())
    assert [before and before[0] for before, _ in parts] == [None, 1, 2]
    assert [part.sequences.tolist() for _, part in parts] == [[1], [], [4, 5]]
    assert columns_of(events).of_experiment(2).sequences.tolist() == [3, 5]
