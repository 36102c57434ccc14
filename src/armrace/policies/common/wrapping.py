"""What policies around another policy have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.kernels.generics import is_restrictable
from armrace.policies.base import Policy


class Wrapper(Policy, frozen=True):
    """A policy whose tickets carry what those of its ``base`` do."""

    @property
    def exact_tickets(self) -> bool:  # type: ignore[override]
        """Whether tickets carry the probability of their arm, as those of the base do."""
        return bool(self.base.exact_tickets)  # type: ignore[attr-defined]

    @property
    def draws_by_weights(self) -> bool:  # type: ignore[override]
        """Whether the base draws arms at random by weights that it knows."""
        return bool(self.base.draws_by_weights)  # type: ignore[attr-defined]


def resolve_base(wrapper: Any) -> Policy:
    """Replace a wrapper's ``base``, however it was given, by the policy; return that."""
    if not isinstance(wrapper.base, (str, Mapping, Policy)):
        raise InvalidParameter(
            f"base must be a policy, its name, or its parameters with a name; got {wrapper.base!r}."
        )
    base: Policy = wrapper.catalogue.make(wrapper.base)
    # The specification itself is frozen.
    msgspec.structs.force_setattr(wrapper, "base", base)
    return base


def require_restrictable(base: Policy) -> None:
    """Refuse a policy that cannot choose among some arms only."""
    if not is_restrictable(base.start(arms=2, horizon=64)):
        raise InvalidParameter(
            f"base must be a policy whose choices can be restricted to some arms; got {base.tag()}."
        )
