"""Counts for Prometheus, in its text form."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from armrace.service.engine import Engine

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, float("inf"))


class Metrics:
    """What is counted since the process began."""

    def __init__(self) -> None:
        self._answers: Counter[tuple[str, int]] = Counter()
        self._problems: Counter[str] = Counter()
        self._durations = [0] * len(_BUCKETS)
        """How many answers took up to each limit and more than the one before."""
        self._seconds = 0.0

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self._answers[endpoint, status] += 1
        self._seconds += seconds
        self._durations[bisect_left(_BUCKETS, seconds)] += 1

    def count_problem(self, code: str) -> None:
        """Count a refusal by its code; those of the code reward-conflict are alarms."""
        self._problems[code] += 1

    def text(self, engine: Engine) -> str:
        """Return all counts, with figures of the experiments in memory, for Prometheus."""
        loaded = engine.loaded
        lines = ["# TYPE armrace_requests_total counter"]
        lines += [
            f'armrace_requests_total{{endpoint="{endpoint}",status="{status}"}} {count}'
            for (endpoint, status), count in sorted(self._answers.items())
        ]
        lines.append("# TYPE armrace_refusals_total counter")
        lines += [
            f'armrace_refusals_total{{code="{code}"}} {count}'
            for code, count in sorted(self._problems.items())
        ]
        lines += self._histogram()
        figures = {
            "transactions_total counter": engine.transactions,
            "loaded_experiments gauge": len(loaded),
            "open_visits gauge": sum(len(each.experiment.open) for each in loaded),
            "keys_readable gauge": int(engine.keyring.problem is None),
        }
        for named, value in figures.items():
            lines += [f"# TYPE armrace_{named}", f"armrace_{named.split()[0]} {value}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        lines, total = ["# TYPE armrace_request_seconds histogram"], 0
        for bucket, count in zip(_BUCKETS, self._durations, strict=True):
            total += count
            limit = "+Inf" if bucket == float("inf") else f"{bucket:g}"
            lines.append(f'armrace_request_seconds_bucket{{le="{limit}"}} {total}')
        lines.append(f"armrace_request_seconds_sum {self._seconds:.6f}")
        lines.append(f"armrace_request_seconds_count {total}")
        return lines
