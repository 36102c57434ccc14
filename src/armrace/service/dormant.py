"""Experiments whose policy is not compiled yet in this process.

Where several servers share a log, one of them may create an experiment whose policy another one has
never used. To compile it takes seconds, in which the log must not be locked and other
experiments must be served. So the state goes on without it: its records are kept, and folded when
the policy is compiled. Experiments know nothing of each other, so that this changes no state.
"""

from __future__ import annotations

from collections.abc import Iterable

from armrace.errors import ArmraceError, NotReady, RequestFailed
from armrace.service.aside import uncollected
from armrace.service.bulk import apply_many
from armrace.service.chain import Record
from armrace.service.columns import Columns
from armrace.service.events import Created, rulings_in
from armrace.service.experiment import Experiment, ExperimentData, Rulings
from armrace.service.open_decisions import OpenDecisions
from armrace.service.settings import read_settings

__all__ = ["Dormant"]

_MOST_RECORDS = 100_000
"""How many records are kept; beyond that the log is read again, so that memory is bounded."""


class Dormant(Experiment):
    """Stands for an experiment until its policy is compiled.

    Args:
        origin: the event that created it, or what a snapshot holds of it.
        head: the last record of that snapshot; 0 if there is none.
    """

    is_dormant = True

    def __init__(self, origin: Created | ExperimentData, head: int = 0) -> None:
        if isinstance(origin, Created):
            self.number, self.created = origin.experiment, origin.time
            self.settings = read_settings(origin.settings)
        else:
            self.number, self.created = origin.number, origin.created
            self.settings = origin.settings
        self.tenant, self.name = origin.tenant, origin.name
        self.open = OpenDecisions()
        self._origin = origin
        self._head = head
        self._records: list[Record] | None = []
        self._failure: Exception | None = None

    def keep(self, records: Iterable[Record]) -> None:
        """Keep the records of this experiment that come next."""
        if self._records is not None:
            self._records.extend(records)
            if len(self._records) > _MOST_RECORDS:
                self._records = None

    def fail(self, error: Exception) -> None:
        """Refuse every request from now on, because the policy cannot be used here."""
        self._failure, self._records = error, None

    @property
    def has_failed(self) -> bool:
        """Whether the policy cannot be used in this process."""
        return self._failure is not None

    def refusal(self) -> ArmraceError:
        """Return the error that answers requests for this experiment."""
        if self._failure is None:
            return NotReady(
                f"the policy of the experiment {self.name} is being compiled; ask again in a "
                "moment."
            )
        reason = self._failure
        sentence = str(reason) if isinstance(reason, ArmraceError) else type(reason).__name__
        refusal = RequestFailed(
            f"the policy of the experiment {self.name} cannot be used here: {sentence.rstrip('.')}."
        )
        refusal.__cause__ = reason
        return refusal

    def wake(self) -> Experiment | None:
        """Return the experiment with all that was kept; ``None`` if the log must be read again."""
        if self._records is None:
            return None
        rulings = rulings_in(self._records).get(self.number, {})
        if isinstance(self._origin, Created):
            experiment = Experiment(self._origin, rulings)
        else:
            experiment = Experiment.load(self._origin)
            known = {d: counts for d, counts in rulings.items() if d <= self._head}
            if any(experiment.overrules([d], counts) for d, counts in known.items()):
                return None
            experiment.foresee(rulings)
        if self._records:
            with uncollected():
                apply_many(experiment, Columns.read(self._records))
        experiment.forget_rulings()
        return experiment

    # --- what a fold asks of all experiments ----------------------------------------------

    def foresee(self, rulings: Rulings) -> None:
        """Do nothing: rulings are found among the records that are kept."""

    def forget_rulings(self) -> None:
        """Do nothing."""

    def overrules(self, decisions: Iterable[int], counts: bool) -> bool:
        """Return false: nothing was learned yet."""
        return False
