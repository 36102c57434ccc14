"""The base class of policies that keep a state of another policy for each leaf."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec

from armrace.kernels.leaves import row_of
from armrace.policies.base import ArmView
from armrace.policies.common.counts import CountingPolicy


class LeafPolicy(CountingPolicy, frozen=True):
    """A policy that plays each leaf as a problem of its own."""

    family: ClassVar[str] = "contextual"
    reference: ClassVar[str] = "the policy of each leaf, which see"
    takes_contexts: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True

    def inspect(self, state: Any) -> Sequence[ArmView]:
        """Return a view of each arm in each leaf, whose number stands for the layer."""
        return [
            msgspec.structs.replace(view, layer=leaf)
            for leaf in range(state.leaf_count)
            for view in super(LeafPolicy, self).inspect(row_of(state.stack, leaf))
        ]
