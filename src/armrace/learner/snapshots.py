"""A learner as plain data: JSON or MessagePack bytes, versioned, never a pickle."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Self

import msgspec
import numpy as np

from armrace.errors import DamagedFile, InvalidParameter
from armrace.kernels.event_log import DECISION
from armrace.kernels.states import lasting_arrays
from armrace.learner.arguments import MOST_TAKEN
from armrace.specification import MAXIMAL_HORIZON

_FORMAT = 3


class ArrayData(msgspec.Struct, frozen=True):
    """An array as bytes, little-endian, in row order."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A learner without its log: its arguments, its state and the position of its stream."""

    policy: dict[str, Any]
    arms: list[str | int]
    horizon: int
    seed: int
    watch: bool
    decisions: int
    taken: int
    """Random numbers taken from the stream so far."""
    settled: int
    """All decisions below this number have had their rewards; a multiple of 8."""
    rewarded: bytes
    """A bit for each later decision, set if its reward has come."""
    state: dict[str, ArrayData]
    outstanding: bytes = b""
    """Decisions without a reward, as records; empty if the learner kept no log."""
    paused: list[tuple[int, float]] = []
    """The places of paused arms, and how far each was behind the best when it was paused."""
    format: int = _FORMAT
    digest: str = ""

    def sealed(self, key: bytes | None = None) -> Self:
        """Return the snapshot with its digest, which is keyed (HMAC) if there is a ``key``.

        Args:
            key: the secret of the digest; without one, anyone can compute it.
        """
        return msgspec.structs.replace(self, digest=self._content_digest(key))

    def _content_digest(self, key: bytes | None) -> str:
        bare = {**msgspec.structs.asdict(self), "digest": ""}
        if not self.paused:
            del bare["paused"]  # as before arms could be paused, so that old digests hold
        content = msgspec.msgpack.encode(bare, order="sorted")
        if key is None:
            return hashlib.sha256(content).hexdigest()
        if not isinstance(key, bytes) or not key:
            raise InvalidParameter("key must be bytes, at least one.")
        return hmac.new(key, content, "sha256").hexdigest()

    def rewarded_bits(self) -> np.ndarray:
        """Return one bit per decision from ``settled`` on, set if its reward has come."""
        later = -(-self.decisions // 8) * 8 - self.settled
        sound = (
            0 <= self.decisions <= MAXIMAL_HORIZON
            and 0 <= self.taken <= MOST_TAKEN
            and 0 <= self.settled <= self.decisions
            and self.settled % 8 == 0
            and later == 8 * len(self.rewarded)
        )
        if not sound:
            raise DamagedFile("the snapshot's counts of decisions do not agree.")
        bits = np.frombuffer(self.rewarded, dtype=np.uint8)
        each = np.unpackbits(bits, bitorder="little")
        if each[self.decisions - self.settled :].any():
            raise DamagedFile("the snapshot has rewards of decisions that were not made.")
        return bits

    def outstanding_decisions(self, arms: int, rewarded: np.ndarray) -> np.ndarray:
        """Return the decisions without a reward.

        Args:
            arms: the number of arms.
            rewarded: the bits of :meth:`rewarded_bits`.

        Returns:
            Records in the order of decisions; none if the learner kept no log.
        """
        kind = DECISION.newbyteorder("<")
        if len(self.outstanding) % kind.itemsize:
            raise DamagedFile("the snapshot's outstanding decisions are not whole.")
        records = np.frombuffer(self.outstanding, dtype=kind).astype(DECISION)
        numbers, chosen = records["number"], records["arm"]
        has_reward = np.unpackbits(rewarded, bitorder="little")[: self.decisions - self.settled]
        waiting = self.settled + np.flatnonzero(has_reward == 0)
        # A ticket is checked like any other when its reward comes.
        known = np.isin(numbers, waiting).all() and (np.diff(numbers) > 0).all()
        if not known or not ((chosen >= 0) & (chosen < arms)).all():
            raise DamagedFile("the snapshot's outstanding decisions do not fit the rest of it.")
        return records

    def paused_arms(self, arms: int) -> dict[int, float]:
        """Return the standings of the paused arms by place.

        Args:
            arms: the number of arms.
        """
        away = dict(self.paused)
        sound = all(0 <= place < arms and np.isfinite(away[place]) for place in away)
        if not sound or len(away) < len(self.paused) or len(away) == arms:
            raise DamagedFile("the snapshot's paused arms do not fit the rest of it.")
        return away

    def to_json(self) -> bytes:
        """As JSON; arrays are base64."""
        return msgspec.json.encode(self)

    def to_bytes(self) -> bytes:
        """As MessagePack, a quarter shorter."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def read(cls, data: Self | bytes | str | dict[str, Any], key: bytes | None = None) -> Self:
        """A snapshot from either form, or from the plain data that JSON stands for.

        Args:
            data: the snapshot, its JSON, or plain data.
            key: the secret with which it was sealed, if any.
        """
        try:
            # one that was made by hand is read like any other, so that its types are checked
            snapshot = cls._decode(data.to_bytes() if isinstance(data, cls) else data)
        except DamagedFile:
            raise
        except (
            msgspec.MsgspecError,
            TypeError,
            ValueError,
            OverflowError,
            RecursionError,
        ) as error:
            raise DamagedFile(f"this is not a snapshot of a learner: {error}.") from None
        if snapshot.format != _FORMAT:
            raise DamagedFile(
                f"the snapshot has format {snapshot.format}; this version reads {_FORMAT}."
            )
        try:
            digest = snapshot._content_digest(key)
        except OverflowError:
            raise DamagedFile("the snapshot has numbers that no learner has.") from None
        if not hmac.compare_digest(snapshot.digest.encode(errors="replace"), digest.encode()):
            secret = "was sealed with a key" if key is None else "was not sealed with this key"
            raise DamagedFile(f"the snapshot is damaged or {secret}: it does not match its digest.")
        return snapshot

    @classmethod
    def _decode(cls, data: Any) -> Self:
        if isinstance(data, dict):
            return msgspec.convert(data, cls)
        if not isinstance(data, (bytes, bytearray, memoryview, str)):
            raise DamagedFile(f"a snapshot is text, bytes or plain data; got {data!r}.")
        if not isinstance(data, str) and not bytes(data).lstrip().startswith(b"{"):
            return msgspec.msgpack.decode(data, type=cls)
        return msgspec.json.decode(data, type=cls)


def pack_rewarded(bits: np.ndarray, decisions: int) -> tuple[int, bytes]:
    """Return the number below which all decisions have had their reward, and bits of the rest."""
    # Rewards mostly come soon, so that only the last bytes have a bit that is not set. Whole bytes
    # are left out, which needs no shift of the others.
    used = bits[: -(-decisions // 8)]
    incomplete = np.flatnonzero(used != 255)
    first = int(incomplete[0]) if incomplete.size else decisions // 8
    return 8 * first, used[first:].tobytes()


def write_arrays(state: Any) -> dict[str, ArrayData]:
    """The lasting arrays of a state as bytes."""
    return {
        name: ArrayData(array.dtype.newbyteorder("<").str, array.shape, array.tobytes())
        for name, array in lasting_arrays(state)
    }


def read_arrays(state: Any, saved: dict[str, ArrayData]) -> None:
    """Put saved arrays into a fresh state of the same policy."""
    arrays = dict(lasting_arrays(state))
    if arrays.keys() != saved.keys():
        raise DamagedFile("the snapshot's state is not one of this policy.")
    for name, array in arrays.items():
        stored, kind = saved[name], array.dtype.newbyteorder("<")
        fits = (
            stored.dtype == kind.str
            and tuple(stored.shape) == array.shape
            and len(stored.data) == array.size * kind.itemsize
        )
        if not fits:
            raise DamagedFile(f"the snapshot's {name} does not fit this policy.")
        array[...] = np.frombuffer(stored.data, dtype=kind).reshape(array.shape)
