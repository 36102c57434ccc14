"""Paired differences of policies that met the same rewards.

Policies of a comparison share rewards replication by replication, so the differences of two
vary much less than the figures of either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.statistics.summaries import mean_interval

Sample = npt.NDArray[np.float64]


class Difference(NamedTuple):
    """A mean difference and its confidence interval."""

    mean: float
    low: float
    high: float


def differences_to(
    reference: str, samples: Mapping[str, Sample], level: float = 0.05
) -> dict[str, Difference]:
    """Return how much each other sample exceeds the reference's, pair by pair.

    The intervals hold together with probability ``1 - level`` (Bonferroni).

    Args:
        reference: the name of the sample to which others are compared.
        samples: the samples by name, with equal replications at equal places.
        level: the probability with which any interval may miss.
    """
    others = [name for name in samples if name != reference]
    each = level / max(1, len(others))
    return {name: _difference(samples[name] - samples[reference], each) for name in others}


def _difference(gaps: Sample, level: float) -> Difference:
    low, high = mean_interval(gaps, level)
    return Difference(float(gaps.mean()), low, high)


def indistinguishable_from(
    reference: str, samples: Mapping[str, Sample], level: float = 0.05
) -> list[str]:
    """Return the samples whose difference to the reference may be 0, at the joint ``level``.

    Args:
        reference: the name of the sample to which others are compared.
        samples: the samples by name, with equal replications at equal places.
        level: the probability with which any interval may miss.
    """
    found = differences_to(reference, samples, level)
    return [name for name, gap in found.items() if gap.low <= 0.0 <= gap.high]
