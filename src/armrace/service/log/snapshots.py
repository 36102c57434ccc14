"""Which snapshots of a log to keep: dense near its end, ever fewer towards its beginning.

A ruling about the past replays the log from the last snapshot before it. The first snapshot in
each of the last four stretches of length ``step``, ``2 step``, ``4 step`` and so on is kept: some
27 for a log of 10^8 records, so that a ruling about the last share ``x`` of a log replays at most
some ``1.7 x`` of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

STEP = 10_000
"""How many records lie between two snapshots at least."""
_PER_LEVEL = 4


def outdated(sizes: Mapping[int, int], budget: int, step: int = STEP) -> list[int]:
    """Return the snapshots that are not to be kept; the latest always is.

    Of each snapshot, the size in bytes is given by its sequence number, in increasing order; all
    may have ``budget`` bytes. The shortest stretch has the length ``step``.

    >>> outdated(dict.fromkeys(range(10, 200, 10), 1), budget=100, step=10)
    [20, 30, 50, 60, 70, 90, 100, 110, 130, 150]
    """
    while len(kept := _kept(list(sizes), step)) > 1 and sum(sizes[each] for each in kept) > budget:
        step *= 2
    return [each for each in sizes if each not in kept]


def _kept(sequences: list[int], step: int) -> Collection[int]:
    last = sequences[-1] if sequences else 0
    kept = {last}
    while sequences and step <= 2 * last:
        firsts: dict[int, int] = {}
        for each in sequences:
            firsts.setdefault(each // step, each)
        kept.update(list(firsts.values())[-_PER_LEVEL:])
        step *= 2
    return kept
