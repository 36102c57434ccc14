"""Summaries, confidence intervals and paired comparisons."""

from armrace.statistics.bounded_means import interval_for_all_times
from armrace.statistics.proportions import Interval, binomial_tail, clopper_pearson
from armrace.statistics.summaries import (
    Difference,
    Growth,
    Summary,
    differences_to,
    indistinguishable_from,
    mean_interval,
    slope_of_growth,
    standard_error,
    summarise,
)

__all__ = [
    "Difference",
    "Growth",
    "Interval",
    "Summary",
    "binomial_tail",
    "clopper_pearson",
    "differences_to",
    "indistinguishable_from",
    "interval_for_all_times",
    "mean_interval",
    "slope_of_growth",
    "standard_error",
    "summarise",
]
