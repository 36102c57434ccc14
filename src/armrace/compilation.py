"""Compilation ahead of use, such as when a container image is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack
from armrace.errors import InvalidParameter
from armrace.learner import Learner
from armrace.learner.learner import compile_learner, learner_is_stored
from armrace.policies import POLICIES, Policy
from armrace.simulation.compilation import Unit, compile_units, units_for
from armrace.simulation.experiment import make_experiment
from armrace.specification import is_importable, is_list

_ARMS = 2
_SECONDS_A_LEARNER = 8.0


def warm_up(
    policies: Sequence[Policy | str | Mapping[str, Any]] | None = None,
    adversaries: Sequence[Adversary | str | Mapping[str, Any]] | None = None,
    *,
    learners: bool = True,
    audit: bool = False,
    horizon: int = 100_000,
    progress: bool | None = None,
) -> None:
    """Compile policies and attacks and store the machine code, so that later uses start at once.

    What is stored already is not compiled again. Several are compiled at the same time, in as
    many processes as there are cores.

    Args:
        policies: names, specifications or plain data; by default all policies of the catalogue.
        adversaries: attacks, in the same forms; by default all of the catalogue.
        learners: whether to compile :class:`armrace.learner.Learner` for the policies too.
        audit: whether to compile the simulation of audited policies too.
        horizon: the longest run that is planned; beyond ten million rounds, races use another
            loop, which skips rounds.
        progress: whether to say on standard error what is being compiled, as is usual.
    """
    chosen = [POLICIES.make(each) for each in _listed("policies", policies, POLICIES)]
    attacks = [ADVERSARIES.make(each) for each in _listed("adversaries", adversaries, ADVERSARIES)]
    pairs: list[tuple[Policy, Adversary]] = [(policy, NoAttack()) for policy in chosen]
    pairs += [(chosen[0], attack) for attack in attacks]
    experiments = [
        make_experiment(
            policy=policy,
            environment=[0.6, 0.4],
            adversary=attack,
            budget=1.0,
            horizon=horizon,
            replications=1,
            audit=level,
        )
        for policy, attack in pairs
        for level in ([None, 0.05] if audit else [None])
    ]
    units = units_for(experiments)
    if learners:
        units += _learner_units(chosen, horizon)
    compile_units(units, progress)


def _listed(name: str, given: Any, everything: Mapping[str, Any]) -> Sequence[Any]:
    if given is None:
        return list(everything)
    if not is_list(given) or not len(given):
        raise InvalidParameter(f"{name} must be a list with at least one member; got {given!r}.")
    return list(given)


def _learner_units(policies: Sequence[Policy], horizon: int) -> Iterator[Unit]:
    for policy in policies:
        if not learner_is_stored(policy, _ARMS, horizon):
            elsewhere = is_importable(policy)
            yield Unit("learner", policy.tag(), _SECONDS_A_LEARNER, _compile, policy, elsewhere)


def _compile(policy: Policy) -> None:
    compile_learner(Learner(policy, _ARMS, horizon=1000))
