"""Arguments of the service and of its clients: returned as plain lists and numbers, or refused.

This module needs nothing of the compiled core, so that clients start fast.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, NamedTuple

from armrace.errors import InvalidParameter
from armrace.service.answers import Decision

__all__ = [
    "RewardItem",
    "check_count",
    "check_decisions",
    "check_list",
    "check_part",
    "check_rewards",
]


class RewardItem(NamedTuple):
    """A reward of several that are said at once."""

    decision: Decision | str
    value: float
    source: str | None = None
    suspicion: float | None = None


def check_list(name: str, members: str, values: Any) -> list[Any]:
    """Return values as a list; refuse text, which would be taken for a list of letters.

    Args:
        name: the name of the parameter, for the message.
        members: what it lists.
        values: what was given.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(f"{name} must be a list of {members}; got {values!r:.100}.")
    return list(values)


def check_part(what: str, name: str) -> str:
    """Return a name that can be a part of an address; refuse dots, which lead elsewhere.

    Args:
        what: what the name is called in the sentence of a refusal.
        name: the name.
    """
    if any(part in (".", "..") for part in name.split("/")):
        raise InvalidParameter(f"{what} must not have . or .. as a part; got {name!r:.100}.")
    return name


def check_decisions(
    decisions: Iterable[Decision | str | int] | Decision | str | int | None,
) -> list[str | int] | None:
    """Return the names or numbers of decisions, of which one may be given by itself.

    Args:
        decisions: what was given; ``None`` for no choice by decisions.
    """
    if decisions is None:
        return None
    if isinstance(decisions, (Decision, str, int)):
        decisions = [decisions]
    listed = check_list("decisions", "decisions", decisions)
    return [each.decision if isinstance(each, Decision) else each for each in listed]


def check_count(count: Any) -> int:
    """Return a number of decisions as a plain whole number, or refuse it.

    Args:
        count: what was given.
    """
    try:
        number = operator.index(count)
    except TypeError:
        number = -1
    if number < 0 or isinstance(count, bool):
        raise InvalidParameter(f"count must be a whole number of at least 0; got {count!r:.100}.")
    return number


def check_rewards(
    rewards: Iterable[tuple[Decision | str, float] | RewardItem],
    source: str | None,
    suspicion: float | None,
) -> list[RewardItem]:
    """Return rewards, each with its source and suspicion, or else with those of all.

    Args:
        rewards: pairs of a decision and its reward, or items.
        source: where rewards come from that do not say it.
        suspicion: how suspicious rewards are that do not say it.
    """
    items = []
    for each in check_list("rewards", "pairs of a decision and its reward", rewards):
        try:
            item = RewardItem(*each)
        except TypeError:
            raise InvalidParameter(
                f"rewards must be pairs of a decision and its reward; got {each!r:.100}."
            ) from None
        own_source = source if item.source is None else item.source
        own_suspicion = suspicion if item.suspicion is None else item.suspicion
        items.append(item._replace(source=own_source, suspicion=own_suspicion))
    return items
