"""Ready-made comparisons, each with arms, an attack, a budget and a length.

Every figure in a summary was measured by running the scenario unchanged, including those in which
the paper's race loses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from armrace.adversaries import (
    Adversary,
    ClickBots,
    NoAttack,
    Outage,
    SwapBest,
    ZeroBestWhenLikely,
)
from armrace.environments import Bernoulli, Environment, FiniteSupport
from armrace.errors import UnknownName
from armrace.formatting import number_repeats
from armrace.policies import POLICIES, Policy
from armrace.simulation.experiment import Experiment, make_experiment, refresh_for

USUAL_POLICIES = (
    "optimistic-log-barrier",
    "sharp-race",
    "multi-layer-race",
    "tsallis-inf",
    "exp3-plus-plus",
    "thompson",
    "kl-ucb",
    "ucb1",
)
"""What a user would weigh first: robust races, best of both worlds, and what most people use."""


_FIRST_POLICIES = (
    "optimistic-log-barrier",
    "tsallis-inf",
    "sharp-race",
    "multi-layer-race",
    "thompson",
    "ucb1",
)
"""Fewer, for the comparisons that are run first: each policy takes seconds to compile."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """Arms, an attack, a length, and the policies that are compared unless others are named."""

    name: str
    summary: str
    environment: Environment
    adversary: Adversary
    budget: float
    horizon: int
    replications: int
    policies: tuple[str, ...] = USUAL_POLICIES

    def experiments(
        self,
        policies: Sequence[str | Mapping[str, Any]] = (),
        *,
        budget: float | None = None,
        seed: int = 0,
        audit: float | None = None,
        refreshed: bool = False,
    ) -> list[Experiment]:
        """Make one experiment per policy, on the same rewards.

        With ``refreshed``, an attack that looks at a costly distribution sees one that is
        computed now and then; see :func:`armrace.simulation.experiment.refresh_for`.

        Args:
            policies: names or plain data; by default those of the scenario.
            budget: the corruption that the attack may spend; by default the scenario's.
            seed: the seed that all share.
            audit: the level of an audit of each run; by default none.
            refreshed: whether costly distributions are computed now and then.
        """
        spent = self.budget if budget is None else budget
        learners = [given_the_budget(name, spent) for name in policies or self.policies]
        return [
            make_experiment(
                policy=policy,
                environment=self.environment,
                adversary=self.adversary,
                budget=spent,
                horizon=self.horizon,
                replications=self.replications,
                seed=seed,
                audit=audit,
                refresh=refresh_for(policy, self.adversary) if refreshed else 0.0,
            )
            for policy in learners
        ]

    def to_builtins(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        data = {field: getattr(self, field) for field in self.__struct_fields__}
        data["environment"] = self.environment.to_builtins()
        data["adversary"] = self.adversary.to_builtins()
        data["policies"] = list(self.policies)
        return data


def given_the_budget(description: str | Mapping[str, Any], budget: float) -> Policy:
    """Make a policy, and give it the attack's budget if it must know the corruption.

    A policy that must know the corruption in advance has a parameter ``corruption``.

    >>> given_the_budget("fast-slow-race", 300).corruption
    300.0
    """
    given = {"name": description} if isinstance(description, str) else dict(description)
    policy = POLICIES.find(str(given.pop("name", "")))
    if "corruption" in policy.__struct_fields__:
        given = {"corruption": budget, **given}
    return policy.from_parameters(given)


def label_policies(policies: Iterable[Policy]) -> dict[str, Policy]:
    """Return policies by their names, numbered where several have the same name.

    >>> list(label_policies([POLICIES.make("ucb1"), POLICIES.make("ucb1")]))
    ['ucb1', 'ucb1 #2']
    """
    listed = list(policies)
    return dict(zip(number_repeats(each.tag() for each in listed), listed, strict=True))


_ADS = Bernoulli(means=(0.03, 0.045, 0.02, 0.09, 0.04, 0.05, 0.025, 0.035, 0.04, 0.03))

_RESTAURANTS = FiniteSupport(
    values=(0.0, 0.25, 0.5, 0.75, 1.0),
    probabilities=(
        (0.02, 0.03, 0.05, 0.20, 0.70),
        (0.03, 0.07, 0.15, 0.35, 0.40),
        (0.05, 0.10, 0.20, 0.30, 0.35),
        (0.10, 0.10, 0.20, 0.30, 0.30),
        (0.15, 0.15, 0.20, 0.25, 0.25),
        (0.30, 0.20, 0.20, 0.15, 0.15),
    ),
)

_SERVERS = Bernoulli(means=(0.9, 0.99, 0.8, 0.9, 0.8))

_FASHION = Bernoulli(
    means=(
        0.0074, 0.0041, 0.0049, 0.0065, 0.0043, 0.0043, 0.0057, 0.0048, 0.0044, 0.0048, 0.0045,
        0.0061, 0.0056, 0.0069, 0.0060, 0.0053, 0.0043, 0.0099, 0.0058, 0.0055, 0.0066, 0.0055,
        0.0050, 0.0057, 0.0043, 0.0063, 0.0055, 0.0073, 0.0058, 0.0040, 0.0072, 0.0055, 0.0045,
        0.0065,
    )
)  # fmt: skip
"""Click rates of the 34 items of the campaign "men" in the sample of the Open Bandit Dataset (115
clicks in 20,000 impressions of both of its policies), each counted with 1,000 more impressions of
the mean rate, since a handful of clicks an item says little about it."""

_ALL = (
    Scenario(
        name="helpful-answers",
        summary=(
            "Five versions of an assistant's answers, which 35 to 75 per cent of the readers rate "
            "helpful; up to 300 of 100,000 ratings are forged. Under the worst attack known for "
            "each, the optimistic log barrier and Tsallis-INF lose about 620 helpful answers, the "
            "sharp race 2,500, UCB1 10,000 and Thompson sampling 23,000; the multi-layer race is "
            "still exploring. The attack that all policies meet, swap-best, praises the second "
            "best version from the start and does not aim at any policy: Thompson sampling loses "
            "least to it. One attack says little about another."
        ),
        environment=Bernoulli(means=(0.55, 0.35, 0.75, 0.45, 0.65)),
        adversary=SwapBest(),
        budget=300,
        horizon=100_000,
        replications=100,
        policies=_FIRST_POLICIES,
    ),
    Scenario(
        name="click-fraud",
        summary=(
            "Ten ads with click rates of 2 to 9 per cent; bots hide up to 100 clicks among 100,000 "
            "views on the best ad, each when it is likely to be shown. At such rates Thompson "
            "sampling is at least as good as the optimistic log barrier, without an attack (130 "
            "clicks lost, 190) and under the worst attack known for each (300, 390). "
            "Tsallis-INF loses 740, the sharp race 1,300 and UCB1 2,200. The multi-layer race is "
            "still exploring."
        ),
        environment=_ADS,
        adversary=ZeroBestWhenLikely(),
        budget=100,
        horizon=100_000,
        replications=50,
        policies=_FIRST_POLICIES,
    ),
    Scenario(
        name="quiet",
        summary=(
            "The ten ads of click-fraud without an attack: what robustness costs when it is not "
            "needed. Thompson sampling loses 180 clicks in a million rounds, KL-UCB and the "
            "optimistic log barrier about 270, Tsallis-INF 750, the sharp race 2,300 and UCB1 "
            "3,900. The multi-layer race loses ten times that, because of its slow layers."
        ),
        environment=_ADS,
        adversary=NoAttack(),
        budget=0,
        horizon=1_000_000,
        replications=8,
    ),
    Scenario(
        name="fake-reviews",
        summary=(
            "Six restaurants rated with one to five stars; forged reviews give the best one star "
            "and the worst five, until a budget of 2,000 is spent. KL-UCB, Thompson sampling and "
            "UCB1 are hardly affected by this attack, which does not aim at them, and lose a "
            "hundred times as much to one that does. The optimistic log barrier, Tsallis-INF and "
            "EXP3++ lose two or three times as much as these three here, and not much more to the "
            "worst that is known. The races correct themselves late."
        ),
        environment=_RESTAURANTS,
        adversary=SwapBest(decoy=5),
        budget=2_000,
        horizon=1_000_000,
        replications=8,
    ),
    Scenario(
        name="outage",
        summary=(
            "Five servers, of which the best answers nothing in the first 1,000 requests: a "
            "fault without an attacker. All policies that are compared return to it, KL-UCB "
            "soonest and the multi-layer race last; plain arm elimination and the Fast-Slow race, "
            "which --policies can add, never try it again."
        ),
        environment=_SERVERS,
        adversary=Outage(first=0, length=1_000),
        budget=1_000,
        horizon=1_000_000,
        replications=8,
    ),
    Scenario(
        name="open-bandit",
        summary=(
            "34 items of a fashion shop with click rates of 0.4 to 1 per cent, from the sample of "
            "the Open Bandit Dataset; bots call up the best item in bursts, 1,000 clicks in all, "
            "and never click it. At such rates a million impressions are few: the multi-layer "
            "race, UCB1 and EXP3++ hardly do better than to show all items equally often, which "
            "loses 4,288 clicks, and Tsallis-INF loses 3,850. Thompson sampling, the sharp race "
            "and KL-UCB lose about 1,500, the optimistic log barrier 2,100; four replications "
            "cannot tell these four apart."
        ),
        environment=_FASHION,
        adversary=ClickBots(),
        budget=1_000,
        horizon=1_000_000,
        replications=4,
    ),
)

SCENARIOS: dict[str, Scenario] = {scenario.name: scenario for scenario in _ALL}


def find_scenario(name: str) -> Scenario:
    """Return the scenario of this name, or raise an error that suggests the nearest."""
    if name not in SCENARIOS:
        raise UnknownName.among("scenario", name, SCENARIOS)
    return SCENARIOS[name]
