"""Summaries of the audits of many replications, compared with the true corruption."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.forensics import ALARMS, Audit
from armrace.statistics import Summary, summarise


class AuditSummary(NamedTuple):
    """How many replications raised each alarm, and how certificates compare with the truth."""

    level: float
    replications: int
    alarmed: int
    """Replications with any alarm."""
    alarms: dict[str, int]
    """Replications with an alarm of each kind."""
    certificate: Summary
    exceeded: int
    """Replications whose certificate was larger than the true corruption."""
    first: Audit
    """The audit of the first replication."""

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON; counts of replications as shares."""
        shares = {kind: number / self.replications for kind, number in self.alarms.items()}
        return {
            "level": self.level,
            "alarms": {"any": self.alarmed / self.replications, **shares},
            "certificate": self.certificate._asdict(),
            "exceeded": self.exceeded / self.replications,
            "first": self.first.to_builtins(),
        }


def summarise_audits(audits: Sequence[Audit], corruption: npt.NDArray[np.float64]) -> AuditSummary:
    """Summarise the audits of replications, given the corruption spent in each."""
    certificates = np.array([found.certificate for found in audits])
    return AuditSummary(
        level=audits[0].level,
        replications=len(audits),
        alarmed=sum(found.alarmed for found in audits),
        alarms={kind: sum(kind in found.kinds() for found in audits) for kind in ALARMS},
        certificate=summarise(certificates),
        exceeded=int(np.count_nonzero(certificates > corruption)),
        first=audits[0],
    )
