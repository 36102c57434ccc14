"""Counts for Prometheus, in its text form."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from armrace.service.keyring import Keyring
from armrace.service.ledger import Ledger

__all__ = ["Metrics"]

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
        """Count an answer.

        Args:
            endpoint: the pattern of its address.
            status: its status.
            seconds: how long it took.
        """
        self._answers[endpoint, status] += 1
        self._seconds += seconds
        self._durations[bisect_left(_BUCKETS, seconds)] += 1

    def count_problem(self, code: str) -> None:
        """Count a refusal by its code; those of the code reward-conflict are alarms."""
        self._problems[code] += 1

    def text(self, ledger: Ledger, keyring: Keyring) -> str:
        """Return all counts, with figures of the state, in the form of Prometheus.

        Args:
            ledger: knows the state.
            keyring: knows whether the keys can be read.
        """
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
        lines += [
            "# TYPE armrace_turns_total counter",
            f"armrace_turns_total {ledger.turns}",
            "# TYPE armrace_log_records gauge",
            f"armrace_log_records {ledger.sequence}",
            "# TYPE armrace_open_decisions gauge",
            f"armrace_open_decisions {ledger.open_decisions}",
            "# TYPE armrace_keys_readable gauge",
            f"armrace_keys_readable {int(keyring.problem is None)}",
        ]
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
