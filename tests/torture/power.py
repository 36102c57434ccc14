"""Loss of power: a virtual file system that drops, tears and reorders what was not synchronised.

``python -m torture.power --runs 10000`` is the campaign.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from pathlib import Path
from typing import Any

import apsw

from armrace.errors import DamagedFile, StoreFailed
from armrace.service.chain import BEGINNING, Head, link, verify
from armrace.service.stores.sqlite import SqliteStore

__all__ = ["Outcome", "lose_power"]

_SECTOR = 512
_NAME = "armrace-power"


class _Disk:
    """What is on the disk for certain, and what was written since the last synchronisation."""

    def __init__(self) -> None:
        self.kept: dict[str, bytearray] = {}
        self.pending: dict[str, list[tuple[int, bytes]]] = {}
        self.operations_left = 0
        self.is_off = False

    def _step(self) -> bool:
        """Count an operation, with which the power may fail; return whether there is power."""
        if self.is_off:
            return False
        self.operations_left -= 1
        if self.operations_left < 0:
            self.is_off = True
            raise apsw.IOError("the power is gone")
        return True

    def write(self, name: str, place: int, data: bytes) -> None:
        if self._step():
            self.pending.setdefault(name, []).append((place, data))

    def synchronise(self, name: str) -> None:
        if self._step():
            for place, data in self.pending.pop(name, []):
                _put(self.kept.setdefault(name, bytearray()), place, data)

    def truncate(self, name: str, size: int) -> None:
        if self._step():
            self.synchronise(name)
            self.kept[name] = self.kept.get(name, bytearray())[:size]

    def delete(self, name: str) -> None:
        if self._step():
            self.kept.pop(name, None)
            self.pending.pop(name, None)

    def after_the_loss(self, rng: random.Random) -> dict[str, bytes]:
        """Return files as they may be found: any sectors of what was not synchronised."""
        found = {name: bytearray(content) for name, content in self.kept.items()}
        for name, writes in self.pending.items():
            content = found.setdefault(name, bytearray())
            for place, data in rng.sample(writes, rng.randint(0, len(writes))):
                for start in range(0, len(data), _SECTOR):
                    if rng.random() < 0.8:
                        _put(content, place + start, data[start : start + _SECTOR])
        return {name: bytes(content) for name, content in found.items()}


def _put(content: bytearray, place: int, data: bytes) -> None:
    if len(content) < place + len(data):
        content.extend(bytes(place + len(data) - len(content)))
    content[place : place + len(data)] = data


_disk = _Disk()


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        self._name = Path(name.filename() if hasattr(name, "filename") else name or "").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        _disk.write(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        _disk.synchronise(self._name)

    def xTruncate(self, size: int) -> None:
        _disk.truncate(self._name, size)
        super().xTruncate(size)


class _FileSystem(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(_NAME, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        _disk.delete(Path(name).name)
        super().xDelete(name, syncdir)


_file_system = _FileSystem()


class Outcome:
    """What a run found: how many records were acknowledged, and what became of them."""

    def __init__(self, acknowledged: int, lost: int, noticed: bool) -> None:
        self.acknowledged = acknowledged
        self.lost = lost
        self.noticed = noticed


def lose_power(seed: int, synchronous: str = "FULL") -> Outcome:
    """Write until the power fails, start again from what the disk holds, and compare."""
    rng = random.Random(seed)
    _disk.__init__()  # type: ignore[misc]
    _disk.operations_left = rng.randint(20, 120)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        acknowledged = _write_until_it_fails(folder, rng, synchronous)
        found = _disk.after_the_loss(rng)
        again = folder / "again"
        again.mkdir()
        for file, content in found.items():
            (again / file).write_bytes(content)
        mark = folder / "log.db-mark"
        if mark.exists():
            (again / mark.name).write_bytes(mark.read_bytes())
        return _compare(again / "log.db", acknowledged)


def _write_until_it_fails(folder: Path, rng: random.Random, synchronous: str) -> Head:
    """Return the head up to which the store has acknowledged."""
    acknowledged, store = BEGINNING, None
    try:
        store = SqliteStore(folder / "log.db", vfs=_NAME, synchronous=synchronous)
        while True:
            with store.turn() as turn:
                head = turn.head
                for number in range(rng.randint(1, 20)):
                    payload = rng.randbytes(rng.randint(1, 400))
                    record = link(head, payload, number)
                    turn.append([record])
                    head = Head(record.sequence, record.digest)
            acknowledged = head
    except StoreFailed:
        return acknowledged
    finally:
        # A process that ends closes its files, without writing anything more to them.
        if store is not None and store.mark is not None:
            os.close(store.mark._file)
            store.mark = None


def _compare(path: Path, acknowledged: Head) -> Outcome:
    if acknowledged == BEGINNING:
        return Outcome(0, 0, noticed=False)
    try:
        store = SqliteStore(path)
    except DamagedFile:
        return Outcome(acknowledged.sequence, acknowledged.sequence, noticed=True)
    try:
        with store.turn() as turn:
            kept = list(turn.read())
        verify(BEGINNING, kept)
        lost = max(0, acknowledged.sequence - len(kept))
        same = lost or kept[acknowledged.sequence - 1].digest == acknowledged.digest
        return Outcome(acknowledged.sequence, lost if same else acknowledged.sequence, False)
    finally:
        store.close()


def main() -> None:
    """Run a campaign and print its figures."""
    parser = argparse.ArgumentParser(description="Cut the power of the embedded store.")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--synchronous", default="FULL")
    asked = parser.parse_args()
    outcomes = [lose_power(seed, asked.synchronous) for seed in range(asked.runs)]
    lost = sum(outcome.lost > 0 for outcome in outcomes)
    silent = sum(outcome.lost > 0 and not outcome.noticed for outcome in outcomes)
    served = sum(outcome.acknowledged > 0 for outcome in outcomes)
    print(
        f"{asked.runs} losses of power with synchronous={asked.synchronous}, {served} after an "
        f"acknowledgement: {lost} lost something, {silent} of them without being noticed."
    )


if __name__ == "__main__":
    main()
