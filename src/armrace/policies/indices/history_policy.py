"""Policies that keep every reward."""

from __future__ import annotations

from typing import ClassVar

from armrace.errors import InvalidParameter
from armrace.policies.common.counting_policy import CountingPolicy

_MOST = 2**31


class HistoryPolicy(CountingPolicy, frozen=True):
    """A counting policy that stores every reward, so that its memory grows with the horizon."""

    loses_arms: ClassVar[bool] = True

    def room(self, horizon: int) -> int:
        """Return how many rewards to make room for; refuse more than memory could hold.

        Args:
            horizon: the number of rounds that are planned.
        """
        if horizon > _MOST:
            raise InvalidParameter(
                f"{self.tag()} keeps all rewards, so horizon must be at most {_MOST}; "
                f"got {horizon}."
            )
        return horizon
