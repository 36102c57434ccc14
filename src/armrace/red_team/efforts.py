"""How many simulations a search may use, and for what.

Numbers of replications are fixed, never time, so that a search gives the same result on any
machine.
"""

from __future__ import annotations

import msgspec

from armrace.errors import UnknownName

__all__ = ["EFFORTS", "Effort", "find_effort"]


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a search.

    The opening has several rungs: each keeps the best attacks so far and plays some replications
    more of each. Then ``generations`` of an evolution vary the best
    ``parents``. The best ``finalists`` are compared on seeds of their own; the winner is frozen
    and confirmed, next to the best built-in attack, on seeds that took no part.
    """

    rungs: tuple[tuple[int, int], ...]
    """For each rung the number of attacks kept and the replications added of each."""
    parents: int
    children: int
    generations: int
    replications: int
    """Replications of each parent and child in each generation."""
    finalists: int
    selecting: int
    confirming: int

    @property
    def searching(self) -> int:
        """Replications of the opening and of the evolution."""
        opening = sum(kept * added for kept, added in self.rungs)
        return opening + self.generations * (self.parents + self.children) * self.replications

    @property
    def total(self) -> int:
        """All replications: of searching, selecting and confirming."""
        return self.searching + self.finalists * self.selecting + 2 * self.confirming


EFFORTS: dict[str, Effort] = {
    "quick": Effort(
        # Two replications of each attack at first: one alone often drops the best.
        rungs=((56, 2), (16, 4), (6, 8)),
        parents=3,
        children=4,
        generations=3,
        replications=4,
        finalists=3,
        selecting=24,
        confirming=60,
    ),
    "usual": Effort(
        rungs=((96, 2), (40, 4), (16, 10)),
        parents=4,
        children=8,
        generations=6,
        replications=8,
        finalists=5,
        selecting=60,
        confirming=200,
    ),
    "full": Effort(
        rungs=((200, 3), (80, 8), (32, 20)),
        parents=6,
        children=14,
        generations=14,
        replications=14,
        finalists=8,
        selecting=200,
        confirming=1000,
    ),
}


def find_effort(name: str) -> Effort:
    """The effort of this name, or an error that suggests the nearest."""
    if name not in EFFORTS:
        raise UnknownName.among("effort", name, EFFORTS)
    return EFFORTS[name]
