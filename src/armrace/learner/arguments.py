"""Checks of a learner's arguments, which are converted to plain Python types or refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from armrace.errors import ForeignTicket, InvalidParameter
from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import Ticket
from armrace.kernels.live import ticket_fits
from armrace.learner.events import Decision, DecisionBatch
from armrace.limits import Limits, check_number
from armrace.randomness import MAXIMAL_SEED
from armrace.specification import MAXIMAL_HORIZON, is_list

_HORIZON = Limits("expected number of decisions", 1, MAXIMAL_HORIZON)
_SEED = Limits("seed", 0, MAXIMAL_SEED)
_MOST_ARMS = 100_000
_MOST_AT_ONCE = 10_000_000
MOST_TAKEN = 2**60
"""Random numbers that a learner may have taken: far more than it ever will."""
_LARGEST = 2**63
_INTEGERS = (int, np.integer)
TICKET_TYPES = tuple(type(DECISION[name].type().item()) for name in Ticket._fields)
"""The plain types of a ticket's members."""
_NUMBERS = (int, float, np.integer, np.floating)


def check_horizon(horizon: Any) -> int:
    """Return the horizon as a whole number, or refuse it."""
    check_number("horizon", horizon, _HORIZON, whole=True)
    return int(horizon)


def check_seed(seed: Any) -> int:
    """Return the seed as a whole number, or refuse it."""
    check_number("seed", seed, _SEED, whole=True)
    return int(seed)


def check_flag(name: str, flag: Any) -> bool:
    """Return a parameter that is True or False, or refuse it."""
    if not isinstance(flag, (bool, np.bool_)):
        raise InvalidParameter(f"{name} must be true or false; got {flag!r}.")
    return bool(flag)


def check_count(count: Any) -> int:
    """Return a number of decisions as a whole number, or refuse it."""
    check_number("count", count, Limits("decisions", 0, _MOST_AT_ONCE), whole=True)
    return int(count)


def check_taken(taken: Any) -> int:
    """Return how many random numbers have been taken, or refuse it."""
    check_number("taken", taken, Limits("random numbers taken", 0, MOST_TAKEN), whole=True)
    return int(taken)


def check_arms(arms: Any) -> list[str | int]:
    """Return the names of the arms as a list of plain values, or refuse them."""
    if isinstance(arms, _INTEGERS) and not isinstance(arms, bool):
        count = int(arms)
    elif is_list(arms):
        count = len(arms)
    else:
        raise InvalidParameter(f"arms must be a list of names or a number; got {arms!r}.")
    if count < 2:
        raise InvalidParameter(f"arms must name at least 2 arms; got {count}.")
    if count > _MOST_ARMS:
        raise InvalidParameter(f"arms must be at most {_MOST_ARMS}; got {count}.")
    labels: list[str | int] = []
    if not is_list(arms):
        labels.extend(range(count))
    else:
        labels.extend(check_arm(arm) for arm in arms)
    if len(set(labels)) < len(labels):
        raise InvalidParameter("arms must have different names; some are equal.")
    return labels


def check_is_new(label: str | int, others: Sequence[str | int]) -> None:
    """Refuse one more arm if another has its name, or if there are as many as a learner holds."""
    if label in others:
        raise InvalidParameter(f"arm must have a new name; {label!r} is there already.")
    if len(others) >= _MOST_ARMS:
        raise InvalidParameter(f"arms must be at most {_MOST_ARMS}; got {len(others) + 1}.")


def check_arm(arm: Any) -> str | int:
    """Return a name as a plain type that survives JSON, so that a snapshot can be read again."""
    if isinstance(arm, str):
        if not _is_encodable(arm):
            raise InvalidParameter(f"names of arms must be valid Unicode; got {arm!r}.")
        return str.__str__(arm)
    if isinstance(arm, _INTEGERS) and not isinstance(arm, bool) and -_LARGEST <= arm < _LARGEST:
        return int(arm)
    raise InvalidParameter(f"names of arms must be text or whole numbers; got {arm!r}.")


def check_place(arm: Any, place_of: Mapping[Any, int]) -> int:
    """Return the place of an arm among all arms, or refuse its name."""
    if not isinstance(arm, (str, *_INTEGERS)) or arm not in place_of:
        raise InvalidParameter(f"arm must name an arm of this learner; got {arm!r}.")
    return place_of[arm]


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def eligible_places(eligible: Any, place_of: Mapping[Any, int]) -> list[int]:
    """Return the places of the eligible arms among all arms."""
    if isinstance(eligible, str) or not isinstance(eligible, Iterable):
        raise InvalidParameter(f"eligible must be a list of arms; got {eligible!r}.")
    places = []
    for arm in eligible:
        if not isinstance(arm, (str, *_INTEGERS)) or arm not in place_of:
            raise InvalidParameter(f"eligible must name arms of this learner; got {arm!r}.")
        places.append(place_of[arm])
    if not places:
        raise InvalidParameter("eligible must name at least one arm; got none.")
    return places


def check_reward(reward: Any) -> float:
    """Return a reward as a plain float, or refuse it."""
    is_number = isinstance(reward, (bool, np.bool_, *_NUMBERS))
    if not (is_number and 0.0 <= reward <= 1.0):
        raise InvalidParameter(f"reward must be in [0, 1]; got {reward!r}.")
    return float(reward)


def check_rewards(rewards: Any, count: int) -> np.ndarray:
    """Rewards of ``count`` decisions as an array."""
    try:
        given = np.asanyarray(rewards)
    except (TypeError, ValueError):
        raise InvalidParameter("rewards must be numbers in [0, 1].") from None
    # NumPy would read text, drop imaginary parts, and use what a mask hides.
    if given.dtype.kind not in "biuf" or np.ma.is_masked(given):
        raise InvalidParameter("rewards must be numbers in [0, 1].")
    values = np.ascontiguousarray(given, dtype=np.float64)
    if values.shape != (count,):
        raise InvalidParameter(
            f"rewards must be one for each of {count} decisions; got the shape {values.shape}."
        )
    outside = ~((values >= 0.0) & (values <= 1.0))
    if outside.any():
        raise InvalidParameter(f"rewards must be in [0, 1]; got {values[outside][0]:g}.")
    return values


def check_decision(decision: Any, arms: Sequence[str | int]) -> Decision:
    """Return a decision as one of plain types, such as compiled code reads.

    Whether the learner made the decision is found out there.
    """
    try:
        given, arm, ticket = decision
        number, plain = _whole(given), _converted(ticket)
        known = bool(0 <= plain.arm < len(arms) and arms[plain.arm] == arm)
    except (TypeError, ValueError, OverflowError):
        known = False
    if not known:
        raise ForeignTicket(f"no decision of this learner is {decision}.")
    return Decision(number, arms[plain.arm], plain)


def check_batch(batch: Any, arms: Sequence[str | int]) -> np.ndarray:
    """The records of a batch of decisions."""
    if not isinstance(batch, DecisionBatch):
        raise ForeignTicket(f"learn_many takes a batch of decide_many; got {type(batch).__name__}.")
    records = batch.records
    if not isinstance(records, np.ndarray) or records.dtype != DECISION or records.ndim != 1:
        raise ForeignTicket("the records of the batch are no decisions of a learner.")
    if list(batch.labels) != list(arms[: len(batch.labels)]):
        raise ForeignTicket("the batch is of a learner with other arms.")
    return np.ascontiguousarray(records)


def check_ticket(ticket: Any, shape: np.ndarray) -> Ticket:
    """A ticket that can be assigned to a learner of this shape."""
    try:
        converted = _converted(ticket)
        arms, layers, exact = shape.tolist()
        fits = ticket_fits(converted, arms, layers, bool(exact))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ForeignTicket(f"no decision of this learner could have the ticket {ticket}.")
    return converted


def _converted(ticket: Any) -> Ticket:
    """Return a ticket whose members are plain ints and floats, or raise an error."""
    # NaN is never the largest: it is larger than nothing, and the arm comes first.
    if tuple(map(type, ticket)) == TICKET_TYPES and max(map(abs, ticket)) < _LARGEST:
        return ticket if type(ticket) is Ticket else Ticket(*ticket)
    pairs = zip(TICKET_TYPES, ticket, strict=True)
    members: list[Any] = [_whole(value) if kind is int else _number(value) for kind, value in pairs]
    return Ticket(*members)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, _INTEGERS):
        raise TypeError
    if not -_LARGEST <= value < _LARGEST:
        raise OverflowError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise TypeError
    return float(value)
