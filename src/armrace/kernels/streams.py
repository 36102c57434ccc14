"""Sequential streams of uniform numbers, for learners and adversaries.

A stream is a place in Philox's counter space and a position in it. Its buffer is refilled by a loop
that the compiler vectorises. The buffer is a function of the position, so a snapshot needs only
place and position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.philox import MASK, counter_high, counter_lane, philox

_BLOCKS = 32
_SIZE = 2 * _BLOCKS
_NONE = np.uint64(0)
_MANTISSA_SHIFT = np.uint64(11)
_HALF_WORD = np.uint64(32)
_UNIT = 2.0**-53


class Stream(NamedTuple):
    """The place of a stream in the counter space, the position in it, and buffered numbers."""

    place: npt.NDArray[np.uint64]
    position: npt.NDArray[np.int64]
    buffer: npt.NDArray[np.float64]


def make_stream(key: tuple[int, int], purpose: int, replication: int) -> Stream:
    """A stream at its beginning."""
    lane = counter_lane(_NONE, np.uint64(purpose))
    place = np.array([key[0], key[1], int(lane), replication], dtype=np.uint64)
    position = np.array([0, _SIZE], dtype=np.int64)
    return Stream(place, position, np.empty(_SIZE, dtype=np.float64))


@inlined
def uniform(stream: Stream) -> float:
    """The next number of the stream, uniform on [0, 1) with 53 random bits.

    Args:
        stream: the stream, which moves on by one number.
    """
    used = stream.position[1]
    if used == _SIZE:
        _refill(stream)
        used = 0
    stream.position[1] = used + 1
    return stream.buffer[np.uint64(used)]


@inlined
def _refill(stream: Stream) -> None:
    """Draw the next numbers into the buffer."""
    k0, k1, lane, replication = stream.place[0], stream.place[1], stream.place[2], stream.place[3]
    first = stream.position[0]
    for i in range(_BLOCKS):
        block = np.uint64(first + i)
        a, b, c, d = philox(block & MASK, counter_high(block, _NONE), lane, replication, k0, k1)
        # Two 32-bit words make one double, whose mantissa has 53 bits.
        stream.buffer[i] = np.float64(((a << _HALF_WORD) | b) >> _MANTISSA_SHIFT) * _UNIT
        stream.buffer[_BLOCKS + i] = np.float64(((c << _HALF_WORD) | d) >> _MANTISSA_SHIFT) * _UNIT
    stream.position[0] = first + _BLOCKS


@inlined
def tell(stream: Stream) -> int:
    """Return how many numbers have been taken."""
    # ``position`` is the next block of Philox, of two numbers each, and how many numbers of the
    # buffer are used; the rest of the buffer has been drawn but not taken.
    return stream.position[0] * 2 - _SIZE + stream.position[1]


def seek(stream: Stream, taken: int) -> None:
    """Move the stream to the position after ``taken`` numbers."""
    full, used = divmod(taken, _SIZE)
    # A short move ahead ends within the numbers that are in the buffer: nothing is drawn again.
    is_buffered = used and taken >= tell(stream) and stream.position[0] == (full + 1) * _BLOCKS
    if not is_buffered:
        stream.position[0] = full * _BLOCKS
        if used:
            _fill_at_once(stream)
    # At the end of a buffer it counts as used up, so that the next number refills it.
    stream.position[1] = used or _SIZE


def _fill_at_once(stream: Stream) -> None:
    """As :func:`_refill`, for Python: whole arrays instead of a loop that would not be compiled."""
    k0, k1, lane, replication = stream.place
    first = int(stream.position[0])
    blocks = np.arange(first, first + _BLOCKS, dtype=np.uint64)
    a, b, c, d = philox(blocks & MASK, counter_high(blocks, _NONE), lane, replication, k0, k1)  # type: ignore[arg-type]
    stream.buffer[:_BLOCKS] = (((a << _HALF_WORD) | b) >> _MANTISSA_SHIFT) * _UNIT
    stream.buffer[_BLOCKS:] = (((c << _HALF_WORD) | d) >> _MANTISSA_SHIFT) * _UNIT
    stream.position[0] = first + _BLOCKS
