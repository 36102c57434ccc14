"""Digests of the simulation code, to detect workers and stored results of other versions."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from armrace.agents import PythonAgent
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import file_digest, fingerprint, is_own, source_files
from armrace.simulation.experiment import Experiment
from armrace.specification import Specification, with_nested

_PACKAGE = Path(__file__).parents[1]
_SEARCHING = "red_team"
_IDLE = (
    "testing",
    "cli",
    "dashboard",
    "offline",
    "learner",
    "planning",
    _SEARCHING,
    "reports",
    "service",
    "verification",
)
"""What takes no part in a simulation; everything else counts, also what is added later."""


@cache
def package_code() -> str:
    """Return a digest of all files that take part in a simulation, wherever they lie."""
    digest = hashlib.sha256()
    for source in source_files(_PACKAGE):
        place = source.relative_to(_PACKAGE)
        if place.parts[0] not in _IDLE:
            digest.update(place.as_posix().encode() + file_digest(source))
    return digest.hexdigest()


def check_same_code(code: str, place: str = "") -> None:
    """Refuse another version of the package on the other side of an executor."""
    if code != package_code():
        workers = f"the workers at {place}" if place else "the workers"
        raise InvalidParameter(
            f"{workers} run another version of armrace than the caller, which could give other "
            "figures; install the same version on all machines."
        )


@cache
def search_code() -> str:
    """Return a digest of the red team's own files: of its code and of its library."""
    digest = hashlib.sha256()
    for source in sorted((_PACKAGE / _SEARCHING).glob("*.*")):
        digest.update(source.name.encode() + file_digest(source))
    return digest.hexdigest()


def experiment_code(experiment: Experiment) -> str:
    """Return a digest of the code that an experiment runs.

    It covers the package and, where policy, environment or adversary is a class of the user's or
    contains one, all that the class and the functions implemented for its state reach.
    """
    policy, environment, adversary = experiment.policy, experiment.environment, experiment.adversary
    foreign = _foreign(policy) + _foreign(environment) + _foreign(adversary)
    functions = []
    if isinstance(policy, PythonAgent):
        return f"{package_code()} {policy.code()} {fingerprint([*foreign])}"
    if _foreign(policy):
        functions += implementations(policy.start(environment.arms, experiment.horizon))
    if _foreign(adversary):
        functions += implementations(adversary.start(experiment.setting()))
    return f"{package_code()} {fingerprint([*foreign, *functions])}"


def _foreign(specification: Specification) -> list[type]:
    """Return the classes outside the package of a specification and of those within it."""
    classes = (type(each) for each in with_nested(specification))
    return [each for each in classes if not is_own(each)]
