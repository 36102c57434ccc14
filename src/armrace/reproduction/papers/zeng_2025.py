"""Fake data injection: Zeng, He, Hoffmann, Wang and Zuo (2025), and what tickets make of it."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import polars as pl

from armrace.environments import Bernoulli, Gaussian
from armrace.errors import ForeignTicket
from armrace.kernels.laws import rewards_between
from armrace.learner import Decision, Learner, Ticket
from armrace.policies.ucb import Ucb
from armrace.randomness import reward_place
from armrace.reproduction.studies import Form, Found, Paper, Point, Statement, Study
from armrace.simulation.injection import Injection, InjectionResult, tally_and_strike

_ARMS, _TRIALS = 10, 10
_HORIZONS = (10_000, 100_000)
_DELTAS = (0.2, 0.05)
_LEAST = -12.0
"""Below what any target of mean 0 or more asks for: 3 b(1) + 3 sigma delta_0 is 11.4 at most."""


def _means(form: Form, trial: int) -> tuple[float, ...]:
    return tuple(np.random.default_rng((form.seed, trial)).random(_ARMS).tolist())


def _trials(form: Form, horizon: int, **told: Any) -> list[Injection]:
    """Ten trials: means drawn from U(0, 1), sigma 1, the worst arm as the target."""
    return [
        Injection(
            policy=Ucb(bonus=3.0),
            environment=Gaussian(means=_means(form, trial)),
            horizon=horizon,
            seed=form.seed + trial,
            **told,
        )
        for trial in range(_TRIALS)
    ]


def _published(delta_0: float) -> str:
    return f"delta_0 {delta_0:g}"


def _programmed(delta_0: float) -> str:
    return f"delta_0 {delta_0:g}, as in the program"


def _lines(form: Form, horizon: int) -> list[tuple[str, list[Injection]]]:
    known = [("left alone", _trials(form, horizon, attacked=False))]
    for delta_0 in _DELTAS:
        plays = math.log(horizon / delta_0**2)
        known += [
            (_published(delta_0), _trials(form, horizon, delta_0=delta_0)),
            (
                _programmed(delta_0),
                _trials(form, horizon, delta_0=delta_0, plays=plays, margin=3.0),
            ),
        ]
    return known


def _at(horizon: int) -> Any:
    def points(form: Form) -> list[Point]:
        return [Point(line, each) for line, told in _lines(form, horizon) for each in told]

    return points


def _waits(horizon: int, delta_0: float) -> int:
    """How many rounds of the other arms the attack waits for."""
    return (_ARMS - 1) * math.ceil(math.log(horizon) / delta_0**2)


def _nearly_all(horizon: int, name: Any) -> Any:
    """Judge whether the target gets nearly all plays, at either delta_0."""

    def check(found: Found) -> tuple[bool, str]:
        shares = {d: found.mean(name(d)) for d in _DELTAS}
        shown = " and ".join(f"{share:.1%} with delta_0 = {d:g}" for d, share in shares.items())
        return min(shares.values()) > 0.95, f"{shown} of {horizon:,} rounds"

    return check


def _bounded_by_theory(horizon: int) -> Any:
    """Judge whether the other arms are played no more often than the theorem says."""

    def check(found: Found) -> tuple[bool, str]:
        shown, agrees = [], True
        for delta_0 in _DELTAS:
            most, others = _waits(horizon, delta_0), 1.0 - found.samples[_published(delta_0), None]
            worst = float(others.max()) * horizon
            agrees &= worst <= most + 0.5
            shown.append(f"{worst:,.0f} of {min(most, horizon):,} with delta_0 = {delta_0:g}")
        return agrees, "at most " + " and ".join(shown)

    return check


def _study_of(horizon: int) -> Study:
    late = ", ".join(f"{_waits(horizon, d):,} with delta_0 = {d:g}" for d in _DELTAS)
    return Study(
        f"target-{horizon}",
        f"The target's share of the plays, T = {horizon:,}",
        "Experiments, synthetic data: target arm selection ratio",
        "UCB selects the target arm in nearly all rounds.",
        _at(horizon),
        "round",
        "plays of the target, share of the rounds",
        (
            Statement(
                "the target gets nearly all plays, by the theorem's rule",
                _nearly_all(horizon, _published),
                "The attack strikes an arm after ln T/delta_0^2 plays, so that the other arms get "
                f"that many plays each before: in all {late}.",
            ),
            Statement(
                "the target gets nearly all plays, by the program's rule",
                _nearly_all(horizon, _programmed),
            ),
            Statement(
                "by the theorem's rule, the others get at most (K - 1) ceil(ln T/delta_0^2) plays",
                _bounded_by_theory(horizon),
            ),
            Statement(
                "left alone, it hardly gets any",
                lambda found: (
                    found.mean("left alone") < 0.1, f"{found.mean('left alone'):.2%}",
                ),
            ),
        ),
        value=pl.col("target_pulls") / pl.col("round"),
        setting="Ten Gaussian arms with means from U(0, 1) and sigma 1, the worst as the target, "
        f"UCB with the bonus 3 sigma sqrt(ln t/n), delta 0.05, {_TRIALS} trials.",
        scale="linear",
    )  # fmt: skip


# --- What it costs -------------------------------------------------------------------------------

_KINDS = {
    "any reward": math.inf,
    f"rewards of {_LEAST:g} or more": -_LEAST,
}


def _cost_points(form: Form) -> list[Point]:
    return [
        Point(_cost_line(kind, horizon), each)
        for kind, most in _KINDS.items()
        for horizon in _HORIZONS
        for each in _trials(form, horizon, delta_0=0.2, least=-most)
    ]


def _cost_line(kind: str, horizon: int) -> str:
    return f"{kind}, T = {horizon:,}"


def _grows_slowly(found: Found) -> tuple[bool, str]:
    shown, most = [], 0.0
    for kind in _KINDS:
        short, long = (found.mean(_cost_line(kind, horizon)) for horizon in _HORIZONS)
        most = max(most, long / short)
        shown.append(f"{kind}: {short:,.0f} for {_HORIZONS[0]:,} rounds, {long:,.0f} for ten times")
    return most < 2.0, "; ".join(shown)


def _bound_on_cost(found: Found) -> tuple[bool, str]:
    """Compare with sum (gap to the target + 4 b(1) + 3 sigma delta_0) ln T/delta_0^2, gap 1."""
    first = math.sqrt(2.0 * math.log(math.pi**2 * _ARMS / (3.0 * 0.05)))
    each = (1.0 + 4.0 * first + 0.6) * math.ceil(math.log(_HORIZONS[1]) / 0.04)
    worst = float(found.samples[_cost_line("any reward", _HORIZONS[1]), None].max())
    return worst <= (_ARMS - 1) * each, f"at most {worst:,.0f}; the bound {(_ARMS - 1) * each:,.0f}"


_COST = Study(
    "cost",
    "What it costs",
    "Experiments, synthetic data: attack cost",
    "The cost is sublinear in T.",
    _cost_points,
    "round",
    "mean cost",
    (
        Statement("the cost is sublinear", _grows_slowly),
        Statement("it is below the bound of the theorem", _bound_on_cost),
    ),
    value=pl.col("cost"),
    setting="As above with delta_0 = 0.2. The cost is the sum of the distances "
    "between what was reported and the arm's mean. One report an arm is enough if any reward is "
    f"believed; if none below {_LEAST:g} is, several are needed.",
)

# --- What tickets make of it ---------------------------------------------------------------------


class Ticketed(msgspec.Struct, frozen=True):
    """The same attacker, where feedback is taken with the ticket of a decision, and once."""

    injection: Injection
    replications: int = 1

    def run(self) -> InjectionResult:
        """Play, and report as plays of an arm what a learner does not know as its own."""
        told, injector = self.injection, self.injection.make_injector()
        law = told.environment.law()
        law.place[:] = reward_place(told.seed, 0)
        learner = Learner(
            told.policy, arms=injector.means.size, horizon=told.horizon, seed=told.seed
        )
        table, believed, refused = rewards_between(law, 0, told.horizon), 0, 0
        for number in range(told.horizon):
            decision = learner.decide()
            reward = float(table[number, decision.ticket.arm])
            learner.learn(decision, reward)
            count, forged = tally_and_strike(injector, decision.ticket.arm, reward)
            for name in _forgeries(decision, count):
                try:
                    learner.learn(name, forged)
                    believed += 1
                except ForeignTicket:
                    refused += 1
        columns = {"target_pulls": injector.pulls[injector.target], "injected": believed}
        row = {"round": told.horizon, **columns, "refused": refused, "replication": 0}
        return InjectionResult(pl.DataFrame([row]), 1)


def _forgeries(decision: Decision, count: int) -> list[Decision]:
    """Decisions that were never made, in turns: invented ones, and the last one once more."""
    invented = Ticket(decision.ticket.arm)
    return [
        decision if number % 2 else Decision(decision.number + 1 + number, decision.arm, invented)
        for number in range(count)
    ]


_BELIEVES, _ASKS, _ALONE = "any report is believed", "a ticket is asked for", "left alone"


def _ticket_points(form: Form) -> list[Point]:
    points: dict[str, list[Any]] = {_BELIEVES: [], _ASKS: [], _ALONE: []}
    for trial in range(_TRIALS):
        means = _means(form, trial)
        second = int(np.argsort(means)[-2])
        told = Injection(
            policy=Ucb(bonus=1.5), environment=Bernoulli(means=means), horizon=_HORIZONS[0],
            target=second, sigma=0.5, least=0.0, seed=form.seed + trial,
        )  # fmt: skip
        points[_BELIEVES].append(told)
        points[_ASKS].append(Ticketed(told))
        points[_ALONE].append(msgspec.structs.replace(told, attacked=False))
    return [Point(line, each) for line, told in points.items() for each in told]


def _excluded(found: Found) -> tuple[bool, str]:
    asked, alone = found.samples[_ASKS, None], found.samples[_ALONE, None]
    return bool((asked == alone).all()), (
        f"in each of {asked.size} trials as many plays of the target as without an attack, "
        f"{asked.mean():,.0f} on average"
    )


_TICKETS = Study(
    "tickets",
    "With a ticket for each decision",
    "Not in the paper",
    "Whether the paper discusses defences could not be read.",
    _ticket_points,
    "rows",
    "mean plays of the target",
    (
        Statement(
            "a learner that believes any report is misled",
            lambda found: (
                found.mean(_BELIEVES) > 2 * found.mean(_ALONE),
                f"{found.mean(_BELIEVES):,.0f} plays of the target, {found.mean(_ALONE):,.0f} if "
                "left alone",
            ),
        ),
        Statement("tickets exclude the attack (not the paper's)", _excluded),
    ),
    value=pl.col("target_pulls"),
    setting="Ten Bernoulli arms with means from U(0, 1), so that rewards lie in [0, 1] and the "
    "least that can be reported is 0. The worst arm cannot be promoted by such reports: its mean "
    "less the deviations is below 0, so the second best is the target. UCB with the bonus "
    "1.5 sqrt(ln t/n), 10,000 rounds, delta_0 = 0.2. The learner with tickets is "
    "`armrace.learner.Learner`; the service signs its tickets besides.",
)

ZENG_2025 = Paper(
    "zeng-2025",
    "Zeng, He, Hoffmann, Wang and Zuo (2025), Practical adversarial attacks on stochastic bandits "
    "via fake data injection",
    "The abstract and first page of the arXiv text (2505.21938) and the authors' public program "
    "were read; the theorems are as the program's comments and bounds quote them. Attacks on "
    "Thompson sampling and those that are spread over time are not run.",
    (*(_study_of(horizon) for horizon in _HORIZONS), _COST, _TICKETS),
    notes=(
        "A difference between theorem and program: by the bounds that it quotes, an arm is struck "
        "after `ln T/delta_0^2` plays; in the program of the single injection `delta_0` stands in "
        "the logarithm, `ln(T/delta_0^2)`, and the goal is lower by `3 sigma` in place of "
        "`3 sigma delta_0`. That is the theorem's rule for a `delta_0` of 1, with a few plays "
        "more, which is why it works, and far sooner. The program's learner also has the bonus "
        "`sqrt(ln t/n)`, a third of the one that the rule is made for.",
    ),
)
