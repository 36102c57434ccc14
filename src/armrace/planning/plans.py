"""Plans: what runs show, what is proven, and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.formatting import clicks, count, days_in_words, figure, percent, runs_in_words
from armrace.planning.contexts import Contexts
from armrace.planning.question import Question
from armrace.policies import Policy
from armrace.policies.base import Guarantee
from armrace.reports import Presentation
from armrace.simulation.experiment import USUAL_REFRESH, checkpoints_for, refresh_words
from armrace.simulation.results import Result
from armrace.statistics import clopper_pearson, indistinguishable_from, summarise
from armrace.theory import gaps_of

REQUIRED = 0.95
"""The share of runs that must end right, and the quantile of the time to a decision."""

NEARLY_ALL = 0.9
"""A policy has decided once an arm gets this share of its plays until the end."""

_LAST_PART_BEGINS = 0.75

Pulls = npt.NDArray[np.int64]
"""Plays so far: replications x checkpoints x arms."""


def reading_points(horizon: int) -> npt.NDArray[np.int64]:
    """The checkpoints up to three quarters of the horizon, and the horizon.

    >>> reading_points(20)
    array([ 1,  2,  3,  4,  6,  7, 10, 13, 20])
    """
    points = checkpoints_for(horizon)
    return np.append(points[points <= _LAST_PART_BEGINS * horizon], horizon)


def ends_right(pulls: Pulls, good: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether more than half of the plays of the last part went to arms that are good enough.

    >>> pulls = np.array([[[0, 4], [1, 9]], [[0, 4], [6, 4]]])
    >>> ends_right(pulls, np.array([False, True])).tolist()
    [True, False]
    """
    last = pulls[:, -1] - pulls[:, -2]
    return np.asarray(2 * last[:, good].sum(axis=1) > last.sum(axis=1))


def decision_rounds(
    pulls: Pulls, points: npt.NDArray[np.int64], good: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the round after which nearly all plays between any two checkpoints went to one arm.

    The arm is the most played one of the last part. If it is good enough, all arms that are good
    enough count together, since the choice among them does not matter. A run without a decision
    has infinity.

    >>> pulls = np.array([[[5, 5], [6, 14], [7, 33]], [[5, 5], [10, 10], [20, 20]]])
    >>> decision_rounds(pulls, np.array([10, 20, 40]), np.array([False, True])).tolist()
    [10.0, inf]
    """
    plays = np.diff(pulls, axis=1, prepend=0)
    starts = np.append(0, points[:-1])
    found = np.full(pulls.shape[0], math.inf)
    for run, each in enumerate(plays):
        favourite = int(np.argmax(each[-1]))
        chosen = good if good[favourite] else np.arange(good.size) == favourite
        settled = each[:, chosen].sum(axis=1) >= NEARLY_ALL * (points - starts)
        if settled[-1]:
            unsettled = np.flatnonzero(~settled)
            found[run] = starts[unsettled[-1] + 1 if unsettled.size else 0]
    return found


def read_run(result: Result, good: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the metrics of one experiment: runs that ended right, regret, time to a decision."""
    points = reading_points(result.horizon)
    rows = result.rows["pulls"].to_numpy().reshape(result.replications, -1, good.size)
    pulls = rows[:, np.isin(checkpoints_for(result.horizon), points)]
    sample = result.sample("pseudo_regret")
    regret = summarise(sample)
    right = ends_right(pulls, good)
    rounds = decision_rounds(pulls, points, good)
    return {
        "attack": str(result.spec["adversary"]["name"]),
        "budget": float(result.spec["budget"]),
        "runs": result.replications,
        "right": int(right.sum()),
        "regret": regret.mean,
        "regret_p95": regret.p95,
        "regret_max": regret.max,
        "decision": _or_none(np.quantile(rounds, 0.5, method="inverted_cdf")),
        "decision_p95": _or_none(np.quantile(rounds, REQUIRED, method="inverted_cdf")),
        "corruption": result.figure("corruption").mean,
        "regrets": sample.tolist(),
    }


def _or_none(rounds: float) -> float | None:
    """None for infinity: too many runs have not decided."""
    return float(rounds) if math.isfinite(rounds) else None


COVERED = "any attack that fixes its answer for every arm before the arm is drawn"
"""Whom the theorems are about: who answers to the drawn arm pays less for the same harm."""


VACUOUS = "more than all that can be lost"
NO_BOUND = "no bound"


def proven_guarantee(
    policy: Policy, means: Sequence[float], horizon: int, corruption: float
) -> Guarantee | None:
    """Return a policy's guarantee; None if there is none below all that can be lost."""
    found = policy.guarantee_at(means, horizon, corruption)
    most = max(gaps_of(means)) * horizon
    return None if found is None or found.pseudo_regret > most * (1 - 1e-9) else found


def proven_loss(policy: Policy, means: Sequence[float], horizon: int, corruption: float) -> str:
    """Say what a policy is proven to lose at most, in rewards.

    >>> from armrace.policies import OptimisticLogBarrier, Thompson
    >>> proven_loss(OptimisticLogBarrier(), [0.6, 0.4], 100_000, 100)
    '733'
    >>> proven_loss(OptimisticLogBarrier(), [0.6, 0.4], 100_000, 10_000)
    'more than all that can be lost'
    >>> proven_loss(Thompson(), [0.6, 0.4], 100_000, 100)
    'no bound'
    """
    found = proven_guarantee(policy, means, horizon, corruption)
    if found is not None:
        return count(round(found.pseudo_regret))
    return VACUOUS if policy.guarantee_at(means, horizon, corruption) else NO_BOUND


Samples = Mapping[str, npt.NDArray[np.float64]]
Row = dict[str, Any]

_ADVICE = (
    "Filter the feedback before the policy sees it, test for longer, or look for larger gaps only."
)


def recommend(question: Question, table: pl.DataFrame, samples: Samples) -> str:
    """Recommend a policy, with the evidence, the alternatives and the limits of the evidence."""
    rows = table.to_dicts()
    stood = _proven_first(question, [row for row in rows if _stands(row, question)], samples)
    if stood:
        choice = f"{_choice(question, stood[0])} {_proven_for(question, stood[0])}".rstrip()
        rivals = " ".join(
            filter(None, (_rivals(stood, samples), _cheaper(question, stood, samples)))
        )
    else:
        choice, rivals = _none_stands(question, rows), ""
    paragraphs = (
        (choice,),
        (rivals, _cheapest(question, rows, stood)),
        (_unfit(question, rows), _what_attacks_see(question)),
        (_worth(question), _others_proven(rows, stood[0] if stood else None)),
    )
    joined = (" ".join(part for part in parts if part) for parts in paragraphs)
    return "\n\n".join(paragraph for paragraph in joined if paragraph)


def _suspicion(question: Question) -> str:
    """The suspected corruption, as C and as a share."""
    return f"C = {figure(question.suspected)} ({percent(question.forged)} of all rounds forged)"


def _stands(row: Row, question: Question) -> bool:
    """Return whether a policy survives the suspected corruption."""
    return row["survives"] is not None and row["survives"] >= question.suspected


def _proven_first(question: Question, stood: list[Row], samples: Samples) -> list[Row]:
    """Move to the front the first policy that is proven to withstand corruption.

    It must cost as little as the cheapest, up to chance. Simulations try some attacks, a theorem
    is about all of them.
    """
    if not stood or not question.suspected:
        return stood
    close = {stood[0]["policy"], *_tied(stood, samples)}
    proven = [row for row in stood if row["policy"] in close and _has_bound(question, row)]
    first = proven[:1] or stood[:1]
    return first + [row for row in stood if row is not first[0]]


def _has_bound(question: Question, row: Row) -> bool:
    """Whether a theorem on the policy says something under the suspected corruption."""
    policy = question.learners()[row["policy"]]
    found = proven_guarantee(policy, question.means, question.horizon, question.suspected)
    return found is not None


def _proven_for(question: Question, row: Row) -> str:
    """Say what is proven about a choice in this setting, against attacks of any kind."""
    policy, name = question.learners()[row["policy"]], row["policy"]
    setting = question.means, question.horizon, question.suspected
    found = proven_guarantee(policy, *setting)
    if found is not None:
        how = f"with probability {percent(1 - found.failure)}" if found.failure else "on average"
        most = figure(max(gaps_of(question.means)) * question.horizon)
        return (
            f"Proven for {name} at C = {figure(question.suspected)}, under {COVERED}: it loses at "
            f"most {proven_loss(policy, *setting)} {how}, of {most} that can be lost."
        )
    if not question.suspected:
        return ""
    if policy.guarantee_at(*setting) is not None:
        said = f"What is proven for {name} at this C is {VACUOUS}"
    else:
        said = f"Nothing is proven for {name} under this corruption"
    return f"{said}: search for its worst attack with armrace redteam before you rely on it."


def _cheaper(question: Question, stood: list[Row], samples: Samples) -> str:
    """Name the cheaper policies, all without a bound, that a proven one was preferred to."""
    if not question.suspected or not _has_bound(question, stood[0]):
        return ""
    by_cost = sorted(stood, key=lambda row: float(row["suspected_cost_a_day"]))
    before = by_cost[: by_cost.index(stood[0])]
    close = {by_cost[0]["policy"], *_tied(by_cost, samples)}
    cheaper = [row["policy"] for row in before if row["policy"] in close]
    if not cheaper:
        return ""
    verb = "was" if len(cheaper) == 1 else "were"
    return (
        f"{' and '.join(cheaper)} {verb} cheaper here within chance, but no bound is proven that "
        "says anything here."
    )


def _choice(question: Question, row: Row) -> str:
    """Recommend a policy, with what it costs and survives."""
    quiet = (
        f"Without attack it costs {clicks(row['cost_a_day'])} a day"
        f"{_decided(row['decision_days'])}."
    )
    name = f"{row['policy']}{_given(question, row)}"
    if not question.suspected:
        return (
            f"Take {name}: {runs_in_words(row['right'], row['runs'])} ended right "
            f"({_confidence(row['right'], row['runs'])}). {quiet}"
        )
    return (
        f"Take {name}: with {_suspicion(question)}, "
        f"{runs_in_words(row['suspected_right'], row['runs'])} ended right under each attack "
        f"({_confidence(row['suspected_right'], row['runs'])}). "
        f"The costliest, {row['suspected_attack']}, took {clicks(row['suspected_cost_a_day'])} a "
        f"day on average; the worst run of all lost {clicks(row['suspected_worst_a_day'])} a day"
        f"{_decided(row['suspected_decision_days'])}. {quiet} {_reach(row)}"
    )


def _given(question: Question, row: Row) -> str:
    """Name the parameters of a policy that it would not have by its name alone."""
    policy = question.learners()[row["policy"]]
    usual = question.informed(policy.identifier()).to_builtins()
    own = {k: v for k, v in policy.to_builtins().items() if usual.get(k) != v}
    words = ", ".join(f"{name} {value}" for name, value in own.items())
    return f" ({words})" if words else ""


def _decided(days: float | None) -> str:
    """Say when most runs had decided."""
    if days is None:
        return ", and fewer than 95% of the runs came to a decision"
    return f", and 95% of the runs had decided after {days_in_words(days)}"


def _reach(row: Row) -> str:
    """Say how much corruption a policy survives, and what it is lost to."""
    words = f"It survives up to C = {figure(row['survives'])}"
    if row["lost_at"] is None:
        return f"{words}, the most that was tried."
    return f"{words} and is lost at {figure(row['lost_at'])}, to {row['lost_to']}."


def _rivals(stood: list[Row], samples: Samples) -> str:
    """The other policies that survive, and whether their cost differs by more than chance."""
    if len(stood) < 2:
        return "No other policy here survives as much."
    tied = _tied(stood, samples)
    others = "; ".join(
        f"{row['policy']} for {clicks(row['suspected_cost_a_day'])} a day"
        + (" (within chance)" if row["policy"] in tied else "")
        for row in stood[1:]
    )
    return f"Others survive it too: {others}."


def _tied(stood: list[Row], samples: Samples) -> list[str]:
    """Return the policies whose cost differs from the first one's by no more than chance."""
    names = [row["policy"] for row in stood]
    if stood[0]["runs"] < 2:
        return names[1:]
    return indistinguishable_from(names[0], {name: samples[name] for name in names})


def _none_stands(question: Question, rows: list[Row]) -> str:
    """Say that no policy survives the suspected corruption, and which one comes nearest."""
    if all(row["survives"] is None for row in rows):
        return (
            f"No policy here can be recommended: none settles on the right arm in time. {_ADVICE}"
        )
    able = [row for row in rows if row["survives"]]
    if not able:
        return f"No policy here survives {_suspicion(question)}, nor any smaller budget. {_ADVICE}"
    best = max(able, key=lambda row: float(row["survives"]))
    reach = best["survives"]
    return (
        f"No policy here survives {_suspicion(question)}. {best['policy']} comes furthest, up to "
        f"C = {figure(reach)} ({percent(reach / question.horizon)} of all rounds). {_ADVICE}"
    )


def _cheapest(question: Question, rows: list[Row], stood: list[Row]) -> str:
    """The policy that is cheapest without attack: the price of robustness."""
    right = [row for row in rows if row["survives"] is not None]
    if not right or not question.suspected:
        return ""
    best = min(right, key=lambda row: float(row["cost"]))
    if stood and best["policy"] == stood[0]["policy"]:
        return ""
    fate = f", but is lost at C = {figure(best['lost_at'])}" if best["lost_at"] else ""
    return (
        f"Without attack {best['policy']} is cheapest, with {clicks(best['cost_a_day'])} a day"
        f"{fate}."
    )


def _unfit(question: Question, rows: list[Row]) -> str:
    """Name the policies that do not settle in time."""
    slow = [row["policy"] for row in rows if row["survives"] is None]
    if not slow:
        return ""
    return (
        f"Too slow for {days_in_words(question.days_of(question.horizon))}, since they do not "
        f"settle on the right arm even without attack: {', '.join(slow)}."
    )


def _what_attacks_see(question: Question) -> str:
    """Say that attacks see costly distributions as they were some plays ago."""
    looks = any(attack.sees_weights for attack in question.attacks)
    if not looks and not question.worst_attacks:
        return ""
    costly = [name for name, each in question.learners().items() if not each.exact_tickets]
    return refresh_words(costly, USUAL_REFRESH)


def _worth(question: Question) -> str:
    """Say what the evidence rests on."""
    length = f"{figure(question.horizon)} decisions"
    if question.is_cut:
        part = question.days_of(question.horizon)
        length += f", {days_in_words(part)} of the {days_in_words(question.days)} asked for"
    plural = "runs" if question.replications > 1 else "run"
    attacks = ", ".join(each.tag() for each in question.attacks)
    if question.worst_attacks:
        attacks += (
            f" and, for each policy, up to {question.worst_attacks} of the worst attacks that "
            "searches have found in similar settings"
        )
    return (
        f"This rests on {question.replications} simulated {plural} of {length}, under {attacks}: "
        "evidence about these attacks, no guarantee against others."
    )


def _others_proven(rows: list[Row], choice: Row | None) -> str:
    """Say what is proven for the policies that are not recommended."""
    others = [row for row in rows if row is not choice and row["proven"] != NO_BOUND]
    if not others:
        return ""
    said = "; ".join(f"{row['policy']} {row['proven']}" for row in others)
    return f"Proven loss of the others at this C, at most: {said}."


def _confidence(right: int, runs: int) -> str:
    """Return how likely a right end is at least, given the runs that ended right."""
    least = percent(clopper_pearson(right, runs).low)
    return f"with 95% confidence a probability of at least {least}"


_SCHEMA: dict[str, type[pl.DataType]] = {
    "policy": pl.String,
    "runs": pl.Int64,
    "right": pl.Int64,
    "cost": pl.Float64,
    "cost_a_day": pl.Float64,
    "decision_days": pl.Float64,
    "survives": pl.Float64,
    "lost_at": pl.Float64,
    "lost_to": pl.String,
    "suspected_right": pl.Int64,
    "suspected_cost": pl.Float64,
    "suspected_cost_a_day": pl.Float64,
    "suspected_worst_a_day": pl.Float64,
    "suspected_attack": pl.String,
    "suspected_decision_days": pl.Float64,
    "proven": pl.String,
}


class Plan(Presentation):
    """The answer to a question about policies and corruption.

    ``cells`` holds one row for each policy, attack and budget that was tried; ``table`` one row
    per policy.

    Args:
        question: what was asked.
        cells: what was found, in the columns of ``cells``.
        contexts: what contexts are worth, where visitors of a log were asked about.
    """

    def __init__(
        self, question: Question, cells: pl.DataFrame, contexts: Contexts | None = None
    ) -> None:
        self.question = question
        self.cells = cells
        self.contexts = contexts

    @cached_property
    def table(self) -> pl.DataFrame:
        """One row per policy; policies that survive the suspected corruption first, by cost.

        ``survives`` is the largest budget tried at which, as at all smaller ones, the policy
        ended right in 95% of the runs under every attack; 0 if it did so without attack only,
        and null if it failed even then. ``lost_at`` is the smallest budget at which it failed.
        Costs are mean pseudo-regrets; ``decision_days`` are the days after which 95% of the runs
        had decided. Columns that begin with ``suspected`` are at the suspected corruption, under
        the attack that is worst for the column. ``proven`` is what the policy
        is proven to lose at most there; see :func:`armrace.planning.plans.proven_loss`.
        """
        rows = [self._row(name) for name in self.question.learners()]
        return (
            pl.DataFrame(rows, schema=_SCHEMA)
            .with_columns(stands=pl.col("survives") >= self.question.suspected)
            .sort(
                pl.col("stands").fill_null(False),
                pl.when("stands").then(0.0).otherwise(pl.col("survives").fill_null(-1.0)),
                -pl.col("suspected_cost").fill_null(float("inf")),
                -pl.col("cost"),
                descending=True,
                maintain_order=True,
            )
            .drop("stands")
        )

    @cached_property
    def recommendation(self) -> str:
        """The recommended policy, with reasons, costs and the limits of the evidence, in words."""
        return recommend(self.question, self.table, self.samples())

    def samples(self) -> dict[str, Any]:
        """The pseudo-regret of each run at the suspected corruption, under the costliest attack."""
        worst = self._suspected().sort("regret", descending=True).unique("policy", keep="first")
        return {row["policy"]: np.array(row["regrets"]) for row in worst.iter_rows(named=True)}

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        question = self.question.to_builtins()
        del question["name"]
        return {
            "question": question,
            "horizon": self.question.horizon,
            "suspected_corruption": self.question.suspected,
            "recommendation": self.recommendation,
            "table": self.table.to_dicts(),
            "figures": self.cells.drop("regrets").to_dicts(),
            "contexts": msgspec.to_builtins(self.contexts),
        }

    def _suspected(self) -> pl.DataFrame:
        return self.cells.filter(pl.col("budget") == self.question.suspected)

    def _row(self, name: str) -> dict[str, Any]:
        asked, learner = self.question, self.question.learners()[name]
        own = self.cells.filter(pl.col("policy") == name)
        quiet = own.filter(pl.col("budget") == 0).row(0, named=True)
        a_day = asked.traffic / asked.horizon
        return {
            "policy": name,
            "runs": quiet["runs"],
            "right": quiet["right"],
            "cost": quiet["regret"],
            "cost_a_day": quiet["regret"] * a_day,
            "decision_days": self._days(quiet["decision_p95"]),
            **_survival(own),
            **self._under_suspicion(own, a_day),
            "proven": proven_loss(learner, asked.means, asked.horizon, asked.suspected),
        }

    def _days(self, rounds: float | None) -> float | None:
        return None if rounds is None else self.question.days_of(rounds)

    def _under_suspicion(self, own: pl.DataFrame, a_day: float) -> dict[str, Any]:
        """The columns at the suspected corruption; none for a policy that was not tried there."""
        tried = own.filter(pl.col("budget") == self.question.suspected)
        if tried.is_empty():
            return {}
        rows = tried.to_dicts()
        costliest = max(rows, key=lambda row: float(row["regret"]))
        rounds = [row["decision_p95"] for row in rows]
        return {
            "suspected_right": min(row["right"] for row in rows),
            "suspected_cost": costliest["regret"],
            "suspected_cost_a_day": costliest["regret"] * a_day,
            "suspected_worst_a_day": max(row["regret_max"] for row in rows) * a_day,
            "suspected_attack": costliest["attack"],
            "suspected_decision_days": None if None in rounds else self._days(max(rounds)),
        }


def _survival(own: pl.DataFrame) -> dict[str, Any]:
    """The largest budget that a policy survived, and the budget and attack that defeated it."""
    lost = own.filter(pl.col("right") < REQUIRED * pl.col("runs")).sort("budget", "right")
    if lost.is_empty():
        return {"survives": own["budget"].max()}
    first = lost.row(0, named=True)
    below = own.filter(pl.col("budget") < first["budget"])["budget"].max()
    return {"survives": below, "lost_at": first["budget"], "lost_to": first["attack"]}
