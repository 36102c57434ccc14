"""Losses of power while the embedded store is written, and what is found afterwards.

``python -m torture.power --runs 100000`` is the campaign. A run writes to a store until the power
of its :mod:`disk <torture.disk>` fails, starts again from what the disk holds, and does so once or
twice; three in four write records, the others go through a service. Write-ahead logs are short, so
that they are copied into the database and reset every few turns.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

from armrace.errors import DamagedFile, StoreFailed
from armrace.service import Keyring, Service
from armrace.service.answers import DecisionRow
from armrace.service.chain import BEGINNING, Head, link, verify
from armrace.service.stores.sqlite import SqliteStore
from serving import Clock, folded_bytes, live_bytes
from torture.campaign import MEMORY, Campaign
from torture.disk import VFS, Disk, attached

__all__ = ["Outcome", "lose_power"]

_PAGES = (1, 2, 4, 8, 1000)
"""How many pages the write-ahead log has before it is copied into the database."""


class Outcome(NamedTuple):
    """What a run found."""

    acknowledged: int
    """How many records, or decisions and rewards, were acknowledged."""
    lost: int
    noticed: bool
    """Whether the store refused to go on, which it must not do if nothing is lost."""
    seen: Counter[str]
    """How often the log was copied into the database, and reset."""


class _Writer(ABC):
    """Writes to stores, and remembers what was acknowledged."""

    @abstractmethod
    def write(self, store: SqliteStore, rng: random.Random) -> None:
        """Write until the store fails."""

    @property
    @abstractmethod
    def acknowledged(self) -> int:
        """How much was acknowledged."""

    @abstractmethod
    def lost(self, store: SqliteStore) -> int:
        """Compare with what a store holds."""


class _Recorder(_Writer):
    """Writes records of random bytes."""

    def __init__(self) -> None:
        self._head = BEGINNING

    @property
    def acknowledged(self) -> int:
        return self._head.sequence

    def write(self, store: SqliteStore, rng: random.Random) -> None:
        while True:
            with store.turn() as turn:
                head = turn.head
                for number in range(rng.randint(1, 20)):
                    record = link(head, rng.randbytes(rng.randint(1, 400)), number)
                    turn.append([record])
                    head = Head(record.sequence, record.digest)
                if rng.random() < 0.2:
                    turn.save_snapshot(head.sequence, rng.randbytes(rng.randint(1, 9000)))
                    turn.forget_snapshots(turn.snapshots()[:-2])
            self._head = head

    def lost(self, store: SqliteStore) -> int:
        with store.turn() as turn:
            kept = list(turn.read())
        verify(BEGINNING, kept)
        last = self.acknowledged
        if last > len(kept):
            return last - len(kept)
        return last if last and kept[last - 1].digest != self._head.digest else 0


class _Visitors(_Writer):
    """Decides and rewards through a service."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keyring, self._clock = Keyring(), Clock()
        self._arms: dict[str, str] = {}
        self._rewards: dict[str, float] = {}

    @property
    def acknowledged(self) -> int:
        return len(self._arms) + len(self._rewards)

    def _service(self, store: SqliteStore) -> Service:
        service = Service(store, self._keyring, clock=self._clock)
        service.ledger.snapshot_events = 10
        return service

    def write(self, store: SqliteStore, rng: random.Random) -> None:
        service = self._service(store)
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=self._seed)
        while True:
            self._clock.move(1)
            made = service.decide_many("ads", rng.randint(1, 6))
            self._arms.update({each.decision: each.arm for each in made})
            value = rng.choice([0.0, 1.0])
            rewards = [(each, value) for each in made]
            if all(each.status == "accepted" for each in service.reward_many(rewards, "site")):
                self._rewards.update(dict.fromkeys((each.decision for each in made), value))
            if rng.random() < 0.1:
                service.retract("ads", made[:1])

    def lost(self, store: SqliteStore) -> int:
        if not self.acknowledged:
            return 0
        service = self._service(store)
        if "ads" not in service.names():
            return self.acknowledged
        rows = {row.decision: row for row in service.rows("ads")}
        keys = self._keyring.signing_keys()
        found = {name: rows.get(keys.read("main", name).sequence) for name in self._arms}
        lost = [
            *(name for name, arm in self._arms.items() if _field(found[name], "arm") != arm),
            *(n for n, value in self._rewards.items() if _field(found[n], "reward") != value),
        ]
        assert folded_bytes(store, snapshots=False) == live_bytes(service)
        return len(lost)


def _field(row: DecisionRow | None, name: str) -> object:
    return None if row is None else getattr(row, name)


def lose_power(seed: int, synchronous: str = "FULL", deaf_to: str | None = None) -> Outcome:
    """Write until the power fails, start again from what the disk holds, and compare.

    Args:
        seed: everything that happens follows from it.
        synchronous: SQLite's setting.
        deaf_to: the end of the name of a file that the disk does not synchronise.
    """
    rng = random.Random(seed)
    writer = _Visitors(seed) if seed % 4 == 3 else _Recorder()
    files: dict[str, bytes] = {}
    seen: Counter[str] = Counter()
    for _ in range(rng.randint(1, 2)):
        with _folder(files) as place:
            steps = int(2 ** rng.uniform(3, 8.5))
            with attached(Disk(rng, steps, files, deaf_to)) as disk:
                noticed = _write_until_it_fails(writer, place, disk, rng, synchronous)
                files = disk.after_the_loss()
                seen += disk.seen
        if noticed:
            return Outcome(writer.acknowledged, writer.acknowledged, True, seen)
    return _compare(writer, files, rng, seen)


class _folder:  # noqa: N801  # is used as a function
    """A folder with files in it; within, the place of the store."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self._files = files

    def __enter__(self) -> Path:
        self._path = Path(tempfile.mkdtemp(dir=MEMORY))
        for name, content in self._files.items():
            (self._path / name).write_bytes(content)
        return self._path / "log.db"

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._path)


def _write_until_it_fails(
    writer: _Writer, place: Path, disk: Disk, rng: random.Random, synchronous: str
) -> bool:
    """Return whether the store failed although there was power."""
    store = None
    try:
        store = SqliteStore(place, vfs=VFS, synchronous=synchronous)
        store._connection.wal_autocheckpoint(rng.choice(_PAGES))
        writer.write(store, rng)
    except (DamagedFile, StoreFailed) as error:
        return isinstance(error, DamagedFile) or not disk.is_off
    finally:
        if store is not None:  # without power, so that closing it writes nothing
            store.close()


def _compare(
    writer: _Writer, files: dict[str, bytes], rng: random.Random, seen: Counter[str]
) -> Outcome:
    """Open the store from what the disk holds; if nothing is lost, that must succeed."""
    with _folder(files) as place, attached(Disk(rng, float("inf"), files)):
        try:
            store = SqliteStore(place, vfs=VFS)
            try:
                return Outcome(writer.acknowledged, writer.lost(store), False, seen)
            finally:
                store.close()
        except (DamagedFile, StoreFailed):
            return Outcome(writer.acknowledged, writer.acknowledged, True, seen)


def _run(numbers: range, synchronous: str, deaf_to: str | None) -> Counter[str]:
    total: Counter[str] = Counter()
    for number in numbers:
        outcome = lose_power(number, synchronous, deaf_to)
        total.update(outcome.seen)
        total["served"] += outcome.acknowledged > 0
        total["acknowledged"] += outcome.acknowledged
        if outcome.lost:
            print(f"run {number} lost {outcome.lost}, noticed: {outcome.noticed}", flush=True)
            total["lost"] += 1
            total["silent"] += not outcome.noticed
        elif outcome.noticed:
            print(f"run {number} acknowledged nothing, and the store refuses to open", flush=True)
            total["refused"] += 1
    return total


def main() -> None:
    """Run a campaign and print its figures."""
    campaign = Campaign("torture.power", "runs", 1000, "Cut the power of the embedded store.")
    campaign.parser.add_argument("--synchronous", default="FULL")
    campaign.parser.add_argument("--deaf-to", help="the end of a file's name; .db or -wal")
    asked = campaign.read_arguments()
    run = partial(_run, synchronous=asked.synchronous, deaf_to=asked.deaf_to)
    found = campaign.carry_out(run, 50)
    print(
        f"{asked.count} losses of power with synchronous={asked.synchronous}, {found['served']} of "
        f"them after an acknowledgement, {found['acknowledged']} in all; the log was copied into "
        f"the database {found['checkpoints']} times and reset {found['resets']} times: "
        f"{found['lost']} lost something, {found['silent']} of them without being noticed; "
        f"{found['refused']} stores without anything acknowledged refuse to open."
    )


if __name__ == "__main__":
    main()
