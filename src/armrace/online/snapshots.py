"""A learner as plain data: JSON or MessagePack bytes, versioned, never a pickle."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Self

import msgspec
import numpy as np

from armrace.errors import DamagedFile

__all__ = ["ArrayData", "Snapshot", "read_arrays", "write_arrays"]

_FORMAT = 1


class ArrayData(msgspec.Struct, frozen=True):
    """An array as bytes, little-endian, in row order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that a learner is: how it was made, what it has learned, where its stream stands."""

    policy: dict[str, Any]
    arms: list[str | int]
    horizon: int
    seed: int
    decisions: int
    taken: int
    """Random numbers taken from the stream so far."""
    learned: bytes
    """A bit a decision, set when its reward has come."""
    state: dict[str, ArrayData]
    watch: bool = False
    """Whether the state has what an audit needs; those of earlier versions have not."""
    format: int = _FORMAT
    digest: str = ""

    def sealed(self) -> Self:
        """The same snapshot with its digest."""
        return msgspec.structs.replace(self, digest=self._content_digest())

    def _content_digest(self) -> str:
        bare = {**msgspec.structs.asdict(self), "digest": ""}
        if not self.watch:  # as in snapshots from before there was a watch
            del bare["watch"]
        return hashlib.sha256(msgspec.msgpack.encode(bare, order="sorted")).hexdigest()

    def to_json(self) -> bytes:
        """As JSON; arrays are base64."""
        return msgspec.json.encode(self)

    def to_bytes(self) -> bytes:
        """As MessagePack, a quarter shorter."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def read(cls, data: Self | bytes | str | dict[str, Any]) -> Self:
        """A snapshot from either form, or from the plain data that JSON stands for."""
        if isinstance(data, cls):
            snapshot = data
        else:
            try:
                snapshot = cls._decode(data)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise DamagedFile(f"this is not a snapshot of a learner: {error}.") from None
        if snapshot.format != _FORMAT:
            raise DamagedFile(
                f"the snapshot has format {snapshot.format}; this version reads {_FORMAT}."
            )
        if snapshot.digest != snapshot._content_digest():
            raise DamagedFile("the snapshot is damaged: it does not match its digest.")
        return snapshot

    @classmethod
    def _decode(cls, data: Any) -> Self:
        if isinstance(data, dict):
            return msgspec.convert(data, cls)
        if isinstance(data, bytes) and not data.lstrip().startswith(b"{"):
            return msgspec.msgpack.decode(data, type=cls)
        return msgspec.json.decode(data, type=cls)


def _named_arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a (nested) state, by dotted name."""
    for name, member in zip(state._fields, state, strict=True):
        if isinstance(member, np.ndarray):
            for field in member.dtype.names or ():
                yield f"{prefix}{name}.{field}", member[field]
            if member.dtype.names is None:
                yield prefix + name, member
        elif hasattr(member, "_fields"):
            yield from _named_arrays(member, f"{prefix}{name}.")


def write_arrays(state: Any) -> dict[str, ArrayData]:
    """The arrays of a state as bytes."""
    return {
        name: ArrayData(array.dtype.newbyteorder("<").str, array.shape, array.tobytes())
        for name, array in _named_arrays(state)
    }


def read_arrays(state: Any, saved: dict[str, ArrayData]) -> None:
    """Put saved arrays into a fresh state of the same policy."""
    arrays = dict(_named_arrays(state))
    if arrays.keys() != saved.keys():
        raise DamagedFile("the snapshot's state is not one of this policy.")
    for name, array in arrays.items():
        stored = saved[name]
        kind = np.dtype(stored.dtype)
        if tuple(stored.shape) != array.shape or kind != array.dtype:
            raise DamagedFile(f"the snapshot's {name} does not fit this policy.")
        array[...] = np.frombuffer(stored.data, dtype=kind).reshape(array.shape)
