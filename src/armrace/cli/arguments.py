"""Text of the command line, read as numbers, lists, parameters and specifications."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from armrace.cli.outputs import say
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.adversaries import Adversary
    from armrace.environments import Environment
    from armrace.policies import Policy
    from armrace.simulation import Experiment

ALL = "all"
"""Stands for every known name, where several may be given."""

_MOST_NESTED = 20
"""How deep the lists of a parameter's value may be nested."""

Texts = str | Sequence[str]
"""One text, or those of an option that was repeated; each may hold several, between commas."""


def number(name: str, text: str) -> float:
    """A finite number.

    >>> number("budget", "1e3")
    1000.0
    """
    try:
        parsed = float(text)
    except ValueError:
        raise InvalidParameter(f"{name} must be a number; got {text!r}.") from None
    if not math.isfinite(parsed):
        raise InvalidParameter(f"{name} must be finite; got {text}.")
    return parsed


def whole(name: str, text: str) -> int:
    """Read a whole number, also as ``1e6``; the specification checks its limits.

    >>> whole("horizon", "1e6")
    1000000
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        wide = float(text)
    except ValueError:
        raise InvalidParameter(f"{name} must be a whole number; got {text!r}.") from None
    if not math.isfinite(wide):
        raise InvalidParameter(f"{name} must be finite; got {text}.")
    if wide != int(wide):
        raise InvalidParameter(f"{name} must be a whole number; got {text}.")
    return int(wide)


def worker_count(text: str | None) -> int | None:
    """Read a number of threads; None for the default."""
    if text is None:
        return None
    parsed = whole("workers", text)
    if parsed < 1:
        raise InvalidParameter(f"workers must be at least 1; got {text}.")
    return parsed


def split(given: Texts) -> list[str]:
    """Split the values of an option, which may be repeated, at commas.

    >>> split(["0.5, 0.4", "0.3"])
    ['0.5', '0.4', '0.3']
    """
    together = given if isinstance(given, str) else ",".join(given)
    return [part.strip() for part in together.split(",")]


def names(name: str, given: Texts, known: Iterable[str]) -> list[str]:
    """At least one name, each once, between commas; or all that are known.

    >>> names("policies", ["ucb1, exp3", "ucb1"], known=["exp3", "moss", "ucb1"])
    ['ucb1', 'exp3']
    >>> names("policies", "all", known=["exp3", "moss", "ucb1"])
    ['exp3', 'moss', 'ucb1']
    """
    found = list(dict.fromkeys(part for part in split(given) if part))
    if not found:
        text = given if isinstance(given, str) else ",".join(given)
        raise InvalidParameter(f"{name} must name at least one; got {text!r}.")
    return list(known) if found == [ALL] else found


def share(name: str, text: str) -> float:
    """Read a rate or a probability, as a number or as a percentage.

    >>> share("forged", "0.7%"), share("forged", "0.007")
    (0.007, 0.007)
    """
    bare = text.strip()
    if not bare.endswith("%"):
        return number(name, bare)
    plain = number(name, bare[:-1])
    try:
        return float(Decimal(bare[:-1]).scaleb(-2))
    except InvalidOperation:  # beyond Decimal's exponents, where a float is 0 anyway
        return plain / 100


def shares(name: str, given: Texts) -> tuple[float, ...]:
    """Rates between commas.

    >>> shares("means", ["0.05, 4%", "0.03"])
    (0.05, 0.04, 0.03)
    """
    return tuple(share(f"each of {name}", part) for part in split(given))


def numbers(name: str, given: Texts) -> list[float]:
    """Finite numbers between commas, each once.

    >>> numbers("budget", ["0,10", "1e2", "10"])
    [0.0, 10.0, 100.0]
    """
    return list(dict.fromkeys(number(name, part) for part in split(given)))


def place(text: str) -> Path:
    """Read the path of a file or folder; refuse an empty one, which means the current folder."""
    if not str(text).strip():
        raise typer.BadParameter("its name is empty")
    return Path(text)


def assignments(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Parameters given as ``key=value``, each once.

    >>> assignments("--set", ["delta=0.1", "estimator=rv", "alphas=2,3"])
    {'delta': 0.1, 'estimator': 'rv', 'alphas': [2, 3]}
    """
    parsed: dict[str, Any] = {}
    for text in texts:
        key, equals, given = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or not given.strip():
            raise InvalidParameter(
                f"{option} takes key=value, such as delta=0.1; got {_shortened(text)!r}."
            )
        if key == "name":  # plain data has the class under this key
            raise InvalidParameter(f"{option} sets parameters, and name is not one of them.")
        if key in parsed:
            raise InvalidParameter(f"{option} gives {key} twice.")
        parsed[key] = value(key, given.strip())
    return parsed


def policy_assignments(texts: Sequence[str], policies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parameters of several policies, given as ``policy.key=value``.

    >>> policy_assignments(["exp3.learning-rate=0.1"], ["ucb1", "exp3"])
    {'exp3': {'learning_rate': 0.1}}
    """
    of_policy: dict[str, list[str]] = {}
    for text in texts:
        path, equals, given = text.partition("=")
        policy, dot, key = path.strip().rpartition(".")
        if not dot or not equals:
            raise InvalidParameter(
                "--set takes policy.key=value here, such as sharp-race.delta=0.1; "
                f"got {_shortened(text)!r}."
            )
        if policy not in policies:
            raise InvalidParameter(
                f"--set must name one of the policies that are compared, {', '.join(policies)}; "
                f"got {policy!r}."
            )
        of_policy.setdefault(policy, []).append(f"{key}={given}")
    return {policy: assignments("--set", given) for policy, given in of_policy.items()}


def _shortened(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def value(name: str, text: str) -> Any:
    """Read a parameter's value: as JSON, as numbers between commas, or else as text."""
    if text.lower() == "none":
        return None
    depths = accumulate((letter in "[{") - (letter in "]}") for letter in text)
    if max(depths, default=0) > _MOST_NESTED:
        raise InvalidParameter(
            f"{name} must not nest lists deeper than {_MOST_NESTED}; got {_shortened(text)!r}."
        )
    for attempt in (text, f"[{text}]"):
        try:
            return msgspec.json.decode(attempt)
        except msgspec.DecodeError:
            continue
    return text


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
    from armrace.audit.auditing import LEVEL
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
