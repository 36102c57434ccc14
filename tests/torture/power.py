"""Losses of power while the embedded store is written, and what is found afterwards.

``python -m torture.power --runs 100000`` is the campaign. A run writes to a store until the power
of its :mod:`disk <torture.disk>` fails, starts again from what the disk holds, and does so once or
twice; three in four write records into several logs, the others go through a service. Write-ahead
logs are short, so that they are copied into the database and reset every few transactions.
"""

import random
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from armrace.errors import DamagedFile, StoreFailed, UnknownName
from armrace.service import Keyring, Service
from armrace.service.log.chain import BEGINNING, Chain, Head, head_of
from armrace.service.log.sqlite import SqliteStore
from armrace.service.log.store import Transaction
from armrace_client.answers import DecisionRow
from armrace_client.leases import Draws
from armrace_client.operations import LeasedVisit
from serving import Clock, is_replay
from torture.campaign import MEMORY, Campaign
from torture.disk import VFS, Disk, attached
from torture.scheduler import Scheduler

_EXPERIMENTS = ["ads", "shop"]
_SECRET = bytes(32)
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
    """Writes records of random bytes into several logs, creates logs and deletes some."""

    def __init__(self) -> None:
        self._heads: dict[int, Head] = {}
        self._deleted: set[int] = set()

    @property
    def acknowledged(self) -> int:
        return sum(head.sequence for head in self._heads.values())

    def write(self, store: SqliteStore, rng: random.Random) -> None:
        with store.transaction() as transaction:
            gone = {each.log for each in transaction.logs() if each.is_deleted}
        self._deleted |= gone  # also those whose deletion was kept and not acknowledged
        while True:
            live = [log for log in self._heads if log not in self._deleted]
            some = rng.sample(live, min(len(live), rng.randint(1, 3)))
            creates = not live or rng.random() < 0.1
            deleted = some.pop() if len(live) > 2 and rng.random() < 0.1 else None
            with store.transaction(self._known([*some, deleted]), creates=creates) as transaction:
                if creates:
                    some.append(transaction.create_log("main", f"log {rng.getrandbits(60)}"))
                heads = {log: self._append(transaction, log, rng) for log in some}
                if deleted is not None:
                    heads[deleted] = self._append(transaction, deleted, rng)
                    transaction.delete_log(deleted)
            self._heads |= heads
            self._deleted |= {deleted} & {*self._heads}

    def _known(self, logs: list[int | None]) -> dict[int, int]:
        return {log: self._heads[log].sequence for log in logs if log is not None}

    def _append(self, transaction: Transaction, log: int, rng: random.Random) -> Head:
        head, chain = transaction.head(log), Chain(_SECRET, log)
        for number in range(rng.randint(1, 10)):
            record = chain.link(head, rng.randbytes(rng.randint(1, 400)), number)
            transaction.append(log, [record])
            head = head_of(record)
        if rng.random() < 0.2:
            transaction.save_snapshot(log, head.sequence, rng.randbytes(rng.randint(1, 9000)))
            transaction.forget_snapshots(log, [*transaction.snapshots(log)][:-2])
        return head

    def lost(self, store: SqliteStore) -> int:
        with store.transaction() as transaction:
            return sum(self._lost_of(transaction, log) for log in self._heads)

    def _lost_of(self, transaction: Transaction, log: int) -> int:
        head, kept = self._heads[log], list(transaction.read(log))
        # What was not acknowledged may have been kept all the same, a deletion too.
        if kept and kept[0].sequence == 1:
            Chain(_SECRET, log).verify(BEGINNING, kept)
        found = next((each.digest for each in kept if each.sequence == head.sequence), None)
        is_later = bool(kept) and kept[-1].sequence > head.sequence and len(kept) == 1
        return 0 if found == head.digest or is_later else head.sequence


class _Visitors(_Writer):
    """Decides, rewards and voids through a service, in several experiments, and by leases."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._keyring, self._clock = Keyring(), Clock()
        self._arms: dict[str, str] = {}
        self._rewards: dict[str, float] = {}
        self._voided: set[str] = set()

    @property
    def acknowledged(self) -> int:
        return len(self._arms) + len(self._rewards) + len(self._voided)

    @contextmanager
    def _service(self, store: SqliteStore) -> Iterator[Service]:
        scheduler = Scheduler(random.Random(self._seed))  # else threads would change the order
        with scheduler.in_place_of_threads(lambda: self._clock.now):
            scheduler.owner = self
            service = Service(store, self._keyring, clock=self._clock, most_loaded=1)
            service.engine.snapshot_step = 10
            try:
                yield service
            finally:
                scheduler.kill(self)

    def write(self, store: SqliteStore, rng: random.Random) -> None:
        with self._service(store) as service:
            for name in _EXPERIMENTS:
                service.create(name, ["a", "b"], 0, horizon=1000, seed=self._seed)
            while True:
                self._clock.move(rng.choice([1, 1, 4000]))
                self._visit(service, rng.choice(_EXPERIMENTS), rng)

    def _visit(self, service: Service, name: str, rng: random.Random) -> None:
        made = service.decide_many(name, rng.randint(1, 6))
        self._arms.update({each.decision: each.arm for each in made})
        value = rng.choice([0.0, 1.0])
        rewards = [(each, value) for each in made]
        if all(each.status == "accepted" for each in service.reward_many(rewards, "site")):
            self._rewards.update(dict.fromkeys((each.decision for each in made), value))
        if rng.random() < 0.2:
            service.void(name, made[:1])
            self._voided.add(made[0].decision)
        if rng.random() < 0.2:
            lease = service.lease(name)
            arm = lease.arms[Draws(bytes.fromhex(lease.seed), lease.stream, lease.weights).arm(3)]
            for said in service.report(name, lease.lease, [LeasedVisit(3, value=1.0)]):
                assert said.decision is not None
                self._arms[said.decision], self._rewards[said.decision] = arm, 1.0

    def lost(self, store: SqliteStore) -> int:
        if not self.acknowledged:
            return 0
        with self._service(store) as service:
            if service.names() != _EXPERIMENTS:
                return self.acknowledged
            rows = {
                (service.engine.locate("main", name), row.decision): row
                for name in _EXPERIMENTS
                for row in service.rows(name)
            }
            assert all(is_replay(service, name) for name in _EXPERIMENTS)
        return sum(self._lost_fields(rows, name) for name in self._arms)

    def _lost_fields(self, rows: Mapping[tuple[int, int], DecisionRow], name: str) -> int:
        token = self._keyring.signing_keys().read("main", name)
        row = rows.get((token.log, token.sequence))
        if row is None or row.arm != self._arms[name]:
            return 1
        lost = name in self._rewards and row.reward != self._rewards[name]
        return lost + (name in self._voided and not row.void)


def lose_power(seed: int, synchronous: str = "FULL", deaf_to: str | None = None) -> Outcome:
    """Write until the power fails, start again from what the disk holds, and compare."""
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
        except (DamagedFile, StoreFailed, UnknownName):  # also of a table that its index denies
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
