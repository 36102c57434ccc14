"""Summaries, intervals and paired comparisons: pure functions of numbers."""

from armrace.statistics.paired import Difference, differences_to, indistinguishable_from
from armrace.statistics.summaries import Summary, mean_interval, standard_error, summarise

__all__ = [
    "Difference",
    "Summary",
    "differences_to",
    "indistinguishable_from",
    "mean_interval",
    "standard_error",
    "summarise",
]
