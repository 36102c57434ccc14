"""Visitors of a log: their leaves, an environment of them, and predictions of their rewards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.contexts import GRID, LEAST_ROUNDS, MISSING, Category, Number, Schema
from armrace.environments import Visitors
from armrace.errors import InvalidParameter
from armrace.formatting import count, figure, span
from armrace.kernels.compiling import entry
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import call_entry
from armrace.kernels.replay import RowContexts, read_only, usual_reward
from armrace.limits import Limits
from armrace.offline.log import Log, LogRows
from armrace.offline.results import LEAST_ROWS
from armrace.policies.linear.models import Ridge, fit, make_ridge, predicted
from armrace.specification import MAXIMAL_HORIZON
from armrace.statistics.bounded_means import bernstein_interval
from armrace.statistics.proportions import Interval

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cuts = bool | tuple[float, ...]

_MOST_ROWS = 1_000_000
_QUANTILES = ((0.5,), (1 / 3, 2 / 3))
"""Where numbers may be cut."""
HORIZON = Limits("decisions that leaves must carry", 1, MAXIMAL_HORIZON)
_CHANCE = 0.05
"""The probability with which chance may bring in a feature, over all that are tried."""
_SMALL = 0.01
"""A leaf of a smaller share of the rows may be thin, and earns nothing."""


class ChosenLeaves(NamedTuple):
    """A schema with leaves, and what a log says about them."""

    schema: Schema
    horizon: int
    arms: int
    rows: Ints
    """The rows of each leaf."""
    effective: Floats
    """The effective rows that bear on the best arm of each leaf."""
    gain: float
    """How much more a decision earns if each leaf is shown its best arm, not all the same one."""
    interval: Interval
    """Of the gain, from rows that had no part in choosing leaves and arms."""
    nearest: str
    """The feature that tells the fewest leaves apart that the log has rows enough for."""
    needed: float
    """How many rows it needs."""

    @property
    def most(self) -> int:
        """How many leaves the decisions can carry."""
        return self.horizon // (LEAST_ROUNDS * self.arms)

    def sentences(self) -> list[str]:
        """Say what was chosen, and how far it can be trusted."""
        carried = (
            f"{count(self.horizon)} decisions with {self.arms} arms carry {count(self.most)} "
            f"{'leaf' if self.most == 1 else 'leaves'} of {LEAST_ROUNDS} decisions an arm."
        )
        if not self.schema.leaves:
            why = (
                "no feature that they can carry tells visitors apart who are best shown different "
                "arms, beyond what chance explains."
            )
            if self.rows.sum() < self.needed < math.inf:
                why = (
                    f"each needs {LEAST_ROWS} effective rows of the log, and {self.nearest}, which "
                    f"needs least, would have them in {figure(self.needed)} rows."
                )
            return [f"{carried} No leaves are proposed: {why}"]
        met = self.rows > 0
        named = ", ".join(self.schema.leaves)
        return [
            f"{carried} Proposed are {int(met.sum())}, by {named}; the smallest has "
            f"{count(int(self.rows[met].min()))} rows and {figure(self.effective[met].min())} "
            "effective rows.",
            f"On rows that had no part in the choice, the best arm of each leaf earns "
            f"{figure(self.gain)} more a decision than one arm for all "
            f"({span(self.interval.low, self.interval.high)}).",
        ]


def choose_leaves(log: Log, horizon: int, level: float = 0.05) -> ChosenLeaves:
    """Choose leaves that the traffic can carry and that earn something.

    Features are added one by one, each time the one that makes the best arms of leaves earn most,
    as long as that is beyond chance. Every second row is kept out of this: from these rows comes
    the interval of the gain. A partition is carried if the decisions are at least 50 for each arm
    in each leaf that has rows, and 100 effective rows bear on the best arm of each leaf, but for
    leaves of less than a hundredth of the rows.
    """
    if log.schema is None:
        raise InvalidParameter("the log has no features; give it a schema.")
    rows = log.sample(_MOST_ROWS)
    table = _Table(rows, len(log.arms), log.usual_propensity)
    odd = np.arange(rows.arms.size) % 2 == 1
    schema = msgspec.structs.replace(log.schema, leaves={})
    needs = {
        tuple(each.leaves): table.rows_needed(leaves_in(each, rows.codes))
        for each in _extensions(schema, rows.codes)
    }
    ((nearest,), needed) = min(needs.items(), key=lambda each: each[1], default=(("",), 0.0))
    while True:
        tried = []
        for each in _extensions(schema, rows.codes):
            leaf = leaves_in(each, rows.codes)
            if table.carries(leaf, horizon):
                tried.append((*table.cross_gain(leaf, leaves_in(schema, rows.codes), odd), each))
        best = max(tried, key=lambda each: each[0], default=None)
        if best is None or best[0] <= -NormalDist().inv_cdf(_CHANCE / len(tried)) * best[1]:
            break
        schema = best[2]
    leaf = leaves_in(schema, rows.codes)
    gain, interval = table.gain(leaf, odd, level)
    size = schema.shape.leaves
    return ChosenLeaves(
        schema=schema,
        horizon=horizon,
        arms=table.arms,
        rows=np.bincount(leaf, minlength=size),
        effective=table.effective_rows(leaf, size),
        gain=gain,
        interval=interval,
        nearest=nearest,
        needed=needed,
    )


def leaves_in(schema: Schema, codes: npt.NDArray[np.int16]) -> Ints:
    """Return the leaf of each code; numbers are cut on the grid, to which codes are rounded."""
    branches = {}
    for place, (name, feature) in enumerate(schema.features.items()):
        if name not in schema.leaves:
            continue
        column, cuts = codes[:, place].astype(np.int64), schema.leaves[name]
        if isinstance(feature, Category):
            branch, last = column, len(feature.names(schema.missing == "bucket")) - 1
        elif isinstance(cuts, tuple):
            grid = [feature.encode(name, cut, b"") for cut in cuts]
            branch, last = np.searchsorted(grid, column, side="right"), len(cuts) + 1
        else:
            branch, last = (column == GRID).astype(np.int64), 2
        branches[name] = np.where(column == MISSING, last, branch)
    return np.full(len(codes), schema.leaf(branches), dtype=np.int64)


def _extensions(schema: Schema, codes: npt.NDArray[np.int16]) -> Iterator[Schema]:
    """Schemas whose leaves are told apart by one more feature."""
    for place, (name, feature) in enumerate(schema.features.items()):
        if name in schema.leaves:
            continue
        options: list[Cuts] = [True]
        if isinstance(feature, Number):
            options = list(_cuts(feature, codes[:, place]))
        for cuts in options:
            try:
                yield msgspec.structs.replace(schema, leaves={**schema.leaves, name: cuts})
            except InvalidParameter:  # more leaves than a schema may have
                continue


def _cuts(feature: Number, column: npt.NDArray[np.int16]) -> Iterator[tuple[float, ...]]:
    known = column[column != MISSING]
    for quantiles in _QUANTILES:
        places = np.quantile(known, quantiles) / GRID if known.size else np.zeros(0)
        values = ((places + 1.0) / 2.0 * (feature.high - feature.low) + feature.low).tolist()
        cuts = tuple(float(f"{value:.4g}") for value in values)
        if cuts and all(one < other for one, other in itertools.pairwise(cuts)):
            yield cuts


def _are_small(leaf: Ints) -> npt.NDArray[np.bool_]:
    """Whether each leaf has less than a hundredth of the rows."""
    return np.asarray(np.bincount(leaf) < _SMALL * leaf.size)


class _Table:
    """Rows of a log, with the weights that make up for how their arms were chosen."""

    def __init__(self, rows: LogRows, arms: int, floor: float) -> None:
        self.rows, self.arms = rows, arms
        self._weights = 1.0 / np.maximum(rows.propensities, floor)
        self._heaviest = 1.0 / floor

    def carries(self, leaf: Ints, horizon: int) -> bool:
        """Whether the traffic can carry leaves, and the log says something about each."""
        met = np.unique(leaf).size
        return met * self.arms * LEAST_ROUNDS <= horizon and self.rows_needed(leaf) <= leaf.size

    def rows_needed(self, leaf: Ints) -> float:
        """How many rows would be enough for all leaves but small ones."""
        effective = self.effective_rows(leaf, int(leaf.max()) + 1)[~_are_small(leaf)]
        fewest = float(effective.min())
        return leaf.size * LEAST_ROWS / fewest if fewest > 0.0 else math.inf

    def effective_rows(self, leaf: Ints, size: int) -> Floats:
        """The effective rows that bear on the best arm of each leaf."""
        everything = np.ones(leaf.size, dtype=np.bool_)
        chosen, _ = self._best(leaf, everything, size)
        weights = np.where(self.rows.arms == chosen[leaf], self._weights, 0.0)
        total = np.bincount(leaf, weights, size)
        squares = np.bincount(leaf, weights**2, size)
        return np.asarray(total**2 / np.maximum(squares, np.finfo(np.float64).tiny))

    def cross_gain(
        self, leaf: Ints, before: Ints, kept_out: npt.NDArray[np.bool_]
    ) -> tuple[float, float]:
        """What finer leaves earn beyond coarser ones, and the standard error.

        Each half of the rows that are not kept out judges the arms that the other half chose.
        """
        part = np.arange(leaf.size) // 2 % 2 == 0
        halves = (part & ~kept_out, ~part & ~kept_out)
        pairs = (halves, halves[::-1])
        found = np.concatenate([self._advantages(leaf, before, *pair) for pair in pairs])
        return float(found.mean()), float(found.std() / np.sqrt(max(1, found.size)))

    def gain(
        self, leaf: Ints, judging: npt.NDArray[np.bool_], level: float
    ) -> tuple[float, Interval]:
        """What leaves earn beyond one arm for all, with an exact interval from rows kept out."""
        found = self._advantages(leaf, np.zeros_like(leaf), ~judging, judging)
        centre = (np.cumsum(found) - found) / np.arange(1, found.size + 1)
        squares = float(np.square(found - centre.clip(-1.0, 1.0)).sum())
        wide = self._heaviest + 2.0
        ends = bernstein_interval(float(found.sum()), squares, found.size, wide, wide, level)
        return float(found.mean()), Interval(max(ends.low, -1.0), min(ends.high, 1.0))

    def _advantages(
        self,
        leaf: Ints,
        before: Ints,
        choosing: npt.NDArray[np.bool_],
        judging: npt.NDArray[np.bool_],
    ) -> Floats:
        """What the best arms of leaves earn beyond those of coarser leaves: doubly robust terms.

        Some rows choose the arms of both, and predict rewards; there is a term for each other row.
        """
        fine, means = self._best(leaf, choosing, int(leaf.max()) + 1)
        coarse, _ = self._best(before, choosing, int(before.max()) + 1)
        place, shown, paid = leaf[judging], self.rows.arms[judging], self.rows.rewards[judging]
        found = np.zeros(place.size)
        for chosen, sign in ((fine[place], 1.0), (coarse[before[judging]], -1.0)):
            expected = means[place, chosen]
            weights = np.where(shown == chosen, self._weights[judging], 0.0)
            found += sign * (expected + weights * (paid - expected))
        # What is found in a leaf of a few rows is chance, whatever it says.
        found[_are_small(leaf)[place]] = 0.0
        return found

    def _best(self, leaf: Ints, choosing: npt.NDArray[np.bool_], size: int) -> tuple[Ints, Floats]:
        """The best arm of each leaf, and the mean of every arm there."""
        arms, rewards = self.rows.arms[choosing], self.rows.rewards[choosing]
        weights, place = self._weights[choosing], leaf[choosing] * self.arms + arms
        cells = (size, self.arms)
        total = np.bincount(arms, weights, self.arms)
        usual = (np.bincount(arms, weights * rewards, self.arms) + 0.5) / (total + 1.0)
        weight = np.bincount(place, weights, size * self.arms).reshape(cells)
        paid = np.bincount(place, weights * rewards, size * self.arms).reshape(cells)
        # As if each arm had one more row in each leaf, which paid its mean everywhere.
        extra = float(self.arms)
        means = (paid + extra * usual) / (weight + extra)
        return means.argmax(axis=1), means


_MOST_ROWS, _KINDS = 500_000, 4096


class VisitorsOfLog(NamedTuple):
    """An environment made of a log, and how much of what tells its visitors apart is real."""

    environment: Visitors
    kept: float
    """The share of the fitted differences between visitors that other rows confirm."""


def visitors_of(log: Log, kinds: int = _KINDS) -> VisitorsOfLog:
    """Make an environment of the visitors of a log.

    Every n-th row is a kind of visitor, with its vector and leaf. The mean reward of an arm for it
    is the arm's mean and what a ridge regression on vector and leaf adds. A regression also fits
    chance, so what it adds is scaled: by the slope, within [0, 1], of the rewards of every second
    row on what is fitted to the other rows, less a standard error.

    Args:
        log: a log with a schema.
        kinds: how many kinds of visitors there may be.
    """
    if log.schema is None:
        raise InvalidParameter("the log has no features; give it a schema.")
    rows = log.sample(_MOST_ROWS)
    explained = noise = rest = 0.0
    for part in (0, 1):
        for arm, others in _fitted(log, _every_second(rows, part)):
            judged = _every_second(rows, 1 - part, rows.arms == arm)
            added = _columns(log, judged) @ others.slopes
            left = judged.rewards - others.mean
            explained += float(added @ left)
            noise += float(added @ added)
            rest += float(left @ left)
    error = math.sqrt(noise * rest / rows.arms.size)
    kept = min(max((explained - error) / noise, 0.0), 1.0) if noise > 0.0 else 0.0
    shown = log.sample(kinds)
    columns, means = _columns(log, shown), np.empty((shown.arms.size, len(log.arms)))
    for arm, fitted in _fitted(log, rows):
        means[:, arm] = fitted.mean + kept * (columns @ fitted.slopes)
    vectors = log.schema.vectors(shown.codes)
    return VisitorsOfLog(
        Visitors(vectors=vectors, means=means.clip(0.0, 1.0), leaves=shown.leaves), kept
    )


class _Fitted(NamedTuple):
    mean: float
    slopes: Floats


def _every_second(rows: LogRows, part: int, also: npt.NDArray[np.bool_] | bool = True) -> LogRows:
    chosen = (np.arange(rows.arms.size) % 2 == part) & also
    return _chosen(rows, chosen)


def _chosen(rows: LogRows, chosen: npt.NDArray[np.bool_]) -> LogRows:
    return LogRows._make(column[chosen] if column.size else column for column in rows)


def _columns(log: Log, rows: LogRows) -> Floats:
    """The vector of each row, and which leaf it is in."""
    schema = log.schema
    assert schema is not None
    leaves = np.eye(schema.shape.leaves)[rows.leaves]
    return np.hstack([schema.vectors(rows.codes), leaves])


def _fitted(log: Log, rows: LogRows) -> Iterator[tuple[int, _Fitted]]:
    """Fit each arm: its mean, and a ridge regression of the rest."""
    usual = usual_reward(float(rows.rewards.sum()), rows.arms.size)
    for arm in range(len(log.arms)):
        own = _chosen(rows, rows.arms == arm)
        mean = (float(own.rewards.sum()) + usual) / (own.arms.size + 1.0)
        columns = _columns(log, own)
        matrix = columns.T @ columns + np.eye(columns.shape[1])
        slopes = np.linalg.solve(matrix, columns.T @ (own.rewards - mean))
        yield arm, _Fitted(mean, np.asarray(slopes, dtype=np.float64))


class Forecast(NamedTuple):
    """Means of arms, and a ridge model of what each visitor's features add to them."""

    ridge: Ridge
    rows: Floats
    """Rows of each arm so far."""
    paid: Floats
    """The sum of their rewards."""


def make_forecasts(log: Log) -> Callable[[LogRows], RowContexts | None]:
    """Return what turns consecutive rows of a log into their visitors.

    It predicts the reward of every arm for each row's visitor from the rows before it, within
    [0, 1]: the arm's mean, as if one more row had paid the mean of all, and a ridge regression of
    what the features add. Without a schema there is nothing to tell.
    """
    if (schema := log.schema) is None:
        return lambda rows: None
    arms = len(log.arms)
    forecast = Forecast(make_ridge(arms, schema.shape.dimension), np.zeros(arms), np.zeros(arms))

    def visitors(rows: LogRows) -> RowContexts:
        vectors, predictions = schema.vectors(rows.codes), np.empty((rows.arms.size, arms))
        columns = map(read_only, (rows.arms, rows.rewards))
        call_entry(_forecaster(), forecast, vectors, *columns, predictions)
        return RowContexts(vectors, read_only(rows.leaves), predictions)

    return visitors


@cache
def _forecaster() -> Callable[..., None]:
    @entry(fingerprint([fit, predicted]))
    def forecast_each(
        forecast: Forecast,
        vectors: Floats,
        arms: npt.NDArray[np.int64],
        rewards: Floats,
        predictions: Floats,
    ) -> None:
        ridge, rows, paid = forecast.ridge, forecast.rows, forecast.paid
        total, seen = paid.sum(), rows.sum()
        for row in range(arms.size):
            usual, vector, own = usual_reward(total, seen), vectors[row], 0.0
            for arm in range(rows.size):
                mean = (paid[arm] + usual) / (rows[arm] + 1.0)
                own = mean if arm == arms[row] else own
                expected = mean + predicted(ridge, arm, vector)
                predictions[row, arm] = min(max(expected, 0.0), 1.0)
            # The model is of the rest, so that an arm without rows in a corner keeps its mean.
            fit(ridge, arms[row], vector, rewards[row] - own, 1.0)
            rows[arms[row]] += 1.0
            paid[arms[row]] += rewards[row]
            total += rewards[row]
            seen += 1.0

    return forecast_each
