"""Feedback that is flipped by known chance, as randomised response does."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.errors import InvalidParameter
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy


class RandomisedFeedback(CountingPolicy, frozen=True):
    """A policy that undoes randomised response."""

    family: ClassVar[str] = "robust"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Gajane, Urvoy and Kaufmann (2018), Corrupt bandits for preserving local privacy"
    )
    source_kind: ClassVar[str] = "print"

    p00: Annotated[float, Limits("probability that a reward of 0 is seen as 0", 0, 1)] = 0.9
    p11: Annotated[float, Limits("probability that a reward of 1 is seen as 1", 0, 1)] = 0.9

    def validate(self) -> None:
        if self.p00 + self.p11 == 1:
            raise InvalidParameter(
                "p00 and p11 must not add to 1, where feedback says nothing; "
                f"got {self.p00:g} and {self.p11:g}."
            )

    @property
    def falls(self) -> bool:
        """Whether the mean that an arm shows falls as its mean rises."""
        return self.p00 + self.p11 < 1
