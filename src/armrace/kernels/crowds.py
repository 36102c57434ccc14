"""Visitors that differ: their contexts, and the accounts of what each could have been shown."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Context, ContextShape

Floats = npt.NDArray[np.float64]

BEST, BEST_IN_LEAF, PLAYED = 0, 1, 2
"""Positions in the ledger's ``worth``."""


class Crowd(NamedTuple):
    """The kinds of visitors, one row each, of which every round draws one."""

    vectors: Floats
    leaves: npt.NDArray[np.int64]
    means: Floats
    """The mean reward of each arm."""
    best: Floats
    """The largest of them."""
    best_in_leaf: Floats
    """The mean of the arm that is best on average in the visitor's leaf."""
    of_arms: bool
    """Whether a row of vectors holds one for each arm."""


def make_crowd(vectors: Floats, leaves: npt.NDArray[np.int64], means: Floats) -> Crowd:
    """Make a crowd of equally likely visitors, and find what is best for each and in its leaf.

    Vectors have a row for each kind of visitor, or for each kind and each arm.
    """
    best_in_leaf = np.empty(len(means))
    for leaf in np.unique(leaves):
        members = leaves == leaf
        best_in_leaf[members] = means[members, means[members].mean(axis=0).argmax()]
    return Crowd(
        vectors=np.ascontiguousarray(vectors).reshape(len(vectors), -1),
        leaves=leaves,
        means=np.ascontiguousarray(means),
        best=means.max(axis=1),
        best_in_leaf=best_in_leaf,
        of_arms=vectors.ndim == 3,
    )


@inlined
def context_of(crowd: Crowd, visitor: int) -> Context:
    """What is known about a visitor."""
    return Context(crowd.vectors[visitor], crowd.leaves[visitor])


@inlined
def book_visit(promised: Floats, worth: Floats, crowd: Crowd, visitor: int, arm: int) -> None:
    """Add what the arms were worth to a visitor: each of them, the best ones, the one played."""
    for other in range(promised.size):
        promised[other] += crowd.means[visitor, other]
    worth[BEST] += crowd.best[visitor]
    worth[BEST_IN_LEAF] += crowd.best_in_leaf[visitor]
    worth[PLAYED] += crowd.means[visitor, arm]


@inlined
def book_means(promised: Floats, worth: Floats, means: Floats, column: int, arm: int) -> None:
    """Add what the arms are worth in a round where means move, as :func:`book_visit` does."""
    best = means[0, column]
    for other in range(promised.size):
        promised[other] += means[other, column]
        best = max(best, means[other, column])
    worth[BEST] += best
    worth[PLAYED] += means[arm, column]


def crowd_shape(crowd: Crowd) -> ContextShape:
    """How large the contexts of a crowd are."""
    models = crowd.means.shape[1] if crowd.of_arms else 1
    leaves = int(crowd.leaves.max()) + 1
    return ContextShape(crowd.vectors.shape[1] // models, leaves, crowd.of_arms)
