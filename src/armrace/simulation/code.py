"""Which code computes: processes that share work must agree on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from armrace.kernels.compiling import fingerprint
from armrace.kernels.generics import implementations
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import run_replication

__all__ = ["experiment_code", "package_code"]

_ROOMS = ("kernels", "policies", "environments", "adversaries", "simulation")


@cache
def package_code() -> str:
    """A digest of all that takes part in a simulation."""
    digest = hashlib.sha256()
    for room in _ROOMS:
        for source in sorted((Path(__file__).parents[1] / room).glob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()


def experiment_code(experiment: Experiment) -> str:
    """A digest of the code that one experiment runs, so that others may change.

    It covers the kernels, and the files of policy, attack and environment; what a user wrote is
    followed through all that it names.
    """
    policy, adversary = experiment.policy, experiment.adversary
    state = policy.start(experiment.setting().means.size, experiment.horizon)
    attack = adversary.start(experiment.setting())
    functions: list[Callable[..., Any]] = [
        *implementations(state),
        *implementations(attack),
        type(policy).start,
        type(adversary).start,
        type(experiment.environment).law,
        run_replication,
    ]
    return fingerprint(functions)
