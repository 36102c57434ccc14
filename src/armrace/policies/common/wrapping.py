"""What policies around another policy have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.kernels.generics import is_restrictable
from armrace.policies.base import Policy


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
