"""Leases: decisions that are drawn elsewhere, by weights of a moment, and reported later.

Decision ``n`` of a lease is a pure function of the lease and ``n`` (:mod:`armrace_client.leases`).
The service draws it again when the visit is reported, so that nobody can choose an arm, and counts
each draw once. What the policy is told is the probability under which the arm was drawn.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from armrace.errors import (
    ArmraceError,
    DecisionExpired,
    ForeignTicket,
    InvalidParameter,
    TooManyOpen,
)
from armrace.kernels.generics import Ticket
from armrace.service.model.events import Decided, LeaseGranted
from armrace.service.model.experiment import Experiment, LeaseState
from armrace.service.model.settings import check_label, check_labels
from armrace.service.operations.deciding import (
    RewardCommand,
    check_running,
    check_suspicion,
    find_name,
    start_afresh_if_over,
)
from armrace.service.operations.handlers import Where, as_batch, on_experiment
from armrace.service.tokens import LEASE, TokenContent
from armrace.service.work import KeptRefusal, Principal, Work
from armrace_client.answers import Lease, VisitAnswer, VisitList
from armrace_client.leases import draw, integer_weights
from armrace_client.operations import LeasedVisit, Report, Reward, TakeLease

if TYPE_CHECKING:
    from armrace.service.engine import Command, Engine

__all__: list[str] = []

_MOST_LEASES = 1000
"""How many leases of an experiment may be open at once."""
_UNIT = 2**32


@on_experiment(TakeLease)
def take_lease(work: Work, asked: TakeLease) -> Lease:
    """Grant a lease with the weights of now."""
    experiment = work.experiment
    generation = experiment.generation
    if not generation.leases_weights:
        raise InvalidParameter(
            f"{generation.learner.policy.tag()} cannot be leased: it does not draw its decisions "
            "by the weights of a moment; use decide."
        )
    check_running(work)
    alive = sum(each.expires > work.time for each in experiment.leases.values())
    if alive >= _MOST_LEASES:
        raise InvalidParameter(f"leases that have not expired must be at most {_MOST_LEASES}.")
    work.advance()
    weights = integer_weights(_probabilities(experiment))
    seed, expires = secrets.token_bytes(32), work.time + round(1000 * asked.seconds)
    sequence = work.add(LeaseGranted(work.time, seed, weights, asked.visits, expires, work.actor))
    content = TokenContent(work.shard.log, sequence, 0, expires)
    return Lease(
        work.keys.sign(experiment.tenant, content, LEASE),
        experiment.name,
        [*experiment.arms],
        weights,
        seed.hex(),
        sequence,
        asked.visits,
        expires,
    )


def _probabilities(experiment: Experiment) -> list[float]:
    """Return the probability of every arm, floors included; 0 for those that may not be chosen."""
    own = experiment.generation.learner.distribution()
    floors = experiment.floors_among(None)
    active = [
        index
        for index, status in enumerate(experiment.statuses)
        if status == "active" and index in experiment.generation.places
    ]
    rest = 1.0 - math.fsum(floors.get(index, 0.0) for index in active)
    total = math.fsum(own.get(index, 0.0) for index in active)
    return [
        floors.get(index, 0.0) + rest * own.get(index, 0.0) / total if index in active else 0.0
        for index in range(len(experiment.arms))
    ]


def _report_each(
    engine: Engine, asked: Report, principal: Principal
) -> Sequence[tuple[Where, Command]]:
    try:
        token = engine.keyring.signing_keys().read(principal.tenant, asked.lease, LEASE)
    except ArmraceError:
        raise ForeignTicket("no lease of this service has this name.") from None
    return [(token.log, _ReportVisit(token, asked.name, each)) for each in asked.visits]


def _list_visits(asked: Report, outcomes: list[Any]) -> VisitList:
    for each in outcomes:
        if isinstance(each, TooManyOpen):  # for now: all are sent again, and each counts once
            raise each
    return VisitList([_visit_answer(each) for each in outcomes])


def _visit_answer(outcome: Any) -> VisitAnswer:
    if isinstance(outcome, DecisionExpired):
        return VisitAnswer("expired", None, str(outcome))
    if isinstance(outcome, ForeignTicket):
        return VisitAnswer("unknown", None, str(outcome))
    if isinstance(outcome, ArmraceError):
        return VisitAnswer("invalid", None, str(outcome))
    found: VisitAnswer = outcome
    return found


as_batch(Report, _report_each, _list_visits)


class _ReportVisit:
    """Counts a visit that was drawn under a lease, and its reward if it has one."""

    def __init__(self, token: TokenContent, name: str, asked: LeasedVisit) -> None:
        self._token, self._name, self._asked = token, name, asked

    def __call__(self, work: Work) -> VisitAnswer:
        asked, experiment = self._asked, work.experiment
        lease = experiment.leases.get(self._token.sequence)
        if experiment.name != self._name:
            raise ForeignTicket("the lease is of another experiment.")
        if lease is None or lease.expires <= work.time:
            raise DecisionExpired("the lease has expired; take another one.")
        if asked.draw >= lease.visits:
            raise InvalidParameter(f"draw must be below {lease.visits}; got {asked.draw}.")
        if asked.value is not None:  # refused before anything is added
            experiment.scale.steps(asked.value)
            check_suspicion(asked.suspicion)
        known = lease.drawn.get(asked.draw)
        sequence = self._count(work, lease) if known is None else known
        # A report that is sent again is answered as the first time, even after the window closed.
        return self._rewarded(work, find_name(work, sequence), known is None)

    def _count(self, work: Work, lease: LeaseState) -> int:
        asked, experiment = self._asked, work.experiment
        for what, label in (("unit", asked.unit), ("request", asked.request)):
            if label is not None:
                check_label(what, label)
        if asked.source is not None:
            check_label("source", asked.source)
        labels = check_labels(asked.labels)
        check_running(work)
        arm = draw(lease.seed, self._token.sequence, lease.weights, asked.draw)
        probability = lease.weights[arm] / _UNIT
        work.advance()
        sequence = work.add(
            Decided(
                work.time,
                arm,
                self._ticket(experiment, arm, probability, lease),
                0,
                probability,
                b"",
                work.shard.hashed(asked.unit),
                work.shard.hashed(asked.request),
                asked.source,
                labels,
                "lease",
                self._token.sequence,
                asked.draw,
            )
        )
        start_afresh_if_over(work)
        return sequence

    def _ticket(
        self, experiment: Experiment, arm: int, probability: float, lease: LeaseState
    ) -> Ticket | None:
        """Return what the policy learns with: the arm and the probability under which it came.

        Draws of a floor cannot be told from the policy's own; with floors, the probability of both
        together is that under which the arm came.
        """
        generation = experiment.generation
        if lease.generation != generation.number or arm not in generation.places:
            return None
        return Ticket(generation.places.index(arm), probability=probability)

    def _rewarded(self, work: Work, name: str, is_new: bool) -> VisitAnswer:
        asked = self._asked
        if asked.value is None:
            return VisitAnswer("accepted" if is_new else "duplicate", name)
        token = work.keys.read(work.experiment.tenant, name)
        reward = Reward(name, asked.value, asked.source, asked.suspicion, asked.labels)
        try:
            status = RewardCommand(token, reward)(work).status
        except KeptRefusal as kept:
            return VisitAnswer("conflict", name, str(kept.refusal))
        return VisitAnswer("accepted" if is_new else status, name)
