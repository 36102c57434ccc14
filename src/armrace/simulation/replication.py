"""One replication: states made, compiled loop run, ledger turned into regrets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels import engine
from armrace.kernels.attacking import LiveAttack
from armrace.kernels.compiling import fingerprint, kept_on_disk
from armrace.kernels.generics import implementations
from armrace.kernels.laws import Law
from armrace.kernels.streams import Stream
from armrace.policies import ArmView
from armrace.randomness import Purpose, reward_place, stream_for
from armrace.simulation.experiment import Experiment, checkpoints_for

__all__ = [
    "Outcome",
    "Parts",
    "is_on_disk",
    "make_parts",
    "play_out",
    "prepare",
    "run_replication",
    "runner_for",
]

Floats = npt.NDArray[np.float64]
Runner = Callable[..., None]


class Outcome(NamedTuple):
    """What the ledger says of one replication, a row a checkpoint."""

    regret: Floats
    pseudo_regret: Floats
    clean_regret: Floats
    corruption: Floats
    pulls: npt.NDArray[np.int64]
    arm_corruption: Floats
    layer_corruption: Floats
    view: Sequence[ArmView]
    """The policy's own view at the end; only of the first replication, else empty."""
    seconds: float
    """What the compiled loop took; the one thing that no seed determines."""


class Parts(NamedTuple):
    """All that takes part in a replication."""

    policy: Any
    adversary: Any
    law: Law
    learner_stream: Stream
    adversary_stream: Stream
    ledger: engine.Ledger
    record: engine.Record
    workspace: engine.Workspace
    sees_weights: bool
    means: Floats


def make_parts(
    experiment: Experiment,
    replication: int,
    control: npt.NDArray[np.int64] | None = None,
) -> Parts:
    """Fresh states, streams and ledger for one replication."""
    policy, horizon = experiment.policy, experiment.horizon
    setting = experiment.setting()
    law = experiment.environment.law()
    law.place[:] = reward_place(experiment.seed, replication)
    arms = law.kind.size
    layers = policy.layer_count(arms, horizon)
    return Parts(
        policy=policy.start(arms, horizon),
        adversary=experiment.adversary.start(setting),
        law=law,
        learner_stream=stream_for(experiment.seed, Purpose.LEARNER, replication),
        adversary_stream=stream_for(experiment.seed, Purpose.ADVERSARY, replication),
        ledger=engine.make_ledger(arms, layers, float(experiment.budget)),
        record=engine.make_record(checkpoints_for(horizon), arms, layers),
        workspace=engine.make_workspace(arms, control),
        sees_weights=experiment.adversary.sees_weights,
        means=setting.means,
    )


def runner_for(parts: Parts) -> Runner:
    """The compiled loop for this class of policy."""
    return engine.make_runner(fingerprint(implementations(parts.policy)))


def is_on_disk(experiment: Experiment) -> bool:
    """Whether the compiled loop for the experiment's policy has been kept by an earlier run."""
    return kept_on_disk(runner_for(make_parts(experiment, 0)))


def play_out(parts: Parts) -> None:
    """Run the compiled loop to the last checkpoint."""
    attack = LiveAttack(parts.adversary, parts.adversary_stream, parts.sees_weights)
    runner_for(parts)(
        parts.policy,
        attack.attack,
        parts.law,
        parts.learner_stream,
        parts.ledger,
        parts.record,
        parts.workspace,
    )


def prepare(experiment: Experiment) -> None:
    """Compile, or load from disk, what the experiment needs, by playing a single round."""
    parts = make_parts(experiment, 0)
    short = engine.make_record(np.ones(1, dtype=np.int64), *_shape(parts))
    play_out(parts._replace(record=short))


def run_replication(
    experiment: Experiment,
    replication: int,
    control: npt.NDArray[np.int64] | None = None,
) -> Outcome:
    """Play one replication; ``control`` lets another thread watch and stop it."""
    parts = make_parts(experiment, replication, control)
    started = time.perf_counter()
    play_out(parts)
    seconds = time.perf_counter() - started
    view = experiment.policy.inspect(parts.policy) if replication == 0 else ()
    return _outcome(parts.record, parts.means, view, seconds)


def _shape(parts: Parts) -> tuple[int, int]:
    return parts.ledger.pulls.size, parts.ledger.layer_corruption.size


def _outcome(
    record: engine.Record, means: Floats, view: Sequence[ArmView], seconds: float
) -> Outcome:
    gaps = means.max() - means
    return Outcome(
        regret=(record.clean_totals + record.shifts).max(axis=1) - record.collected,
        pseudo_regret=record.pulls @ gaps,
        clean_regret=record.clean_totals.max(axis=1) - record.clean_collected,
        corruption=record.corruption,
        pulls=record.pulls,
        arm_corruption=record.arm_corruption,
        layer_corruption=record.layer_corruption,
        view=view,
        seconds=seconds,
    )
