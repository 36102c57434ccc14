"""Conversion of options into specifications of policy, environment and attack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from armrace.cli.arguments import Texts, assignments, names, share, shares
from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.adversaries import Adversary
    from armrace.environments import Environment
    from armrace.policies import Policy
    from armrace.simulation import Experiment


_ROUNDS_AN_HOUR = 3.6e10
"""Ten million a second."""

DEFAULT_MEANS = "0.5,0.4,0.4"
USUAL_AUDIT_LEVEL = 0.05


def make_policy(name: str, settings: Sequence[str] | None, delta: str | None) -> Policy:
    """A policy by name, with ``--set`` and ``--delta``."""
    from armrace.policies import POLICIES

    return POLICIES.make(describe_policy(name, settings, delta))


def describe_policy(name: str, settings: Sequence[str] | None, delta: str | None) -> dict[str, Any]:
    """Return a policy as plain data: its name, and the parameters that were given."""
    from armrace.policies import POLICIES

    policy = POLICIES.find(name)
    parameters = assignments("--set", settings or ())
    if delta is not None:
        if "delta" not in policy.__struct_fields__:
            raise InvalidParameter(f"{name} has no delta; leave --delta out.")
        if "delta" in parameters:
            raise InvalidParameter("delta is given twice, by --delta and by --set.")
        parameters["delta"] = share("delta", delta)
    return {"name": name, **parameters}


def make_environment(
    means: Texts | None, name: str | None, settings: Sequence[str] | None
) -> Environment:
    """Bernoulli arms from ``--means``, or another law from ``--environment``."""
    from armrace.environments import ENVIRONMENTS

    if name is None:
        if settings:
            raise InvalidParameter("--environment-set needs --environment, whose parameter it is.")
        return bernoulli(DEFAULT_MEANS if means is None else means)
    environment = ENVIRONMENTS.find(name)
    if means is not None:
        raise InvalidParameter(
            f"--means makes Bernoulli arms; with --environment {name}, give --environment-set."
        )
    return environment.from_parameters(assignments("--environment-set", settings or ()))


def bernoulli(means: Texts) -> Environment:
    """Bernoulli arms from means between commas."""
    from armrace.environments.laws import Bernoulli

    return Bernoulli(means=shares("means", means))


def make_attack(
    name: str | None, settings: Sequence[str] | None, usual: Adversary | None = None
) -> Adversary:
    """An attack by name and ``--attack-set``; what is not given is taken from the ``usual`` one."""
    from armrace.adversaries import ADVERSARIES

    parameters = assignments("--attack-set", settings or ())
    if usual is not None and name in {None, usual.tag(), usual.identifier()}:
        name = usual.identifier()
        parameters = {**usual.to_builtins(), **parameters}
        parameters.pop("name")
    return ADVERSARIES.find("none" if name is None else name).from_parameters(parameters)


def attack_names(option: str, given: Texts) -> list[str]:
    """The attacks that are named between commas; ``all`` means all but ``none``."""
    from armrace.adversaries import ADVERSARIES

    return names(option, given, [name for name in ADVERSARIES if name != "none"])


def audit_level(audit: bool, level: str | None) -> float | None:
    """The level of an audit, if ``--audit`` or ``--audit-level`` asks for one."""
    from armrace.forensics.audit import LEVEL
    from armrace.limits import check_number

    if level is None:
        return USUAL_AUDIT_LEVEL if audit else None
    given = share("audit-level", level)
    check_number("audit-level", given, LEVEL)
    return given


def warn_of_long_run(experiments: Sequence[Experiment]) -> None:
    """Warn before a run that takes hours, or would do so if a race never leaps."""
    from armrace.simulation.replication import rounds_to_play

    surely = perhaps = 0.0
    for experiment in experiments:
        expected = rounds_to_play(experiment)
        surely += expected.surely * experiment.replications / _ROUNDS_AN_HOUR
        perhaps += expected.perhaps * experiment.replications / _ROUNDS_AN_HOUR
    if surely >= 1:
        say(
            f"armrace: this takes some {surely:,.0f} hours of one core, since rounds are played "
            "one by one: only races leap, unaudited, once they have told their arms apart."
        )
    elif perhaps >= 1:
        say(
            "armrace: rounds are played one by one until the attack can spend no more of its "
            f"budget; should it never get there, that takes some {perhaps:,.0f} hours of one core."
        )


def warn_of_idle_attack(attack: Adversary, budget: float) -> None:
    """Warn that nothing is corrupted: an attack has no budget, or a budget has no attack."""
    if attack.tag() != "none" and budget == 0:
        say(f"armrace: {attack.tag()} has a budget of 0 and changes nothing; give it a --budget.")
    if attack.tag() == "none" and budget > 0:
        say("armrace: nothing is corrupted without an attack; give an --attack to the --budget.")
