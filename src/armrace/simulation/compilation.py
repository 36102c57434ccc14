"""Compilation of policies and attacks before experiments run.

Machine code is stored on disk, so that a policy is compiled once and not in every process. Several
policies are compiled at once in as many processes as there are cores, since the compiler holds a
lock that admits one thread per process. Classes that other processes cannot import, such as those
of the running script, are compiled in this one.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from armrace.kernels.compiling import is_stored
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.pointers import attack_entries
from armrace.simulation.executors import postponed_interrupts, shielded_children
from armrace.simulation.experiment import Experiment
from armrace.simulation.parallel import shares_this_disk
from armrace.simulation.progress import Progress, compiling_told
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


first_parts: Make = partial(make_parts, replication=0)
checked_parts: Make = partial(make_parts, replication=0, checked=True)
"""The same for a loop that checks bounds. What is ready is known by these objects."""


def compile_experiments(
    experiments: Sequence[Experiment],
    executor: Executor | None = None,
    progress: Progress = None,
    make: Make = first_parts,
) -> None:
    """Compile, or load from disk, what experiments need, if the workers share this disk.

    Workers on other machines compile for themselves. ``progress`` says whether to say what is
    being compiled; None does.
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


def units_for(experiments: Sequence[Experiment], make: Make = first_parts) -> list[Unit]:
    """Return what is not on disk yet; attacks first, since compiling a policy plays one round."""
    attacks: dict[str, Unit] = {}
    policies: dict[Any, Unit] = {}
    for experiment in experiments:
        parts = make(experiment)
        code = fingerprint(implementations(parts.adversary))
        if not _is_ready(attack_entries(code, parts.crowd is not None)[0]):
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


_WORTH_PROCESSES = 3
"""Fewer units than this are compiled in this process, which is faster than starting others."""

_SECONDS_TO_START = 3.0
_SECONDS_BETWEEN_LOOKS = 0.2


_PLURALS = {"policy": "policies", "attack": "attacks", "learner": "learners"}


class Unit(NamedTuple):
    """One thing to compile, by ``call(argument)``."""

    kind: str
    """What it is, such as a policy."""
    label: str
    seconds: float
    """About how long it takes."""
    call: Callable[[Any], None]
    argument: Any
    elsewhere: bool
    """Whether another process can do it."""


def compile_units(units: Sequence[Unit], shown: bool | None = None) -> None:
    """Compile all ``units``, here or in other processes; say so unless ``shown`` is False.

    A failure in another process is ignored: the unit is compiled, or raises its own error, when it
    is first used in this process.
    """
    if not units:
        return
    movable = [unit for unit in units if unit.elsewhere]
    # A policy's loop and its learner share most code, so that one process compiles both.
    labels = list(dict.fromkeys(unit.label for unit in movable))
    processes = min(os.cpu_count() or 1, len(labels))
    others = movable if processes > 1 and len(movable) >= _WORTH_PROCESSES else []
    total = sum(unit.seconds for unit in units)
    seconds = _SECONDS_TO_START + total / processes if others else total
    with compiling_told(_words(units), seconds, shown):
        if others:
            shares = [labels[first::processes] for first in range(processes)]
            _compile_elsewhere([[u for u in others if u.label in share] for share in shares])
        with postponed_interrupts() as check:
            for unit in units:
                if not (others and unit.elsewhere):
                    unit.call(unit.argument)
                    check()


def _words(units: Sequence[Unit]) -> str:
    """Name what is compiled.

    >>> _words([Unit("policy", name, 1.0, print, None, True) for name in ("ucb1", "exp3")])
    '2 policies'
    """
    if len(units) == 1:
        return units[0].label
    counts = Counter(unit.kind for unit in units)
    return " and ".join(
        f"{count} {kind if count == 1 else _PLURALS[kind]}" for kind, count in counts.items()
    )


def _compile_elsewhere(shares: Sequence[Sequence[Unit]]) -> None:
    """Compile each share in a process of its own."""
    workers: list[subprocess.Popen[bytes]] = []
    try:
        workers.extend(map(_start, shares))
        for worker in workers:
            while worker.poll() is None:  # a timed wait can be interrupted everywhere
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(_SECONDS_BETWEEN_LOOKS)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()


def _start(share: Sequence[Unit]) -> subprocess.Popen[bytes]:
    """Start a process that compiles some units and ignores Ctrl-C."""
    paths = os.pathsep.join(path for path in sys.path if path)
    with tempfile.TemporaryFile() as tasks, shielded_children():
        for unit in share:
            # Pickled twice: a class that the process cannot import must fail where the task is
            # opened, not where the file is read.
            pickle.dump(pickle.dumps((unit.call, unit.argument)), tasks)
        tasks.seek(0)
        return subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            env={**os.environ, "PYTHONPATH": paths},
            stdin=tasks,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def serve() -> None:
    """Compile what comes on standard input."""
    with suppress(EOFError):
        while True:
            task = pickle.load(sys.stdin.buffer)
            with suppress(Exception):  # raised again where it is used
                call, argument = pickle.loads(task)
                call(argument)
