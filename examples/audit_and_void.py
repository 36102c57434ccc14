"""Click bots in a running experiment: the alarm, the suspect, the end of their effect.

The clock is simulated: an hour passes with 500 visitors, of whom a fifth are bots from the
thirteenth hour on.
"""

from __future__ import annotations

import random

import polars

from armrace.service import MemoryStore, Service
from armrace_client.operations import Visit

ARMS = {"red": 0.04, "green": 0.09, "blue": 0.05}
HOUR = 3_600_000


def main() -> None:
    """Play until the audit is alarmed, find the source, and void its visits."""
    now = [0]
    service = Service(MemoryStore(), clock=lambda: now[0])
    service.create("ads", arms=list(ARMS), missing=0, window=1800, horizon=50_000, seed=7)
    visitors = random.Random(1)
    hour, alarms = 0, []
    while not alarms and hour < 48:
        sources = [
            "partner 7" if hour >= 12 and visitors.random() < 0.2 else "web" for _ in range(500)
        ]
        # The source comes with the decision, so that bots which saw another arm are found too.
        made = service.decide_batch("ads", [Visit(source=each) for each in sources]).made()
        for decision, source in zip(made, sources, strict=True):
            is_bot = source == "partner 7"
            if decision.arm == "blue" if is_bot else visitors.random() < ARMS[decision.arm]:
                service.reward(decision, 1.0)
        hour, now[0] = hour + 1, now[0] + HOUR
        alarms = service.audit("ads", level=0.01).alarms
    print(f"alarm after {hour} hours: {alarms[0].words}")
    print(f"shares then: {shares(service)}")
    print(f"suspect: {one_sided_source(service)}")
    ruling = service.void("ads", sources=one_sided_source(service), reason="click farm")
    print(f"{ruling.changed} visits voided; shares now: {shares(service)}")
    print(f"alarm: {service.audit('ads', level=0.01).alarmed}")
    service.close()


def shares(service: Service) -> dict[str, int]:
    """How likely each arm is to be shown next, in per cent."""
    return {each.arm: round(100 * each.probability) for each in service.describe("ads").arms}


def one_sided_source(service: Service) -> str:
    """The source whose rewards are most concentrated on one arm, among those with fifty or more."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        service.export("ads", f"{folder}/ads.parquet")
        rows = polars.read_parquet(f"{folder}/ads.parquet")
    counted = rows.filter(polars.col("reward") > 0).group_by("source", "arm").len()
    summary = counted.group_by("source").agg(
        polars.col("len").sum().alias("all"), polars.col("len").max().alias("most")
    )
    suspects = summary.filter(polars.col("all") >= 50).sort(polars.col("most") / polars.col("all"))
    return str(suspects["source"][-1])


if __name__ == "__main__":
    main()
