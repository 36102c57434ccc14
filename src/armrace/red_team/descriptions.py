"""Attacks in plain words, and as commands that replay them."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from armrace.adversaries import Adversary
from armrace.adversaries.two_phase import NamedTwoPhase, TwoPhase
from armrace.environments import Bernoulli
from armrace.formatting import percent
from armrace.simulation.experiment import Experiment
from armrace.specification import Specification

__all__ = ["describe", "replay_command"]

_DECOYS = {
    "runner-up": "the second best arm",
    "worst": "the worst arm",
    "likeliest": "the likeliest other arm",
}
_ACTIONS = {
    "zero": "shows 0 on the best arm",
    "swap": "swaps the rewards of the best arm and {decoy}",
    "double-impact": "shows 0 on the best arm and 1 on {decoy}, when both are large changes",
    "free-ride": "shows 0 on the best arm and 1 on all others",
    "spoil": "shows 0 on all arms",
    "spoil-and-praise": "shows 0 on all arms except {decoy}, which shows 1",
}


def describe(attack: Adversary) -> str:
    """Say in plain words what an attack does.

    >>> describe(TwoPhase(first="double-impact", first_low=0.5))
    'It shows 0 on the best arm and 1 on the second best arm, when both are large changes, while \
the best arm has a probability of at least 0.5.'
    """
    if isinstance(attack, NamedTwoPhase):
        return describe(attack.member)
    if not isinstance(attack, TwoPhase):
        return _summary(attack)
    if attack.split == 0.0:
        sentences = [f"It {_phase(attack, 'second')}."]
    elif attack.split == 1.0:
        sentences = [f"It {_phase(attack, 'first')}."]
    else:
        sentences = [
            f"With the first {percent(attack.split)} of the budget it {_phase(attack, 'first')}.",
            f"With the rest it {_phase(attack, 'second')}.",
        ]
    return " ".join([*sentences, *_schedule(attack)])


def _phase(attack: TwoPhase, name: str) -> str:
    """Say what a phase does, and when it strikes."""
    low, high, visible, margin = (
        getattr(attack, f"{name}_{part}") for part in ("low", "high", "visible", "margin")
    )
    decoy = _DECOYS[attack.decoy]
    conditions = []
    arm = "the best arm has a probability"
    if not attack.sees_weights:
        arm = "the best arm has a share of the recent plays"
    if low > 0.0 and high < 1.0:
        conditions.append(f"{arm} of {low:g} to {high:g}")
    elif low > 0.0:
        conditions.append(f"{arm} of at least {low:g}")
    elif high < 1.0:
        conditions.append(f"{arm} of at most {high:g}")
    if visible > 0.0:
        conditions.append(f"the expected change of the reward that is seen is at least {visible:g}")
    if margin > -1.0:
        lead = f"leads {decoy} by at least {margin:g}"
        if margin <= 0.0:
            lead = f"trails {decoy} by at most {-margin:g}"
        conditions.append(f"the observed mean of the best arm {lead}")
    action = _ACTIONS[getattr(attack, name)].format(decoy=decoy)
    return action + (f", while {' and '.join(conditions)}" if conditions else "")


def _schedule(attack: TwoPhase) -> list[str]:
    sentences = []
    if attack.start_at > 0.0:
        sentences.append(f"It waits for the first {_share(attack.start_at)} of the rounds.")
    if attack.wake_at > attack.start_at and attack.split < 1.0:
        sentences.append(
            f"The second phase does not begin before {_share(attack.wake_at)} of the rounds."
        )
    if attack.pace < 1.0:
        sentences.append(f"It spends at most {attack.pace:g} for each round since its start.")
    if attack.hysteresis > 0.0 and max(attack.first_low, attack.second_low) > 0.0:
        sentences.append(
            f"Once it strikes, it goes on until the probability is {attack.hysteresis:g} lower."
        )
    return sentences


def _share(share: float) -> str:
    return f"{100 * share:.3g}%"


def _summary(attack: Adversary) -> str:
    """Return the first sentence of a class's description, and parameters that are not default."""
    first = " ".join((type(attack).__doc__ or attack.tag()).split()).split(". ")[0].rstrip(".")
    changed = _changed(attack)
    told = ", ".join(f"{name} = {value}" for name, value in changed.items())
    return f"{first}{f' ({told})' if told else ''}."


def _changed(specification: Specification) -> dict[str, Any]:
    """Return the parameters that do not have their default value."""
    defaults = {field.name: field.default for field in msgspec.structs.fields(type(specification))}
    values = {name: getattr(specification, name) for name in specification.__struct_fields__}
    return {name: value for name, value in values.items() if value != defaults[name]}


def replay_command(experiment: Experiment) -> str:
    """Return the command that runs an experiment again."""
    words = ["armrace", "simulate", experiment.policy.identifier()]
    words += _settings("--set", experiment.policy)
    environment = experiment.environment
    if isinstance(environment, Bernoulli):
        words += ["--means", ",".join(f"{mean!r}" for mean in environment.means)]
    else:
        words += ["--environment", environment.identifier()]
        words += _settings("--environment-set", environment)
    words += ["--attack", experiment.adversary.identifier()]
    words += _settings("--attack-set", experiment.adversary)
    words += ["--budget", f"{experiment.budget!r}".removesuffix(".0")]
    words += ["--horizon", str(experiment.horizon)]
    words += ["--replications", str(experiment.replications), "--seed", str(experiment.seed)]
    if experiment.account != "largest":
        words += ["--account", experiment.account]
    if experiment.refresh > 0.0:
        words += ["--refresh", f"{experiment.refresh!r}"]
    return shlex.join(words)


def _settings(option: str, specification: Specification) -> list[str]:
    words = []
    for name, value in _changed(specification).items():
        told = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [option, f"{name}={told}"]
    return words
