"""Ways to break the service on purpose, each of which the checker must notice."""

import itertools
from collections.abc import Callable
from contextlib import contextmanager

from armrace.errors import StoreFailed
from armrace.service import engine
from armrace.service.engine import Engine
from armrace.service.keyring import SigningKeys
from armrace.service.loading import catch_up
from armrace.service.log import store as checked
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.visits import OpenVisits
from armrace.service.operations.deciding import RewardCommand, _ReportVisit
from armrace.service.work import Work


def acknowledge_before_commit(patch: Callable[..., None]) -> None:
    """Answer what was performed although the transaction was not kept."""
    from torture.world import FaultyStore

    original = FaultyStore.transaction

    @contextmanager
    def transaction(self, *arguments, **more):
        is_performed = False
        try:
            with original(self, *arguments, **more) as transaction:
                yield transaction
                is_performed = True
        except StoreFailed:
            if not is_performed:
                raise

    patch(FaultyStore, "transaction", transaction)


def keep_what_was_not_kept(patch: Callable[..., None]) -> None:
    """Go on with experiments that are ahead of the store, after it has failed."""
    patch(Engine, "_drop", lambda self, ready: None)


def forget_a_duplicate(patch: Callable[..., None]) -> None:
    """Take every reward as the first one."""
    original = RewardCommand.__call__

    def perform(self, work):
        visit = work.experiment.find(self.visit)
        if visit is not None:
            visit.steps = None
        return original(self, work)

    patch(RewardCommand, "__call__", perform)


def replay_out_of_order(patch: Callable[..., None]) -> None:
    """Settle the youngest visit whose window has closed before the oldest."""

    def pop_before(self, time):
        due = [visit for visit in self._order if visit.time <= time]
        if not due:
            return None
        self._order.remove(due[-1])
        self.oldest_time = self._order[0].time if self._order else float("inf")
        del self._by_sequence[due[-1].sequence]
        self._by_request.pop(due[-1].request, None)
        return due[-1]

    patch(OpenVisits, "pop_before", pop_before)


def lose_a_ruling(patch: Callable[..., None]) -> None:
    """Answer a ruling about what was learned without replaying the log."""
    patch(Work, "swap_in", lambda self, experiment, snapshots, base: None)


def keep_old_snapshots(patch: Callable[..., None]) -> None:
    """Leave snapshots in the store that a ruling contradicts."""

    def swap_in(self, experiment, snapshots, base):
        self.changes += 1
        self.flush()
        self.shard.experiment = self.experiment = experiment

    patch(Work, "swap_in", swap_in)


def load_without_rulings(patch: Callable[..., None]) -> None:
    """Load an experiment from its snapshot as if nothing had been ruled since."""
    patch(ExperimentState, "preload", lambda self, verdicts: None)


def leave_a_void_assigned(patch: Callable[..., None]) -> None:
    """Take back what a visit taught, but let the policy count it as made."""

    original = ExperimentState._decided

    def decided(self, sequence, event):
        if self.verdicts.get(sequence) == "void" and event.ticket is not None:
            self.generation.assign(event.ticket, event.taken, event.lease > 0)
        original(self, sequence, event)

    patch(ExperimentState, "_decided", decided)


def count_a_draw_twice(patch: Callable[..., None]) -> None:
    """Forget which draws of a lease were reported."""
    original = _ReportVisit.__call__

    def perform(self, work):
        for lease in work.experiment.leases.values():
            lease.drawn.pop(self._asked.draw, None)
        return original(self, work)

    patch(_ReportVisit, "__call__", perform)


def reuse_a_sequence_number(patch: Callable[..., None]) -> None:
    """Append now and then without reading what other nodes have appended."""
    turns = itertools.count()
    patch(engine, "catch_up", lambda *given: next(turns) % 5 == 0 or catch_up(*given))
    patch(checked, "check_continues", lambda head, records: None)


def mix_up_names(patch: Callable[..., None]) -> None:
    """Give every other decision the name of the one before it."""
    original = SigningKeys.sign
    before: list[str] = []

    def sign(self, tenant, content, *kind):
        name = original(self, tenant, content, *kind)
        if kind:
            return name
        return before.pop() if before else (before.append(name) or name)

    patch(SigningKeys, "sign", sign)


BREAKAGES: tuple[Callable[..., None], ...] = (
    acknowledge_before_commit,
    keep_what_was_not_kept,
    forget_a_duplicate,
    replay_out_of_order,
    lose_a_ruling,
    keep_old_snapshots,
    load_without_rulings,
    leave_a_void_assigned,
    count_a_draw_twice,
    reuse_a_sequence_number,
    mix_up_names,
)
