"""Summaries, confidence intervals and paired comparisons."""

from armrace.statistics.confidence_sequences import interval_for_all_times
from armrace.statistics.growth import Growth, slope_of_growth
from armrace.statistics.paired import Difference, differences_to, indistinguishable_from
from armrace.statistics.proportions import Interval, binomial_tail, clopper_pearson
from armrace.statistics.summaries import Summary, mean_interval, standard_error, summarise

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
