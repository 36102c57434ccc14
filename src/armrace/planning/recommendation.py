"""The recommendation in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.formatting import clicks, days_in_words, figure, percent, runs_in_words
from armrace.planning.guarantees import (
    COVERED,
    NO_BOUND,
    VACUOUS,
    proven_guarantee,
    proven_loss,
)
from armrace.planning.question import Question
from armrace.simulation.experiment import USUAL_REFRESH, refresh_words
from armrace.statistics import clopper_pearson, indistinguishable_from
from armrace.theory import gaps_of

__all__ = ["recommend"]

Samples = Mapping[str, npt.NDArray[np.float64]]
Row = dict[str, Any]

_ADVICE = (
    "Filter the feedback before the policy sees it, test for longer, or look for larger gaps only."
)


def recommend(question: Question, table: pl.DataFrame, samples: Samples) -> str:
    """Recommend a policy, with the evidence, the alternatives and the limits of the evidence.

    Args:
        question: what was asked.
        table: one row per policy, as in :attr:`Plan.table`.
        samples: the pseudo-regret of each run at the suspected corruption, by policy.
    """
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
