"""The state of all experiments of a store: the fold of its log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec
import numpy as np

from armrace.errors import DamagedFile, UnknownName
from armrace.service.chain import BEGINNING, Head, Record
from armrace.service.columns import Columns
from armrace.service.dormant import Dormant
from armrace.service.events import Created, Event
from armrace.service.experiment import Experiment, ExperimentData, Rulings
from armrace.service.settings import Settings, read_settings

__all__ = ["Ready", "State", "StateData", "always", "not_created", "read_snapshot"]

_FORMAT = 1
_DIGEST_SIZE = 16


Ready = Callable[[Settings], bool]


def always(settings: Settings) -> bool:
    """Return true: the policy of every experiment may be compiled when it is met."""
    return True


class StateData(msgspec.Struct, frozen=True, array_like=True):
    """A state as plain data."""

    format: int
    head: Head
    time: int
    experiments: list[ExperimentData]


class State:
    """All experiments, and the place in the log up to which they are folded.

    Args:
        ready: returns whether an experiment of some settings can be folded now; by default all can.
            Others stay dormant.
    """

    def __init__(self, ready: Ready = always) -> None:
        self.ready = ready
        self.head: Head = BEGINNING
        self.time = 0
        """The time of the last event."""
        self.experiments: list[Experiment] = []
        self._by_name: dict[tuple[str, str], Experiment] = {}
        self.dormant: dict[int, Dormant] = {}
        """Experiments that cannot be used before their policy is compiled, by number."""

    def find(self, tenant: str, name: str) -> Experiment:
        """Return an experiment by its name.

        Args:
            tenant: whose experiment it is.
            name: its name.

        Raises:
            UnknownName: the tenant has no such experiment.
            NotReady: its policy is not compiled yet.
        """
        found = self.get(tenant, name)
        if found is None:
            known = [known for owner, known in self._by_name if owner == tenant]
            raise UnknownName.among("experiment", str(name)[:100], known)
        return _awake(found)

    def numbered(self, number: int) -> Experiment:
        """Return an experiment by its number, which must exist.

        Args:
            number: its number.

        Raises:
            NotReady: its policy is not compiled yet.
        """
        return _awake(self.experiments[number])

    def get(self, tenant: str, name: str) -> Experiment | None:
        """Return an experiment by its name, if there is one.

        Args:
            tenant: whose experiment it is.
            name: its name.
        """
        return self._by_name.get((tenant, name))

    def of_tenant(self, tenant: str) -> list[Experiment]:
        """Return the experiments of a tenant in the order of their creation."""
        return [experiment for experiment in self.experiments if experiment.tenant == tenant]

    def apply(self, record: Record, event: Event, rulings: Rulings | None = None) -> None:
        """Apply the next event of the log.

        Args:
            record: the record of the event.
            event: the event.
            rulings: for an experiment that the event creates: what later events say about its
                rewards.
        """
        self.note(record, event)
        if isinstance(event, Created):
            settings = read_settings(event.settings)
            self._add(Experiment(event, rulings) if self.ready(settings) else Dormant(event))
            return
        experiment = self.experiments[event.experiment]
        if isinstance(experiment, Dormant):
            experiment.keep((record,))
        else:
            experiment.apply(record.sequence, event)

    def note(self, record: Record, event: Event) -> None:
        """Check that an event can follow, and move to its place in the log.

        Args:
            record: the record of the event.
            event: the event.
        """
        if event.time < self.time:
            raise _back_in_time(record.sequence)
        if isinstance(event, Created):
            if event.experiment != len(self.experiments):
                raise DamagedFile(f"the log numbers an experiment {event.experiment} out of order.")
        elif not 0 <= event.experiment < len(self.experiments):
            raise not_created(event.experiment)
        self.head = Head(record.sequence, record.digest)
        self.time = event.time

    def note_many(self, events: Columns) -> None:
        """Check that events can follow, none of which creates an experiment."""
        times, numbers = events.events["time"], events.events["experiment"]
        back = np.diff(times, prepend=self.time) < 0
        if back.any():
            raise _back_in_time(int(events.sequences[np.argmax(back)]))
        unknown = (numbers < 0) | (numbers >= len(self.experiments))
        if unknown.any():
            raise not_created(int(numbers[np.argmax(unknown)]))
        self.time = int(times[-1])

    def _add(self, experiment: Experiment) -> None:
        self.experiments.append(experiment)
        self._by_name[experiment.tenant, experiment.name] = experiment
        if isinstance(experiment, Dormant):
            self.dormant[experiment.number] = experiment

    def replace(self, experiment: Experiment) -> None:
        """Put an experiment that was folded again in the place of the old one."""
        self.dormant.pop(experiment.number, None)
        self.experiments[experiment.number] = experiment
        self._by_name[experiment.tenant, experiment.name] = experiment

    def open_decisions(self) -> int:
        """Return how many decisions of all experiments are open."""
        return sum(len(experiment.open) for experiment in self.experiments)

    # --- snapshots ------------------------------------------------------------------------

    def save(self) -> bytes:
        """Return the state as bytes; equal states give equal bytes."""
        experiments = [experiment.save() for experiment in self.experiments]
        data = msgspec.msgpack.encode(StateData(_FORMAT, self.head, self.time, experiments))
        # The hash chain covers records only; snapshots are checked by digests of their own.
        return _digest(data) + data

    @classmethod
    def load(cls, data: bytes, ready: Ready = always) -> State:
        """Return a state that was saved.

        Args:
            data: what :meth:`save` returned.
            ready: as for the class.

        Raises:
            DamagedFile: the data are damaged or of another version.
        """
        stored = read_snapshot(data)
        state = cls(ready)
        state.head, state.time = stored.head, stored.time
        for each in stored.experiments:
            if ready(each.settings):
                state._add(Experiment.load(each))
            else:
                state._add(Dormant(each, stored.head.sequence))
        return state


def read_snapshot(data: bytes) -> StateData:
    """Return what :meth:`State.save` wrote, as plain data.

    Raises:
        DamagedFile: the data are damaged or of another version.
    """
    content = data[_DIGEST_SIZE:]
    if data[:_DIGEST_SIZE] != _digest(content):
        raise DamagedFile("a snapshot in the store is damaged: it does not match its digest.")
    try:
        stored = msgspec.msgpack.decode(content, type=StateData)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DamagedFile(f"a snapshot in the store cannot be read: {error}.") from None
    if stored.format != _FORMAT:
        raise DamagedFile(
            f"a snapshot in the store has format {stored.format}; this version reads {_FORMAT}."
        )
    return stored


def _awake(experiment: Experiment) -> Experiment:
    if isinstance(experiment, Dormant):
        raise experiment.refusal()
    return experiment


def not_created(number: int) -> DamagedFile:
    """Return the error that a log names an experiment too early."""
    return DamagedFile(f"the log names experiment {number} before it is created.")


def _back_in_time(sequence: int) -> DamagedFile:
    return DamagedFile(f"the log goes back in time at record {sequence}.")


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_SIZE).digest()
