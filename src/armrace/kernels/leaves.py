"""States of one policy side by side: each leaf of the contexts has its own.

The states of all leaves are one state whose arrays have the leaf as their first axis. The state of
a leaf is made of their rows, so that the policy's own functions work on it unchanged.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import overload

from armrace.kernels.compiling import CALLEE_OPTIONS, inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Floats,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    distribution_among,
    leaf_of,
    learn,
)
from armrace.kernels.states import complete_grown, grown_by
from armrace.kernels.streams import Stream


class Leaves(NamedTuple):
    """The states of all leaves, and how many leaves there are."""

    stack: Any
    leaf_count: int


def make_leaves(state: Any, leaves: int) -> Leaves:
    """Give every leaf a copy of a state."""
    return Leaves(_stacked(state, leaves), leaves)


def _stacked(state: Any, leaves: int) -> Any:
    if isinstance(state, np.ndarray):
        return np.repeat(state[np.newaxis], leaves, axis=0)
    if hasattr(state, "_fields"):
        return type(state)(*(_stacked(member, leaves) for member in state))
    return state


def row_of(stack: Any, leaf: int) -> Any:
    """The state of one leaf: views of the arrays' rows."""
    if isinstance(stack, np.ndarray):
        return stack[leaf]
    if hasattr(stack, "_fields"):
        return type(stack)(*(row_of(member, leaf) for member in stack))
    return stack


@overload(row_of, strict=False, jit_options={"forceinline": True, **CALLEE_OPTIONS})  # type: ignore[untyped-decorator]
def _compile_row(stack: Any, leaf: Any) -> Any:
    """Write out the members, over which compiled code cannot loop."""
    if not isinstance(stack, (types.NamedTuple, types.NamedUniTuple)):
        return None
    kinds = zip(stack.fields, stack.types, strict=True)
    members = (_row_of_member(f"stack.{name}", kind) for name, kind in kinds)
    scope = {"State": stack.instance_class, "row_of": row_of, "__name__": __name__}
    exec(f"def row(stack, leaf): return State({', '.join(members)})", scope)
    return scope["row"]


def _row_of_member(member: str, kind: Any) -> str:
    if isinstance(kind, types.Array):
        return f"{member}[leaf]"
    if isinstance(kind, (types.NamedTuple, types.NamedUniTuple)):
        return f"row_of({member}, leaf)"
    return member


@inlined
def state_in(state: Leaves, context: Visitor) -> Any:
    """The state of the leaf that a visitor falls into."""
    return row_of(state.stack, leaf_of(context))


@implement(distribution, Leaves)
def leaves_distribution(state: Leaves, out: Floats, context: Visitor = None) -> None:
    distribution(state_in(state, context), out, context)


@implement(distribution_among, Leaves)
def leaves_distribution_among(
    state: Leaves, eligible: Any, out: Floats, context: Visitor = None
) -> None:
    distribution_among(state_in(state, context), eligible, out, context)


@implement(choose, Leaves)
def leaves_choose(
    state: Leaves, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    return choose(state_in(state, context), stream, eligible, context)


@implement(assign, Leaves)
def leaves_assign(state: Leaves, ticket: Ticket, context: Visitor = None) -> Ticket:
    return assign(state_in(state, context), ticket, context)


@implement(learn, Leaves)
def leaves_learn(state: Leaves, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    learn(state_in(state, context), ticket, reward, context)


@grown_by(Leaves)
def grow_each_leaf(grown: Leaves, old: Leaves) -> None:
    """Complete the grown state of each leaf as that of the policy itself."""
    for leaf in range(grown.leaf_count):
        complete_grown(row_of(old.stack, leaf), row_of(grown.stack, leaf))
