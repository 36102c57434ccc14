"""What ``armrace compare`` is asked for: a scenario with its overrides, policies and seed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from armrace.cli.experiments import bernoulli, make_attack
from armrace.cli.parsing import names, number, whole, worker_count

if TYPE_CHECKING:
    from armrace.simulation import Experiment, Scenario

__all__ = ["Plan", "make_plan", "override"]


class Plan(NamedTuple):
    """A comparison before it is run."""

    scenario: Scenario
    policies: list[str]
    seed: int
    workers: int | None
    overrides: list[str]
    """The options that changed the scenario's arms and attack, as they were given."""

    def experiments(self) -> list[Experiment]:
        """One experiment a policy."""
        return self.scenario.experiments(self.policies, seed=self.seed)

    def command(self) -> str:
        """The command line that runs it again, whatever the scenario's defaults become."""
        story = self.scenario
        words = ["armrace", "compare", story.name]
        if self.policies:
            words += ["--policies", ",".join(self.policies)]
        words += self.overrides
        words += ["--budget", f"{story.budget:.17g}", "--horizon", str(story.horizon)]
        words += ["--replications", str(story.replications), "--seed", str(self.seed)]
        return shlex.join(words)


def make_plan(
    scenario: Scenario, policies: str | None, seed: str, workers: str | None, overrides: list[str]
) -> Plan:
    """A plan from the text of its options."""
    return Plan(
        scenario=scenario,
        policies=[] if policies is None else names("policies", policies),
        seed=whole("seed", seed),
        workers=worker_count(workers),
        overrides=overrides,
    )


def override(
    scenario: Scenario,
    means: str | None,
    attack: str | None,
    attack_settings: Sequence[str],
    budget: str | None,
    horizon: str | None,
    replications: str | None,
) -> tuple[Scenario, list[str]]:
    """The scenario with what the options change, and those that say more than a number."""
    changes: dict[str, object] = {}
    words: list[str] = []
    if means is not None:
        changes["environment"] = bernoulli(means)
        words += ["--means", means]
    if attack is not None or attack_settings:
        changes["adversary"] = make_attack(attack, attack_settings, usual=scenario.adversary)
        words += ["--attack", attack] if attack is not None else []
        words += [word for text in attack_settings for word in ("--attack-set", text)]
    if budget is not None:
        changes["budget"] = number("budget", budget)
    if horizon is not None:
        changes["horizon"] = whole("horizon", horizon)
    if replications is not None:
        changes["replications"] = whole("replications", replications)
    if changes.keys() - {"replications"}:
        changes["summary"] = f"A variation of the scenario {scenario.name}."
    return msgspec.structs.replace(scenario, **changes), words
