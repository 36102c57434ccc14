"""The decisions of an experiment with their rewards, one row each."""

from __future__ import annotations

import msgspec

from armrace.service.answers import DecisionRow
from armrace.service.books import Books
from armrace.service.events import ArmAdded, Created, Decided, Rewarded, decode
from armrace.service.experiment import Experiment
from armrace.service.folding import collect_rulings

__all__ = ["ExportRows"]


class ExportRows(msgspec.Struct, frozen=True):
    """Return all decisions of an experiment."""

    tenant: str
    name: str

    def perform(self, books: Books) -> list[DecisionRow]:
        """Return the decisions in their order."""
        experiment = books.experiment(self.tenant, self.name)
        turn = books.flush()
        ruled = collect_rulings(turn).get(experiment.number, {})
        rows: dict[int, DecisionRow] = {}
        for record in turn.read():
            event = decode(record.payload)
            if event.experiment != experiment.number or isinstance(event, (Created, ArmAdded)):
                continue
            if isinstance(event, Decided):
                rows[record.sequence] = _row(experiment, record.sequence, event)
            elif isinstance(event, Rewarded):
                _reward(experiment, rows[event.decision], event, ruled.get(event.decision))
        return list(rows.values())


def _row(experiment: Experiment, sequence: int, event: Decided) -> DecisionRow:
    return DecisionRow(
        sequence,
        event.time,
        experiment.arms[event.arm],
        event.probability,
        event.ticket is None,
        event.unit,
    )


def _reward(experiment: Experiment, row: DecisionRow, event: Rewarded, ruling: bool | None) -> None:
    row.reward = experiment.scale.reward(event.steps)
    row.reward_time, row.source, row.suspicion = event.time, event.source, event.suspicion
    row.counts = not experiment.is_suspicious(event.suspicion) if ruling is None else ruling
