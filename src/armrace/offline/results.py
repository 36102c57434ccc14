"""What a replay returns: estimates for every policy, as data and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.contexts import Schema
from armrace.errors import DamagedFile, UnknownName
from armrace.files import as_path, check_new, write_text
from armrace.formatting import count, figure, percent, span
from armrace.kernels.replay import (
    ACCEPTED,
    DOUBLY,
    GAIN,
    LEAF_PAID,
    LEAF_ROWS,
    LEAF_WEIGHT,
    LEAF_WEIGHT_SQUARE,
    PAID_SQUARE,
    REPLAYED,
    SQUARES,
    TERMS,
    TOTAL,
    WEIGHT,
    WEIGHT_SQUARE,
    WEIGHTED,
    ReplayTally,
)
from armrace.offline.rows import RowReport
from armrace.reports import Presentation
from armrace.statistics.bounded_means import bernstein_interval
from armrace.statistics.proportions import Interval, Scale

ESTIMATORS = {
    "replay": "rejection replay",
    "ips": "inverse propensity",
    "snips": "self-normalised",
    "dr": "doubly robust",
}
"""The estimators by their short names."""

LEAST_ROWS = 100
_LEAST_REWARDS = 10
_RESAMPLES = 1000
Method = Literal["exact", "bootstrap"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of a policy's mean reward a round."""

    estimator: str
    value: float | None
    """``None`` if no row bears on it."""
    low: float
    high: float
    """The ends of the interval, within the range of rewards."""
    method: Method
    """How the interval was made: ``exact`` holds for any number of rows, ``bootstrap`` for many."""
    rows: float
    """The effective number of rows: as many equally weighted rows are as informative."""
    rewards: float
    """The effective number of rewards that were paid."""
    warning: str = ""
    """Why nothing can be concluded, if so."""

    @property
    def is_enough(self) -> bool:
        """Whether there is enough data to conclude anything."""
        return not self.warning


def estimates_of(
    tallies: Sequence[ReplayTally],
    scale: Scale,
    largest_weight: float,
    level: float,
    weighs: bool,
    generator: np.random.Generator,
) -> list[Estimate]:
    """Return all estimates of a policy from its runs over one log."""
    # Averaged over runs, dependent as they are: Jensen's inequality allows it (docs/decisions/025).
    sums = np.mean([tally.sums for tally in tallies], axis=0)
    accepted = float(np.mean([tally.counts[ACCEPTED] for tally in tallies]))
    found = [
        _exact("replay", sums[REPLAYED], 1.0, 1.0, level, scale, accepted, sums[REPLAYED, TOTAL])
    ]
    if not weighs:
        return found
    moments = np.mean([tally.moments for tally in tallies], axis=0)
    rows = _effective(moments[WEIGHT], moments[WEIGHT_SQUARE])
    rewards = _effective(sums[WEIGHTED, TOTAL], moments[PAID_SQUARE])
    wide = largest_weight + 1.0  # an estimated mean, plus or minus a weighted difference
    # All runs have met the same rows, so that a block is drawn for all of them at once.
    blocks = np.sum([tally.blocks for tally in tallies], axis=0)
    ratio, ends = _self_normalised(blocks, level, generator)
    return [
        *found,
        _exact("ips", sums[WEIGHTED], largest_weight, 1.0, level, scale, rows, rewards),
        _estimate("snips", "bootstrap", ratio, ends, scale, rows, rewards),
        _exact("dr", sums[DOUBLY], wide, wide, level, scale, rows, rewards),
    ]


def leaves_of(
    tallies: Sequence[ReplayTally], schema: Schema, arms: Sequence[str], scale: Scale
) -> list[LeafReplay]:
    """Return what became of each leaf that has rows."""
    sums = np.mean([tally.leaves for tally in tallies], axis=0)
    pulls = np.mean([tally.leaf_pulls for tally in tallies], axis=0)
    found = []
    for name, leaf, played in zip(schema.leaf_names(), sums, pulls, strict=True):
        rows, rounds, favourite = leaf[LEAF_ROWS], float(played.sum()), int(played.argmax())
        if not rows:
            continue
        # Without weights, the accepted rows are all that there is.
        weighed = leaf[LEAF_WEIGHT] > 0.0
        effective = _effective(leaf[LEAF_WEIGHT], leaf[LEAF_WEIGHT_SQUARE]) if weighed else rounds
        found.append(
            LeafReplay(
                leaf=name,
                rows=round(rows),
                logged_mean=scale.reward(float(leaf[LEAF_PAID] / rows)),
                rounds=rounds,
                effective_rows=effective,
                favourite=arms[favourite] if rounds else "",
                share=float(played[favourite] / rounds) if rounds else 0.0,
            )
        )
    return found


def estimate_gain(
    tallies: Sequence[ReplayTally], scale: Scale, largest_weight: float, level: float
) -> tuple[float, Interval]:
    """Return how much more than the logging system a policy earns a round, and its interval."""
    total, squares, terms = np.mean([tally.sums[GAIN] for tally in tallies], axis=0).tolist()
    # A term is a doubly robust one, of at most weight + 1, less a logged reward of at most 1.
    wide = largest_weight + 2.0
    low, high = bernstein_interval(total, squares, terms, wide, wide, level)
    ends = Interval(scale.difference(max(low, -1.0)), scale.difference(min(high, 1.0)))
    return scale.difference(total / terms), ends


def _effective(total: float, squares: float) -> float:
    """Return how many equal terms have this sum and this sum of squares."""
    return float(total**2 / squares) if squares > 0.0 else 0.0


def _exact(
    name: str,
    sums: npt.NDArray[np.float64],
    above: float,
    below: float,
    level: float,
    scale: Scale,
    rows: float,
    rewards: float,
) -> Estimate:
    total, squares, terms = (float(sums[at]) for at in (TOTAL, SQUARES, TERMS))
    ends = bernstein_interval(total, squares, terms, above, below, level)
    value = total / terms if terms else math.nan
    return _estimate(name, "exact", value, ends, scale, rows, float(rewards))


def _self_normalised(
    blocks: npt.NDArray[np.float64], level: float, generator: np.random.Generator
) -> tuple[float, Interval]:
    """Return the ratio of weighted rewards to weights, with a bootstrap over blocks of rows."""
    weights, paid = blocks.sum(axis=0)
    if weights <= 0.0:
        return math.nan, Interval(-math.inf, math.inf)
    count = len(blocks)
    drawn = generator.multinomial(count, np.full(count, 1.0 / count), size=_RESAMPLES)
    resampled = drawn @ blocks
    # A resample may consist of blocks without any weight.
    ratios = resampled[:, 1] / np.maximum(resampled[:, 0], np.finfo(np.float64).tiny)
    low, high = np.quantile(ratios, [level / 2, 1 - level / 2]).tolist()
    return float(paid / weights), Interval(low, high)


def _estimate(
    name: str,
    method: Method,
    value: float,
    ends: Interval,
    scale: Scale,
    rows: float,
    rewards: float,
) -> Estimate:
    """Return an estimate with its interval within the range of rewards."""
    low, high = max(ends.low, 0.0), min(ends.high, 1.0)
    known = math.isfinite(value)
    return Estimate(
        estimator=name,
        value=scale.reward(value) if known else None,
        low=scale.reward(min(low, 1.0)),
        high=scale.reward(max(high, 0.0)),
        method=method,
        rows=float(rows),
        rewards=float(rewards),
        warning=_warning(rows, rewards),
    )


def _warning(rows: float, rewards: float) -> str:
    if rows < LEAST_ROWS:
        return (
            f"not enough data: it rests on the equivalent of {figure(rows)} rows, and nothing can "
            f"be concluded from fewer than {LEAST_ROWS}"
        )
    if rewards < _LEAST_REWARDS:
        return (
            f"not enough data: it rests on the equivalent of {figure(rewards)} rewards that were "
            f"paid, and nothing can be concluded from fewer than {_LEAST_REWARDS}"
        )
    return ""


Conclusion = Literal["better", "worse", "undecided", "not enough data"]
_VERDICTS: dict[Conclusion, str] = {
    "better": "earns more than the log",
    "worse": "earns less than the log",
    "undecided": "cannot be told apart from the log",
    "not enough data": "not enough data to conclude anything",
}
AS_LOGGED = "as logged"


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """How much more a policy earns a round than the system that made the log."""

    value: float
    low: float
    high: float


class AttackOnLog(msgspec.Struct, frozen=True, kw_only=True):
    """An attack that was injected into the rewards that a policy learned."""

    specification: dict[str, Any]
    budget: float
    spent: float
    """The mean over runs of what was charged: the sum over rounds of the largest change."""
    seen: float
    """The mean over runs of the changes to rewards that the policy learned."""
    found_by: str = ""
    """The effort of the search that found the attack, if one did."""


class LeafReplay(msgspec.Struct, frozen=True, kw_only=True):
    """One policy in one leaf of the contexts."""

    leaf: str
    """The segment, such as ``device=ios``."""
    rows: int
    logged_mean: float
    rounds: float
    """Accepted rows, the mean over runs."""
    effective_rows: float
    """As many equally weighted rows bear on what the policy earns here; the mean over runs."""
    favourite: str
    """The arm of most rounds."""
    share: float
    """Its share of the rounds."""

    @property
    def is_enough(self) -> bool:
        """Whether there is enough data to conclude anything about this leaf."""
        return self.effective_rows >= LEAST_ROWS


class PolicyReplay(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on one variant of the log."""

    policy: str
    specification: dict[str, Any]
    form: str
    """``as logged``, ``under`` an attack, or ``without`` a source."""
    rows: int
    logged_mean: float
    """The mean reward of the rows of this variant, as the logging system chose the arms."""
    rounds: float
    """Accepted rows, the mean over runs."""
    acceptance: float
    """The share of the rows that was accepted."""
    horizon: int
    """The number of decisions that the policy planned for."""
    estimates: list[Estimate]
    lowest: float | None
    """The smallest mean reward of a run."""
    highest: float | None
    shares: list[float]
    """The share of the rounds of each arm."""
    gain: Gain | None
    verdict: Conclusion
    attack: AttackOnLog | None = None
    curve: list[tuple[float, float, float]] = []
    """Along the log: rows, rounds, and the mean reward of the rounds so far; means over runs."""
    leaves: list[LeafReplay] = []
    """The leaves that have rows, if the log has features."""

    def estimate(self, estimator: str) -> Estimate:
        """Return the estimate by the short name of its estimator.

        Args:
            estimator: the short name, such as ``dr``.
        """
        known = {each.estimator: each for each in self.estimates}
        if estimator not in known:
            raise UnknownName.among("estimator", estimator, known)
        return known[estimator]

    @property
    def title(self) -> str:
        """The policy, and the variant of the log if it is another one."""
        return self.policy if self.form == AS_LOGGED else f"{self.policy} {self.form}"

    @property
    def words(self) -> str:
        """The verdict in one sentence."""
        name = self.title
        best = self.estimates[-1]
        if self.verdict == "not enough data":
            return f"{name}: {best.warning or _VERDICTS[self.verdict]}."
        if self.gain is None:
            return (
                f"{name}: a mean of {figure(best.value or 0.0)} ({span(best.low, best.high)}) "
                "a round; all estimators are needed to compare it with the log."
            )
        return (
            f"{name}: {_VERDICTS[self.verdict]}; the difference a round is "
            f"{figure(self.gain.value)} ({span(self.gain.low, self.gain.high)})."
        )


class Replay(msgspec.Struct, Presentation, frozen=True, kw_only=True):
    """What policies would have earned on a log."""

    log: str
    columns: dict[str, str]
    rewards: tuple[float, float]
    row_report: RowReport
    arms: list[str]
    rows: int
    logged_mean: float
    arm_rows: list[int]
    arm_means: list[float]
    floor: float
    """Matching rows are accepted with probability floor / propensity."""
    level: float
    replications: int
    seed: int
    policies: list[PolicyReplay]
    warnings: list[str]
    settings: dict[str, Any] = {}
    """The other arguments of the replay, as plain data; what was not given is left out."""

    @property
    def table(self) -> pl.DataFrame:
        """A row for each policy, variant of the log and estimator."""
        rows = [
            {
                "policy": each.policy,
                "form": each.form,
                "rounds": each.rounds,
                "acceptance": each.acceptance,
                "estimator": estimate.estimator,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "method": estimate.method,
                "effective_rows": estimate.rows,
                "effective_rewards": estimate.rewards,
                "enough": estimate.is_enough,
            }
            for each in self.policies
            for estimate in each.estimates
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def find(self, policy: str, form: str = AS_LOGGED) -> PolicyReplay:
        """Return the figures of one policy on one variant of the log.

        Args:
            policy: the name of the policy.
            form: the variant of the log: as it was logged, under an attack, or without a source.
        """
        return next(each for each in self.policies if (each.policy, each.form) == (policy, form))

    def sentences(self) -> list[str]:
        """Say what became of the rows, what the log cannot show, and the verdicts."""
        return [
            *self.row_report.sentences(),
            self.setting(),
            *self.warnings,
            *(each.words for each in self.policies),
        ]

    def setting(self) -> str:
        """Describe the log and the acceptance of its rows."""
        rounds = count(round(self.rows * self.floor))
        runs = "1 run" if self.replications == 1 else f"{count(self.replications)} runs"
        # As one of the rounds, and as one of all rows with the largest weight, 1 / floor.
        moved = (self.rewards[1] - self.rewards[0]) / (self.rows * self.floor)
        return (
            f"{len(self.arms)} arms, {count(self.rows)} rows with a mean reward of "
            f"{figure(self.logged_mean)}; a row is accepted with a probability of "
            f"{percent(self.floor)}, so that a run has about {rounds} "
            f"rounds; {runs} of each policy. A forged reward can move an estimate by "
            f"{figure(moved)}, besides what it teaches the policies."
        )

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for plain, each in zip(data["policies"], self.policies, strict=True):
            plain["words"] = each.words
        return {**data, "estimators": ESTIMATORS, "words": self.sentences()}

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write everything into a file, as JSON.

        Args:
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        check_new(as_path(path), overwrite=overwrite)
        text = msgspec.json.format(msgspec.json.encode(self.to_builtins()), indent=2).decode()
        write_text(as_path(path), text + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote; see :func:`armrace.load`.

        Args:
            path: the file.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFile(f"{path} is not a replay of armrace: {error}.") from None

    def __str__(self) -> str:
        """Return the sentences, one a line."""
        return "\n".join(self.sentences())
