"""Sources, units and values of labels, and what sets each apart from the rest."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from armrace.errors import InvalidParameter, UnknownName
from armrace.service.model.settings import RewardScale
from armrace.service.model.visits import DELAY_BINS
from armrace.service.table import DIFFERENCES, Figures, Visits, VisitTable, forget_table, table_of
from armrace.service.work import Session, Work, in_background
from armrace_client.answers import GroupList, GroupView
from armrace_client.operations import ListGroups

_SECONDS = 2.0
"""For so long figures are shown again, so that pages and orders of them agree."""
_MOST_DETAILED = 1000
_MOST_KEPT = 8
_LEAST_PREFIX = 6


@in_background(ListGroups, takes_long=False)
def list_groups(session: Session, asked: ListGroups) -> GroupList:
    """Return groups of visits in some order; none while the log is being read."""
    if asked.by not in ("source", "unit") and not asked.by.startswith("label:"):
        raise InvalidParameter(f"by must be source, unit or label:NAME; got {asked.by!r:.100}.")
    log = session.log_of(asked.name)

    def look(work: Work) -> tuple[Visits, bytes | None, int | None]:
        experiment = work.settled()
        names, leaf = experiment.leaf_names, None
        if asked.leaf is not None:
            if asked.leaf not in names:
                raise UnknownName.among("leaf", asked.leaf[:200], names)
            leaf = names.index(asked.leaf)
        about = Visits(experiment.settings, [*experiment.arms], work.time)
        return about, work.shard.hashed(asked.search or None), leaf

    about, hashed, leaf = session.call(log, look)
    table = table_of(session.engine, log, about.settings)
    # One at a time: a second one would do the same again.
    with table.lock:
        try:
            is_shown = table.catch_up(session)
        except BaseException:
            forget_table(session.engine, log)
            raise
        if not is_shown:
            return GroupList(about.time, table.progress, about.arms, [*table.labels])
        figures = _figures(table, asked, about, leaf)
        found = _found(figures, asked, hashed)
        shown = found[asked.skip : asked.skip + asked.most].tolist()
        scale = about.settings.scale()
        return GroupList(
            table.as_of(about.time),
            1.0,
            about.arms,
            [*table.labels],
            int(table.time.all[0]) if len(table.time.all) else about.time,
            len(found),
            int(figures.visits[found].sum()),
            figures.arm_totals.astype(int).tolist(),
            figures.shown_totals.astype(int).tolist(),
            figures.delay_totals.astype(int).tolist(),
            list(_views(figures, shown, about.arms, scale, len(shown) <= _MOST_DETAILED)),
        )


def _figures(table: VisitTable, asked: ListGroups, about: Visits, leaf: int | None) -> Figures:
    """Return the figures, or those of a moment ago; a window that closes is no change."""
    wanted, now = (asked.by, asked.since, asked.until, leaf), time.monotonic()
    version = table.head, about.time
    made, known, figures = table.kept.pop(wanted, (0.0, None, None))
    if figures is None or (made < now - _SECONDS and known != version):
        made, figures = now, Figures(table, asked.by, about, asked.since, asked.until, leaf)
    while len(table.kept) >= _MOST_KEPT:
        del table.kept[next(iter(table.kept))]
    table.kept[wanted] = made, version, figures
    return figures


def _found(figures: Figures, asked: ListGroups, hashed: bytes | None) -> np.ndarray:
    """Return the groups that are searched for, in order."""
    order = figures.order(asked.sort)
    if not asked.search:
        return order
    text = asked.search.casefold()
    if not isinstance(figures.names, list):  # units, of which the log has keyed hashes alone
        fits = figures.names.beginning_with("" if hashed is None else hashed.hex())
        if len(text) >= _LEAST_PREFIX:
            fits |= figures.names.beginning_with(text)
    elif asked.whole:
        fits = np.array([each == asked.search for each in figures.names], dtype=np.bool_)
    else:
        named = [text in (each or "").casefold() for each in figures.names]
        fits = np.array(named, dtype=np.bool_)
    found: np.ndarray = order[fits[order]]
    return found


def _views(
    figures: Figures, shown: list[int], arms: list[str], scale: RewardScale, detailed: bool
) -> Iterable[GroupView]:
    width = len(arms)
    for at in shown:
        rewarded, where = int(figures.rewarded[at]), int(figures.moved_arm[at])
        held, retracted = int(figures.held[at]), int(figures.retracted[at])
        mean = float(figures.sums[at]) / rewarded if rewarded else None
        differs = figures.differences[:, at]
        yield GroupView(
            figures.names[at],
            int(figures.visits[at]),
            rewarded,
            rewarded - held - retracted,
            held,
            retracted,
            int(figures.voided[at]),
            None if mean is None else scale.low + (scale.high - scale.low) * mean,
            int(figures.first[at]),
            int(figures.last[at]),
            float(figures.difference[at]),
            [DIFFERENCES[way] for way in np.argsort(-differs) if differs[way] > 0],
            float(figures.moved[at]) * (scale.high - scale.low),
            arms[where] if where >= 0 and figures.moved[at] else None,
            figures.arms.of(at, width) if detailed else [],
            figures.shown.of(at, width) if detailed else [],
            figures.delays.of(at, DELAY_BINS) if detailed else [],
        )
