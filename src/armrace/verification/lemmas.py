"""The lemmas: intervals hold, the best arm survives, bad arms are deleted, layers meet little.

All are about the layers that tolerate the corruption that was spent, and hold jointly with
probability ``1 - delta``. A run in which any such layer violates a lemma counts as a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from armrace.theory import observed_corruption
from armrace.verification.cells import ATTACKS, Cell, cells
from armrace.verification.checks import Claim, Judgement, rarely
from armrace.verification.forms import Form
from armrace.verification.guarantees import Subject
from armrace.verification.runs import Books, Runs

FAR = (0.95, 0.05)
CLOSE = (0.55, 0.5, 0.45)
CERTAIN = (1.0, 0.0)
"""Arms whose rewards are known beforehand, so that books show exactly what was forged."""

_SUBSAMPLED = 64.0
_SUBSAMPLED_HORIZON = 4096
_MEASURE = "probability of failure, at most delta"
_ROUNDING = 1e-9

Bools = npt.NDArray[np.bool_]
Failed = Callable[[Cell, Runs, Books, Bools], Bools]
"""From a cell, its runs, their books and the tolerant layers, which runs fail."""


def lemma_claims(subject: Subject, form: Form, seed: int) -> Iterator[Claim]:
    """All lemmas for one race."""
    far = list(cells(subject, FAR, ATTACKS, form.corruption, form.horizon, form.runs, seed))
    close = list(
        cells(subject, CLOSE, ATTACKS, form.close_corruption, form.close_horizon, form.runs, seed)
    )
    names = subject.guarantee
    for cell in close:
        yield _claim(
            "every interval of a tolerant layer holds its arm's mean", cell, _missed, names.survival
        )
    for cell in [*close, *far]:
        yield _claim("no tolerant layer deletes the best arm", cell, _best_deleted, names.survival)
    for cell in far:
        yield _claim(
            "a tolerant layer plays a bad arm at most N(a) times", cell, _overplayed, names.deletion
        )
    if subject.guarantee.subsampled:
        attacks = [attack for attack in ATTACKS if attack != "none"]
        for cell in cells(
            subject, CERTAIN, attacks, _SUBSAMPLED, _SUBSAMPLED_HORIZON, form.sampling_runs, seed
        ):
            if subject.guarantee.allowances is None:
                claim = "a slow layer with a share of 1/C at most meets at most ln(1/delta) + 3"
                yield _claim(claim, cell, _overfed, names.thinning)
            else:
                claim = "a tolerant layer and all slower meet its allowance"
                yield _claim(claim, cell, _overspent, names.thinning)


def _claim(text: str, cell: Cell, failed: Failed, theorem: str) -> Claim:
    delta = cell.subject.delta

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        return rarely(_failures(cell, runs[0], failed), delta, level)

    setting = f"{cell.setting}; delta = {delta:g}"
    return Claim(text, cell.subject.label, setting, _MEASURE, (cell.experiment,), judge, theorem)


def _failures(cell: Cell, runs: Runs, failed: Failed) -> Bools:
    books = runs.books
    assert books is not None  # races can be inspected
    arms, horizon = books.active.shape[2], cell.experiment.horizon
    tolerant = cell.subject.tolerant(cell.policy, arms, horizon, runs.corruption)
    return failed(cell, runs, books, tolerant)


def _means(cell: Cell) -> npt.NDArray[np.float64]:
    return cell.experiment.environment.mean_rewards(1)


def _missed(cell: Cell, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which an interval missed its mean: at the end, or at any time if recorded."""
    means = _means(cell)
    outside = (means < books.lower - _ROUNDING) | (means > books.upper + _ROUNDING)
    failed = (outside & tolerant[:, :, None]).any(axis=(1, 2))
    if runs.missed.size:
        failed |= (runs.missed & tolerant).any(axis=1)
    return np.asarray(failed)


def _best_deleted(cell: Cell, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a tolerant layer lost the best arm.

    Slower layers delete from all faster ones, but they are tolerant too, so they may not either.
    """
    best = int(np.argmax(_means(cell)))
    return np.asarray((~books.active[:, :, best] & tolerant).any(axis=1))


def _overplayed(cell: Cell, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    means, horizon = _means(cell), cell.experiment.horizon
    over = np.zeros(books.pulls.shape, dtype=np.bool_)
    for arm, gap in enumerate(means.max() - means):
        if gap > 0:
            limits = cell.subject.guarantee.plays(cell.policy, gap, means.size, horizon)
            over[:, :, arm] = books.pulls[:, :, arm] > np.array(limits)
    return np.asarray((over & tolerant[:, :, None]).any(axis=(1, 2)))


def _met(cell: Cell, runs: Runs, books: Books) -> npt.NDArray[np.float64]:
    forged = np.abs(books.sums - books.pulls * _means(cell)).sum(axis=2)
    return np.asarray(np.maximum(forged, runs.layer_corruption))


def _overspent(cell: Cell, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a tolerant layer met more corruption than its allowance.

    A layer that also uses the rewards of slower ones meets the sum of what all of them meet.
    """
    allowances, horizon = cell.subject.guarantee.allowances, cell.experiment.horizon
    assert allowances is not None  # else the paper's lemma is tried
    limits = allowances(cell.policy, _means(cell).size, horizon)
    together = np.cumsum(_met(cell, runs, books)[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(((together > limits + _ROUNDING) & tolerant).any(axis=1))


def _overfed(cell: Cell, runs: Runs, books: Books, tolerant: Bools) -> Bools:
    """Find runs in which a layer met more than the sub-sampling lemma allows.

    The corruption is read from the ledger and from the layers' counts, which differ if a layer
    learns from rewards of other layers.

    The paper's lemma is about layers that get a share of at most ``1/C`` of the rounds; each has
    its part of delta.
    """
    met = _met(cell, runs, books)
    arms, horizon = books.active.shape[2], cell.experiment.horizon
    share = cell.subject.guarantee.rule(cell.policy, arms, horizon).share
    slow = tolerant & (share < 1) & (share * runs.corruption[:, None] <= 1 + _ROUNDING)
    count = max(1, int(slow.sum(axis=1).max()))
    delta = cell.subject.delta
    return np.asarray(((met > observed_corruption(delta / count) + _ROUNDING) & slow).any(axis=1))
