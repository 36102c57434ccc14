"""Requests to ``armrace compare``: a scenario, other budgets, and worst attacks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer

from armrace.cli import options
from armrace.cli.arguments import names, numbers, policy_assignments, whole
from armrace.cli.execution import INTERRUPTED, run_cells
from armrace.cli.experiments import attack_names, make_attack, make_environment
from armrace.errors import InvalidParameter, UnknownName

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from armrace.simulation import Comparison, Experiment, Scenario


class Overrides(NamedTuple):
    """The options that change a scenario, as they were given."""

    means: options.Means = None
    environment: options.Environment = None
    environment_settings: options.EnvironmentSet = None
    attack: options.Attacks = None
    attack_settings: options.AttackSet = None
    budget: options.Budgets = None
    horizon: options.Horizon = None
    replications: options.Replications = None

    @property
    def changes_arms(self) -> bool:
        """Whether the arms are others than the scenario's."""
        return bool(self.means or self.environment or self.environment_settings)

    def words(self) -> list[str]:
        """The options that say more than a number, to be given again."""
        attacks = attack_names("attack", self.attack) if self.attack else []
        lists: dict[str, Sequence[str]] = {
            "--means": self.means or (),
            "--environment": [self.environment] if self.environment else (),
            "--environment-set": self.environment_settings or (),
            "--attack": [",".join(attacks)] if attacks else (),
            "--attack-set": self.attack_settings or (),
        }
        return [
            word for option, texts in lists.items() for text in texts for word in (option, text)
        ]


class Request(NamedTuple):
    """A comparison before it is run."""

    scenarios: list[Scenario]
    """One for each attack and budget; all else they share."""
    policies: list[dict[str, Any]]
    """Names and parameters."""
    policy_settings: list[str]
    """The parameters of policies as they were given."""
    seed: int
    workers: int | None
    overrides: Overrides
    audit: float | None
    """The level of an audit, if one is asked for."""
    measure: str
    """The figure that ranks the policies."""
    executor: Executor | None = None
    """What runs the replications, once it is started; None stands for threads."""
    folder: Path | None = None
    """Where finished results are kept, if anywhere."""

    @property
    def scenario(self) -> Scenario:
        """The only scenario, or the first for all that they share."""
        return self.scenarios[0]

    @property
    def is_grid(self) -> bool:
        """Whether there are several attacks or budgets."""
        return len(self.scenarios) > 1

    @property
    def could_show_worst(self) -> bool:
        """Whether each policy can also be shown under an attack of its own: none was named."""
        return not self.is_grid and not self.overrides.attack and self.scenario.budget > 0

    def cells(self) -> list[list[Experiment]]:
        """Make a cell for each attack and budget: one experiment for each policy."""
        return [
            each.experiments(self.policies, seed=self.seed, audit=self.audit)
            for each in self.scenarios
        ]

    def command(self) -> str:
        """Return the command line that runs it again, independently of future defaults."""
        story = self.scenario
        budgets = dict.fromkeys(f"{each.budget:.17g}" for each in self.scenarios)
        words = ["armrace", "compare", story.name]
        words += ["--policies", ",".join(policy["name"] for policy in self.policies)]
        words += [word for text in self.policy_settings for word in ("--set", text)]
        words += self.overrides.words()
        words += ["--budget", ",".join(budgets), "--horizon", str(story.horizon)]
        words += ["--replications", str(story.replications), "--seed", str(self.seed)]
        words += ["--measure", self.measure]
        if self.audit is not None:
            words += ["--audit-level", repr(self.audit)]
        return shlex.join(words)


def make_request(
    scenario: Scenario,
    overrides: Overrides,
    *,
    policies: Sequence[str] | None,
    settings: Sequence[str] | None,
    measure: str,
    seed: str,
    workers: int | None,
    audit: float | None,
) -> Request:
    """Make a request from the text of its options."""
    from armrace.policies import POLICIES

    listed = names("policies", policies, POLICIES) if policies else list(scenario.policies)
    for name in listed:
        POLICIES.find(name)  # a wrong name is refused before a parameter of it
    parameters = policy_assignments(settings or (), listed)
    return Request(
        scenarios=override(scenario, overrides),
        policies=[{"name": name, **parameters.get(name, {})} for name in listed],
        policy_settings=list(settings or ()),
        seed=whole("seed", seed),
        workers=workers,
        overrides=overrides,
        audit=audit,
        measure=_measure(measure),
    )


def _measure(text: str) -> str:
    from armrace.simulation.results import MEASURES

    name = text.strip().replace("-", "_")
    if name not in MEASURES:
        raise UnknownName.among("measure", text, MEASURES)
    return name


def override(scenario: Scenario, given: Overrides) -> list[Scenario]:
    """The scenario with what the options change, for each attack and budget."""
    changes: dict[str, Any] = {}
    if given.changes_arms:
        changes["environment"] = make_environment(
            given.means, given.environment, given.environment_settings
        )
    if given.horizon is not None:
        changes["horizon"] = whole("horizon", given.horizon)
    if given.replications is not None:
        changes["replications"] = whole("replications", given.replications)
    if changes.keys() - {"replications"} or given.attack or given.attack_settings or given.budget:
        changes["summary"] = f"A variation of the scenario {scenario.name}."
    changed = msgspec.structs.replace(scenario, **changes)
    budgets = numbers("budget", given.budget) if given.budget else [scenario.budget]
    return [
        msgspec.structs.replace(changed, adversary=adversary, budget=budget)
        for adversary in _attacks(scenario, given)
        for budget in budgets
    ]


def _attacks(scenario: Scenario, given: Overrides) -> list[Any]:
    if not given.attack:
        return [make_attack(None, given.attack_settings, usual=scenario.adversary)]
    listed = attack_names("attack", given.attack)
    if given.attack_settings and len(listed) > 1:
        raise InvalidParameter(f"--attack-set needs a single --attack; got {', '.join(listed)}.")
    return [make_attack(name, given.attack_settings, usual=scenario.adversary) for name in listed]


_FACTORS = (1 / 16, 1 / 4, 4)
_SHARE_OF_REPLICATIONS = 4
"""The sweep has this many times fewer replications than the comparison: it shows the trend."""


def can_be_swept(request: Request) -> bool:
    """Whether there is exactly one attack and it has a budget."""
    story = request.scenario
    return not request.is_grid and story.adversary.tag() != "none" and story.budget > 0


def budgets_around(budget: float) -> list[float]:
    """No budget, a few smaller ones and a larger one.

    >>> budgets_around(4000)
    [0.0, 250.0, 1000.0, 16000.0]
    """
    return [0.0, *(float(budget * factor) for factor in _FACTORS)]


def sweep(request: Request, known: dict[float, Comparison]) -> dict[float, Comparison]:
    """Run the same comparison at the budgets that are not known yet, with fewer replications.

    All policies are played, even those that the plot leaves out. A distribution that is costly to
    compute is not refreshed in every round for attacks that read it.
    """
    from armrace.simulation import Comparison

    asked = request.scenario.replications
    fewer = min(asked, max(2, asked // _SHARE_OF_REPLICATIONS))
    quick = msgspec.structs.replace(request.scenario, replications=fewer)
    budgets = [each for each in budgets_around(quick.budget) if each not in known]
    cells = [
        quick.experiments(request.policies, budget=each, seed=request.seed, refreshed=True)
        for each in budgets
    ]
    results = run_cells(cells, request.workers, request.executor, request.folder)
    if results[0][0].interrupted:
        raise typer.Exit(INTERRUPTED)
    compared = [Comparison(each, request.measure) for each in results]
    return {**known, **dict(zip(budgets, compared, strict=True))}


def under_own_worst(
    cell: Sequence[Experiment], executor: Executor | None, workers: int | None
) -> list[Experiment]:
    """Return the same experiments, each with the attack that trials showed to be its worst.

    Tried are the cell's own attack, what searches have found for the policy in similar settings,
    and some fixed attacks; the trials have other seeds than the experiments.
    """
    from armrace.red_team.library import worst_known
    from armrace.red_team.target import Target
    from armrace.simulation.experiment import refresh_for

    attacked = []
    for experiment in cell:
        target = Target(
            policy=experiment.policy,
            environment=experiment.environment,
            budget=experiment.budget,
            horizon=experiment.horizon,
        )
        own = experiment.adversary
        attack = worst_known(target, experiment.seed, [own], executor, workers)
        refresh = refresh_for(experiment.policy, attack)
        attacked.append(msgspec.structs.replace(experiment, adversary=attack, refresh=refresh))
    return attacked


def at_least_as_bad(own: Comparison, shared: Comparison) -> Comparison:
    """Return ``own`` with the shared attack for policies to which that has cost more after all.

    A few trials choose an attack, so the choice can be wrong; the table would then show a worst
    attack that costs less than the one beside it.
    """
    from armrace.simulation import Comparison

    pairs = zip(own.results.values(), shared.results.values(), strict=True)
    costlier = [max(pair, key=lambda result: result.figure(own.measure).mean) for pair in pairs]
    return Comparison(costlier, own.measure)
