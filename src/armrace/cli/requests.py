"""What ``armrace compare`` is asked for: a scenario with its overrides, policies and seed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from armrace.cli.arguments import names, number, whole, worker_count
from armrace.cli.experiments import attack_names, bernoulli, make_attack
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from armrace.simulation import Experiment, Scenario

__all__ = ["Request", "make_request", "override"]


class Request(NamedTuple):
    """A comparison before it is run."""

    scenarios: list[Scenario]
    """One an attack and budget; all else they share."""
    policies: list[str]
    seed: int
    workers: int | None
    overrides: list[str]
    """The options that changed the scenario's arms and attack, as they were given."""
    audit: float | None
    """The level of an audit, if one is asked for."""
    executor: Executor | None = None
    """Who computes, once it is started; None stands for threads."""
    folder: Path | None = None
    """Where what is finished is kept, if it is."""

    @property
    def scenario(self) -> Scenario:
        """The only scenario, or the first for all that they share."""
        return self.scenarios[0]

    @property
    def is_grid(self) -> bool:
        """Whether there are several attacks or budgets."""
        return len(self.scenarios) > 1

    def batches(self) -> list[list[Experiment]]:
        """One experiment a policy, for each attack and budget."""
        return [
            each.experiments(self.policies, seed=self.seed, audit=self.audit)
            for each in self.scenarios
        ]

    def command(self) -> str:
        """The command line that runs it again, whatever the scenario's defaults become."""
        story = self.scenario
        budgets = dict.fromkeys(f"{each.budget:.17g}" for each in self.scenarios)
        words = ["armrace", "compare", story.name]
        if self.policies:
            words += ["--policies", ",".join(self.policies)]
        words += self.overrides
        words += ["--budget", ",".join(budgets), "--horizon", str(story.horizon)]
        words += ["--replications", str(story.replications), "--seed", str(self.seed)]
        if self.audit is not None:
            words += ["--audit-level", repr(self.audit)]
        return shlex.join(words)


def make_request(
    scenarios: list[Scenario],
    policies: str | None,
    seed: str,
    workers: str | None,
    overrides: list[str],
    audit: float | None,
) -> Request:
    """A request from the text of its options."""
    from armrace.policies import POLICIES

    return Request(
        scenarios=scenarios,
        policies=[] if policies is None else names("policies", policies, POLICIES),
        seed=whole("seed", seed),
        workers=worker_count(workers),
        overrides=overrides,
        audit=audit,
    )


def override(
    scenario: Scenario,
    means: str | None,
    attack: str | None,
    attack_settings: Sequence[str],
    budget: str | None,
    horizon: str | None,
    replications: str | None,
) -> tuple[list[Scenario], list[str]]:
    """The scenario with what the options change, for each attack and budget.

    With it come the options that say more than a number, as they were given.
    """
    changes: dict[str, Any] = {}
    words: list[str] = []
    if means is not None:
        changes["environment"] = bernoulli(means)
        words += ["--means", means]
    if horizon is not None:
        changes["horizon"] = whole("horizon", horizon)
    if replications is not None:
        changes["replications"] = whole("replications", replications)
    if changes.keys() - {"replications"} or attack or attack_settings or budget:
        changes["summary"] = f"A variation of the scenario {scenario.name}."
    words += ["--attack", ",".join(attack_names("attack", attack))] if attack is not None else []
    words += [word for text in attack_settings for word in ("--attack-set", text)]
    changed = msgspec.structs.replace(scenario, **changes)
    grid = [
        msgspec.structs.replace(changed, adversary=adversary, budget=spent)
        for adversary in _attacks(scenario, attack, attack_settings)
        for spent in _budgets(scenario, budget)
    ]
    return grid, words


def _attacks(scenario: Scenario, attack: str | None, settings: Sequence[str]) -> list[Any]:
    if attack is None:
        return [make_attack(None, settings, usual=scenario.adversary)]
    listed = attack_names("attack", attack)
    if settings and len(listed) > 1:
        raise InvalidParameter(f"--attack-set needs a single --attack; got {', '.join(listed)}.")
    return [make_attack(name, settings, usual=scenario.adversary) for name in listed]


def _budgets(scenario: Scenario, budget: str | None) -> list[float]:
    if budget is None:
        return [scenario.budget]
    return list(dict.fromkeys(number("budget", part.strip()) for part in budget.split(",")))
