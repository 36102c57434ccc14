"""Questions that a plan answers: arms, traffic, and how much may be forged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack
from armrace.environments import Bernoulli
from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number
from armrace.policies import POLICIES, RECOMMENDED, Policy, recommended
from armrace.randomness import MAXIMAL_SEED
from armrace.red_team.library import winners_for
from armrace.red_team.target import Target
from armrace.simulation.experiment import Experiment, make_experiment, refresh_for
from armrace.simulation.scenarios import label_policies
from armrace.specification import Confidence, Specification, is_list

COUNTED_CLICKS = (
    "This C counts forged clicks: it is a lower bound unless every forged click is the bot's only "
    "visit. If bots wait for one item, use --bot-visitors."
)
"""What a plan says beside a C that was worked out from a share of the clicks."""

USUAL_FORGED = 0.01
"""The share of the rounds that is suspected if nothing is said."""

_SHARE = Limits("a share", 0, 1)


def forged_share(
    best_mean: float,
    forged: float | None = None,
    forged_clicks: float | None = None,
    bot_visitors: float | None = None,
) -> float:
    """The share of all rounds that is forged, from whichever one of the shares is given.

    >>> forged_share(0.06, forged_clicks=0.1), forged_share(0.06, bot_visitors=0.1)
    (0.006, 0.1)
    """
    shares = {"forged": forged, "forged_clicks": forged_clicks, "bot_visitors": bot_visitors}
    given = {name: share for name, share in shares.items() if share is not None}
    if len(given) > 1:
        raise InvalidParameter(
            f"forged, forged_clicks and bot_visitors say the same thing in different ways; give "
            f"one of them, not {' and '.join(given)}."
        )
    for name, share in given.items():
        check_number(name, share, _SHARE)
    if forged_clicks is not None:
        return forged_clicks * best_mean
    return next(iter(given.values()), USUAL_FORGED)


POLICIES_TRIED = (
    "sharp-race",
    "multi-layer-race",
    "fast-slow-race",
    "active-arm-elimination",
    "barbat",
    "ucb1",
    "kl-ucb",
    "moss",
    "thompson",
    "exp3",
    "tsallis-inf",
    "optimistic-log-barrier",
    "guarded",
)
"""The races, a guard, and one or two policies of every other kind, unless others are named."""

ATTACKS_TRIED = ("swap-best", "zero-best-when-likely", "sleeper-bots")
"""One attack that acts at once, one that acts when its changes are seen, and one that waits."""

_WORST_ATTACKS = 3
_LEAST_ROUNDS = 100
_MOST_ROUNDS = 10_000_000
_MOST_REPLICATIONS = 10_000
_HARDEST_RATE = 0.5
"""The rate at which rewards vary most: the cautious choice for a rate that is not known."""

_ARMS = Limits("arms", 2, 10_000)
_GAP = Limits("smallest difference worth caring about", 0, 1, low_open=True)
_RATE = Limits("mean of the other arms", 0, 1)
_SAME = 1e-12
"""Smaller differences of means come from rounding."""


class Question(Specification, frozen=True, tag="question", kw_only=True):
    """Arms, traffic and suspected corruption: all that a plan depends on."""

    means: Annotated[tuple[float, ...], Limits("probability of a 1, one per arm", 0, 1)]
    gap: Annotated[float, Limits("smallest difference worth caring about", 0, 1)] = 0.0
    traffic: Annotated[float, Limits("decisions a day", 0, 1e12, low_open=True)]
    days: Annotated[float, Limits("days at most", 0, 1e5, low_open=True)]
    forged: Annotated[float, Limits("share of all rounds whose feedback may be forged", 0, 1)]
    delta: Confidence
    policies: tuple[Policy, ...]
    attacks: tuple[Adversary, ...]
    worst_attacks: Annotated[
        int, Limits("how many of the worst attacks found for each policy are tried too", 0, 24)
    ] = 0
    replications: Annotated[int, Limits("independent runs", 1, _MOST_REPLICATIONS)]
    seed: Annotated[int, Limits("seed of all randomness", 0, MAXIMAL_SEED)]
    rounds: Annotated[
        int, Limits("decisions that are simulated at most", _LEAST_ROUNDS, _MOST_ROUNDS)
    ]

    def validate(self) -> None:
        Bernoulli(means=self.means)
        if self.wanted < _LEAST_ROUNDS:
            raise InvalidParameter(
                f"traffic x days must be at least {_LEAST_ROUNDS} decisions, or nothing can be "
                f"learned; got {self.wanted:g}."
            )
        if self.good_enough().all():
            raise InvalidParameter(
                f"every arm is good enough with means {', '.join(f'{m:g}' for m in self.means)} "
                f"and a gap of {self.gap:g}, so there is nothing to decide."
            )

    @property
    def wanted(self) -> float:
        """Decisions in all days together."""
        return self.traffic * self.days

    @property
    def horizon(self) -> int:
        """The number T of simulated decisions: all of them, but at most ``rounds``."""
        return int(min(self.wanted, self.rounds))

    @property
    def is_cut(self) -> bool:
        """Whether the days have more decisions than are simulated."""
        return self.wanted >= self.horizon + 1

    @property
    def suspected(self) -> float:
        """The corruption C that is suspected: ``forged * T``."""
        return self.forged * self.horizon

    def days_of(self, rounds: float) -> float:
        """Return how many days a number of decisions takes.

        Args:
            rounds: the number of decisions.
        """
        return rounds / self.traffic

    def arms(self) -> npt.NDArray[np.float64]:
        """The means as they are simulated, with the best arm in the middle.

        If it came first, a policy that breaks ties by index would have an unfair advantage.
        """
        means = np.array(self.means)
        best, middle = int(np.argmax(means)), means.size // 2
        means[[best, middle]] = means[[middle, best]]
        return means

    def good_enough(self) -> npt.NDArray[np.bool_]:
        """For each of :meth:`arms`, whether it is the best or worse by less than the gap."""
        lacks = self.arms().max() - self.arms()
        return np.asarray((lacks <= _SAME) | (lacks < self.gap - _SAME))

    def informed(self, description: Policy | str | Mapping[str, Any]) -> Policy:
        """Return a policy with the question's delta and, if it needs it, suspected corruption.

        A policy that was given as a specification is not changed.

        Args:
            description: a policy, its name, or plain data with a ``name``.
        """
        if isinstance(description, Policy):
            return description
        given = {"name": description} if isinstance(description, str) else dict(description)
        fields = POLICIES.find(str(given.get("name", ""))).__struct_fields__
        known = {"delta": self.delta, "corruption": self.suspected}
        return POLICIES.make({**{k: v for k, v in known.items() if k in fields}, **given})

    def learners(self) -> dict[str, Policy]:
        """The policies by name, numbered where several have the same name."""
        return label_policies(self.policies)

    def experiments(self, names: Sequence[str], budget: float) -> list[tuple[str, Experiment]]:
        """The named policies under each of their attacks, or without any if the budget is 0.

        Args:
            names: the names of the policies.
            budget: the corruption that each attack may spend.
        """
        learners = self.learners()
        return [
            (name, self._experiment(learners[name], attack, budget))
            for name in names
            for attack in self.attacks_on(learners[name], budget)
        ]

    def attacks_on(self, policy: Policy, budget: float) -> list[Adversary]:
        """The attacks that a policy meets: those named, and the worst that were found for it.

        The latter come from the library of :mod:`armrace.red_team`, from searches in similar
        settings; for a policy that was never searched, from searches against others.

        Args:
            policy: the policy that is attacked.
            budget: the corruption that each attack may spend.
        """
        if budget == 0:
            return [NoAttack()]
        if self.worst_attacks == 0:
            return list(self.attacks)
        target = Target(
            policy=policy,
            environment=Bernoulli(means=tuple(self.arms().tolist())),
            budget=budget,
            horizon=self.horizon,
        )
        found = winners_for(target)[: self.worst_attacks]
        return list(dict.fromkeys([*self.attacks, *found]))

    def _experiment(self, policy: Policy, attack: Adversary, budget: float) -> Experiment:
        return make_experiment(
            policy=policy,
            environment=self.arms(),
            adversary=attack,
            budget=budget,
            horizon=self.horizon,
            replications=self.replications,
            seed=self.seed,
            refresh=refresh_for(policy, attack),
        )


def make_question(
    means: Sequence[float] | None = None,
    *,
    arms: int | None = None,
    gap: float | None = None,
    base_rate: float | None = None,
    traffic: float,
    days: float = 14.0,
    forged: float | None = None,
    forged_clicks: float | None = None,
    bot_visitors: float | None = None,
    delta: float = 0.05,
    policies: Sequence[Policy | str | Mapping[str, Any]] | None = None,
    attacks: Sequence[Adversary | str | Mapping[str, Any]] | None = None,
    worst_attacks: int | None = None,
    replications: int = 20,
    seed: int = 0,
    rounds: int = 1_000_000,
) -> Question:
    """Make a question from the arms' means, or from a number of arms of which one is best by a gap.

    Args:
        means: the probability of a click on each arm.
        arms: the number of arms, in place of the means.
        gap: the smallest difference worth caring about; with ``arms``, how much the best is better.
        base_rate: the mean of the other arms, with ``arms``; by default 0.5, the hardest.
        traffic: decisions per day.
        days: how many days the test may last.
        forged: the share of all rounds whose feedback may be forged; by default 1%.
        forged_clicks: in its place, the share of the clicks that may be forged; a lower bound on C
            unless every forged click is the bot's only visit.
        bot_visitors: in its place, the share of the visitors that may be bots. How the three
            relate is in :mod:`armrace.planning.question`.
        delta: the failure probability of policies that have one.
        policies: names, plain data or specifications; by default the races, a guard, what is
            recommended for this number of arms, and one or two of every other kind.
        attacks: names, plain data or specifications; by default three of different kinds.
        worst_attacks: how many of the worst attacks found for each policy are tried too; by
            default 3, or none if ``attacks`` are given.
        replications: simulated runs of each policy under each attack at each budget.
        seed: the seed of all randomness.
        rounds: the most decisions that are simulated.

    >>> question = make_question(arms=3, gap=0.1, base_rate=0.2, traffic=500, forged=0.01)
    >>> question.arms().round(3).tolist(), question.horizon, question.suspected
    ([0.2, 0.3, 0.2], 7000, 70.0)
    """
    tried = ATTACKS_TRIED if attacks is None else attacks
    own = _WORST_ATTACKS if attacks is None else 0
    for name, listed in (
        ("policies", POLICIES_TRIED if policies is None else policies),
        ("attacks", tried),
    ):
        if not is_list(listed) or not len(listed):
            raise InvalidParameter(f"{name} must be a list of at least one; got {listed!r}.")
    rates = _one_better(arms, gap, base_rate) if means is None else _given(means, arms, base_rate)
    Bernoulli(means=rates)  # refuses anything but rates, before the best of them is used
    question = Question(
        means=rates,
        gap=0.0 if gap is None else gap,
        traffic=traffic,
        days=days,
        forged=forged_share(max(rates), forged, forged_clicks, bot_visitors),
        delta=delta,
        policies=(),
        attacks=tuple(map(_attack, tried)),
        worst_attacks=own if worst_attacks is None else worst_attacks,
        replications=replications,
        seed=seed,
        rounds=rounds,
    )
    learners = _tried(len(rates)) if policies is None else policies
    return msgspec.structs.replace(question, policies=tuple(map(question.informed, learners)))


def _tried(arms: int) -> list[str | Mapping[str, Any]]:
    """Return the policies that are tried unless others are named."""
    return [recommended(arms) if name == RECOMMENDED else name for name in POLICIES_TRIED]


def _given(means: Sequence[float], arms: int | None, base_rate: float | None) -> tuple[float, ...]:
    if arms is not None or base_rate is not None:
        raise InvalidParameter("means say all of the arms; leave arms and base_rate out.")
    if not is_list(means):
        raise InvalidParameter(f"means must be a list of numbers; got {means!r}.")
    return tuple(means)


def _one_better(arms: int | None, gap: float | None, base_rate: float | None) -> tuple[float, ...]:
    if arms is None or gap is None:
        raise InvalidParameter(
            "the arms are missing; give their means, or a number of arms and the smallest gap "
            "worth caring about."
        )
    rate = _HARDEST_RATE if base_rate is None else base_rate
    check_number("arms", arms, _ARMS, whole=True)
    check_number("gap", gap, _GAP)
    check_number("base_rate", rate, _RATE)
    if rate + gap > 1:
        raise InvalidParameter(f"base_rate + gap must be at most 1; got {rate:g} + {gap:g}.")
    return (*[rate] * (arms - 1), rate + gap)


def _attack(description: Adversary | str | Mapping[str, Any]) -> Adversary:
    attack = ADVERSARIES.make(description)
    if isinstance(attack, NoAttack):
        raise InvalidParameter("attacks must not hold none; a plan begins without attack anyway.")
    return attack
