"""Compilation of policies and attacks before experiments run.

Machine code is stored on disk, so that a policy is compiled once and not in every process. Several
policies are compiled at once in as many processes as there are cores, since the compiler holds a
lock that admits one thread per process. Classes that other processes cannot import, such as those
of the running script, are compiled in this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from armrace.kernels.attack_pointers import attack_entries
from armrace.kernels.compiling import is_stored
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.simulation.compilers import Unit, compile_units
from armrace.simulation.experiment import Experiment
from armrace.simulation.interrupts import postponed_interrupts
from armrace.simulation.parallel import shares_this_disk
from armrace.simulation.progress import Progress
from armrace.simulation.replication import (
    LONGEST_PLAYED_BY_DEFAULT,
    Parts,
    live_attack,
    make_parts,
    play_one_round,
    runner_for,
)
from armrace.specification import Specification, is_importable

Make = Callable[[Experiment], Parts]
"""A function that makes the parts of a replication; other processes must be able to import it."""

_SECONDS_A_POLICY, _SECONDS_AN_ATTACK = 10.0, 2.0
_ready: set[Any] = set()
"""What this process has compiled or loaded; a short simulation takes 1 ms less if it is known."""


def first_parts(experiment: Experiment) -> Parts:
    """Make the parts of the first replication."""
    return make_parts(experiment, 0)


def checked_parts(experiment: Experiment) -> Parts:
    """Make the parts of the first replication, for a loop that checks bounds."""
    return make_parts(experiment, 0)._replace(checked=True)


def compile_experiments(
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    progress: Progress = None,
    make: Make = first_parts,
) -> None:
    """Compile, or load from disk, what experiments need, if the workers share this disk.

    Workers on other machines compile for themselves. ``progress`` says whether to show what is
    being compiled; None shows a bar on a terminal and lines elsewhere.
    """
    if not shares_this_disk(executor):
        return
    # One of each kind: parameters that are numbers are data of the same machine code.
    distinct = {(make, _kind(experiment)): experiment for experiment in experiments}
    missing = {key: each for key, each in distinct.items() if key not in _ready}
    compile_units(
        units_for(list(missing.values()), make), False if callable(progress) else progress
    )
    with postponed_interrupts() as check:
        for key, experiment in missing.items():
            play_one_round(make(experiment))
            _ready.add(key)
            check()


def is_compiled(experiment: Experiment, make: Make = first_parts) -> bool:
    """Whether machine code for the experiment's policy is on disk."""
    return is_stored(runner_for(make(experiment)))


def units_for(experiments: Sequence[Experiment], make: Make = first_parts) -> list[Unit]:
    """Return what is not on disk yet; attacks first, since compiling a policy plays one round."""
    attacks: dict[str, Unit] = {}
    policies: dict[Any, Unit] = {}
    for experiment in experiments:
        parts = make(experiment)
        code = fingerprint(implementations(parts.adversary))
        if not _is_ready(attack_entries(code)[0]):
            attacks[code] = _unit(
                experiment.adversary, _SECONDS_AN_ATTACK, compile_attack, experiment
            )
        runner = runner_for(parts)
        if not _is_ready(runner):
            call = partial(compile_policy, make=make)
            policies[runner] = _unit(experiment.policy, _SECONDS_A_POLICY, call, experiment)
    return [*attacks.values(), *policies.values()]


def compile_policy(experiment: Experiment, make: Make = first_parts) -> None:
    """Compile the loop that plays an experiment's policy."""
    play_one_round(make(experiment))


def compile_attack(experiment: Experiment) -> None:
    """Compile an experiment's attack."""
    live_attack(first_parts(experiment))


def _unit(
    what: Specification, seconds: float, call: Callable[..., None], experiment: Experiment
) -> Unit:
    return Unit(what.kind, what.tag(), seconds, call, experiment, is_importable(experiment))


def _is_ready(compiled: Any) -> bool:
    """Whether an entry was compiled in this process or is on disk."""
    return bool(compiled.signatures) or is_stored(compiled)


def _kind(experiment: Experiment) -> Any:
    """Return a key that experiments with the same machine code share."""
    return (
        _without_numbers(experiment.policy),
        type(experiment.environment),
        _without_numbers(experiment.adversary),
        experiment.engine,
        experiment.audit is None,
        experiment.horizon > LONGEST_PLAYED_BY_DEFAULT,
    )


def _without_numbers(specification: Specification) -> Any:
    """Return a key without numbers, which are data of the compiled loop and not part of it."""
    values = [getattr(specification, field) for field in specification.__struct_fields__]
    return type(specification), tuple(map(_without_number, values))


def _without_number(value: Any) -> Any:
    if isinstance(value, Specification):  # a policy inside another
        return _without_numbers(value)
    return value if isinstance(value, (str, bool)) else type(value)
