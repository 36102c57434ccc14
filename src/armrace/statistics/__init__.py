"""Summaries and intervals: pure functions of numbers."""

from armrace.statistics.summaries import Summary, mean_interval, summarise

__all__ = ["Summary", "mean_interval", "summarise"]
