"""Experiments and their arms: created, paused, started afresh, deleted."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec

from armrace.errors import AlreadyExists, InvalidParameter, NotRunning
from armrace.learner.arguments import check_horizon
from armrace.service.loading import compile_policy
from armrace.service.log.chain import BEGINNING, Chain, LogRecord
from armrace.service.log.store import Transaction
from armrace.service.model import events
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.settings import (
    Settings,
    check_arm_count,
    check_label,
    check_name,
    check_reason,
    check_rooms,
    make_settings,
)
from armrace.service.model.views import view_of
from armrace.service.operations.deciding import find_arm
from armrace.service.work import Later, Session, Work, in_background, on_experiment
from armrace_client import operations
from armrace_client.answers import ArmAnswer, ArmStatus, ExperimentView, Names, Phase

_AT_ONCE = 50
"""With so many arms, the state of an experiment is shown in a millisecond or two."""
_CONTINUES = (
    "The policy goes on: an arm that was never played is the same to it whenever it comes. Regret "
    "counts against the new arm only from now on."
)
_NEW_GENERATION = (
    "The policy starts afresh in a new generation. Its guarantee covers the decisions from now on; "
    "open decisions of the old generation are recorded, but teach the new one nothing."
)
_RESUMED = (
    "The policy may choose the arm again and has kept what it knows of it. Regret counts against "
    "the arm while it was active, if it was not paused because of its rewards."
)
_RESTRICTED = (
    "The policy chooses among the remaining arms. Its guarantee covers regret against those, if "
    "the arm was not paused or retired because of its rewards."
)


@in_background(operations.Create, takes_long=False)
def create(session: Session, asked: operations.Create) -> ExperimentView:
    """Create an experiment, unless there is one of this name with the same settings."""
    check_name(asked.name)
    seed = secrets.randbits(63) if asked.seed is None else asked.seed
    alike = asked.context is None and not asked.arm_features
    key = b"" if alike else secrets.token_bytes(16)
    settings = make_settings(asked, seed, key)
    if begin_log(session, asked.name, settings) is None:
        session.call(asked.name, lambda found: _check_same(found, asked, settings))
    view: ExperimentView = session.call(asked.name, lambda work: view_of(work.settled()))
    return view


def begin_log(
    session: Session, name: str, settings: Settings, began: int | None = None
) -> int | None:
    """Create the log of an experiment, by default now; return the time of its creation.

    It is ``None`` if there is one of this name.
    """
    # Before the engine gets it, so that nothing waits for the compiler.
    compile_policy(settings)
    engine, tenant = session.engine, session.principal.tenant

    def work(transaction: Transaction, now: int) -> int | None:
        if transaction.find_log(tenant, name) is not None:
            return None
        log, time = transaction.create_log(tenant, name), now if began is None else began
        data = msgspec.to_builtins(settings)
        event = events.Created(time, tenant, name, data, session.principal.actor)
        transaction.append(log, [first_record(engine.keyring.store_secret(), log, event)])
        return time

    return engine.change_directory(work, creates=True)


def first_record(secret: bytes, log: int, event: events.Created) -> LogRecord:
    """Return the record that a log begins with."""
    return Chain(secret, log).link(BEGINNING, events.encode(event), events.subject(event))


def _check_same(work: Work, asked: operations.Create, settings: Settings) -> None:
    existing = work.experiment.settings
    seed = existing.seed if asked.seed is None else asked.seed
    # Codes of texts depend on the key, which was drawn anew.
    key = existing.feature_key if settings.feature_key else b""
    settings = make_settings(asked, seed, key)
    if existing.schema != settings.schema:
        raise AlreadyExists(
            f"there is an experiment named {asked.name!r} with other features, and features never "
            "change: visits of the past were encoded by them; create an experiment of another name."
        )
    if existing != settings:
        raise AlreadyExists(f"there is an experiment named {asked.name!r} with other settings.")


@in_background(operations.ListNames, takes_long=False)
def list_names(session: Session, asked: operations.ListNames) -> Names:
    """Return the names of the tenant's experiments in the order of creation."""
    return Names(session.engine.names(session.principal.tenant))


def _described(work: Work) -> ExperimentView | Later[ExperimentView]:
    """Settle what is due, and return the state."""
    experiment = work.settled()
    if len(experiment.arms) * max(1, len(experiment.leaves)) <= _AT_ONCE:
        return view_of(experiment)
    frozen, opened = experiment.frozen(), len(experiment.open)
    return Later(lambda: view_of(frozen, opened))


on_experiment(operations.Describe)(lambda work, asked: _described(work))

# --- phases and generations -------------------------------------------------------------------


def _change_phase(work: Work, phase: Phase, reason: str) -> Any:
    check_reason(reason)
    if work.experiment.phase != phase:
        _check_unfinished(work.experiment)
        work.add(events.PhaseChanged(work.time, phase, reason, work.actor))
    return _described(work)


on_experiment(operations.Pause)(lambda work, asked: _change_phase(work, "paused", asked.reason))
on_experiment(operations.Resume)(lambda work, asked: _change_phase(work, "running", asked.reason))
on_experiment(operations.Finish)(lambda work, asked: _change_phase(work, "finished", asked.reason))


@on_experiment(operations.StartAfresh)
def start_afresh(work: Work, asked: operations.StartAfresh) -> Any:
    """Begin a new generation, which has learned nothing."""
    check_reason(asked.reason)
    _check_unfinished(work.experiment)
    if sum(status != "retired" for status in work.experiment.statuses) < 2:
        raise InvalidParameter(
            "only one arm is left, so there is nothing to learn afresh; add an arm first."
        )
    before = work.experiment.generation.horizon
    horizon = before if asked.horizon is None else check_horizon(asked.horizon)
    if asked.preview:
        return view_of(work.settled().started_afresh(horizon), len(work.experiment.open))
    work.add(events.StartedAfresh(work.time, horizon, asked.reason, work.actor))
    return _described(work)


@in_background(operations.Delete, takes_long=False)
def delete(session: Session, asked: operations.Delete) -> Names:
    """Delete the log of a finished experiment but for its last record."""
    check_reason(asked.reason)
    log = session.log_of(asked.name)

    def work(work: Work) -> None:
        experiment = work.experiment
        if experiment.phase != "finished":
            raise NotRunning(f"the experiment {experiment.name} is not finished; finish it first.")
        exported = work.shard.exported_at == experiment.head.sequence
        if not (exported or asked.without_export):
            raise InvalidParameter(
                "the experiment must be exported first, or without_export must be given: nothing "
                "brings its decisions back."
            )
        records = experiment.head.sequence
        work.add(events.Deleted(work.time, records, exported, asked.reason, work.actor))
        work.flush().delete_log(log)

    session.call(log, work)
    return Names(session.engine.names(session.principal.tenant))


# --- arms -------------------------------------------------------------------------------------


@on_experiment(operations.AddArm)
def add_arm(work: Work, asked: operations.AddArm) -> ArmAnswer:
    """Add an arm. To add one that is there changes nothing."""
    experiment = work.experiment
    operations.check_part("arm", check_label("arm", asked.arm))
    check_reason(asked.reason)
    before = experiment.generation.number
    if asked.arm not in experiment.index_of:
        check_arm_count(len(experiment.arms) + 1)
        check_rooms(len(experiment.arms) + 1, experiment.settings.shape)
        _check_unfinished(experiment)
        code = experiment.encoded_arm(asked.features)
        work.add(events.ArmCreated(work.time, asked.arm, asked.reason, work.actor, code))
    elif experiment.statuses[experiment.index_of[asked.arm]] == "retired":
        raise AlreadyExists(f"the arm {asked.arm!r} is retired; give the new arm another name.")
    return _answer(experiment, asked.arm, before, _CONTINUES)


_ArmChange = operations.PauseArm | operations.ResumeArm | operations.RetireArm


def _change_arm(work: Work, asked: _ArmChange, status: ArmStatus) -> Any:
    """Pause, resume or retire an arm. A retired arm does not come back."""
    experiment = work.experiment
    check_reason(asked.reason)
    index, before = find_arm(experiment, asked.arm), experiment.generation.number
    if experiment.statuses[index] != status:
        _check_change(experiment, asked.arm, index, status)
        work.add(events.ArmChanged(work.time, index, status, asked.reason, work.actor))
    return _answer(experiment, asked.arm, before, _RESUMED if status == "active" else _RESTRICTED)


on_experiment(operations.PauseArm)(lambda work, asked: _change_arm(work, asked, "paused"))
on_experiment(operations.ResumeArm)(lambda work, asked: _change_arm(work, asked, "active"))
on_experiment(operations.RetireArm)(lambda work, asked: _change_arm(work, asked, "retired"))


def _check_change(experiment: ExperimentState, arm: str, index: int, status: ArmStatus) -> None:
    _check_unfinished(experiment)
    if experiment.statuses[index] == "retired":
        raise InvalidParameter(f"the arm {arm!r} is retired and stays so.")
    if status == "active":
        return
    if status == "paused" and not experiment.loses_arms:
        tag = experiment.generation.learner.policy.tag()
        raise InvalidParameter(
            f"{tag} cannot go on without an arm; retire the arm, and it starts afresh."
        )
    left = experiment.statuses.count("active") - (experiment.statuses[index] == "active")
    least = 1 if experiment.restrictable else 2
    if left < least:
        raise InvalidParameter(f"at least {least} arms must stay active; {left} would.")


def _check_unfinished(experiment: ExperimentState) -> None:
    """Refuse a change in the end: a policy might restart and lose what it has learned."""
    if experiment.phase == "finished":
        raise NotRunning(f"the experiment {experiment.name} is finished.")


def _answer(experiment: ExperimentState, arm: str, before: int, words: str) -> ArmAnswer:
    status, number = experiment.statuses[experiment.index_of[arm]], experiment.generation.number
    renewed = number != before
    return ArmAnswer(arm, status, number, renewed, _NEW_GENERATION if renewed else words)
