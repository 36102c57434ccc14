"""Feedback that is randomised on purpose: rewards of 0 and 1 are seen with known probabilities."""

from __future__ import annotations

from typing import Annotated

from armrace.errors import InvalidParameter
from armrace.limits import Limits

SeenAsZero = Annotated[float, Limits("probability that a reward of 0 is seen as 0", 0, 1)]
SeenAsOne = Annotated[float, Limits("probability that a reward of 1 is seen as 1", 0, 1)]


def check_feedback(p00: float, p11: float) -> None:
    """Refuse probabilities with which feedback says nothing about rewards."""
    if p00 + p11 == 1:
        raise InvalidParameter(
            f"p00 and p11 must not add to 1, where feedback says nothing; got {p00:g} and {p11:g}."
        )
