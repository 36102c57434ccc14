"""A learner whose rewards arrive late, out of order or never, and which is stopped and resumed.

Clicks arrive within 200 decisions; a tenth of the reports is lost. If no report has arrived after
500 decisions, the shop counts no click.
"""

from __future__ import annotations

import heapq
import random

from armrace.learner import Learner
from armrace.policies import RECOMMENDED

ARMS = ["red", "green", "blue"]
RATES = {"red": 0.04, "green": 0.10, "blue": 0.05}
DECISIONS, PATIENCE = 8_000, 500


def main() -> None:
    """Make decisions while rewards of earlier ones arrive."""
    learner = Learner(RECOMMENDED, arms=ARMS, horizon=DECISIONS, seed=7)
    chance = random.Random(3)
    reports: list[tuple[int, int, float]] = []
    """When a report comes, for which decision, and what it says."""
    waiting = {}
    shown = dict.fromkeys(ARMS, 0)
    for now in range(DECISIONS):
        decision = learner.decide()
        shown[decision.arm] += 1
        waiting[decision.number] = decision
        clicked = chance.random() < RATES[decision.arm]
        if clicked and chance.random() < 0.9:
            heapq.heappush(reports, (now + chance.randrange(200), decision.number, 1.0))
        while reports and reports[0][0] <= now:
            _, number, reward = heapq.heappop(reports)
            learner.learn(waiting.pop(number), reward)
        while waiting and (oldest := next(iter(waiting))) <= now - PATIENCE:
            learner.learn(waiting.pop(oldest), 0.0)  # no report in time: no click
        if now == DECISIONS // 2:  # a restart: decisions given out before it stay good
            learner = Learner.restore(learner.snapshot().to_bytes())
    print(f"still waiting for {learner.pending} rewards")
    print(f"shown: {shown}")
    print({arm: round(chance, 2) for arm, chance in learner.distribution().items()})
    print(f"alarm: {learner.audit(level=0.01).alarmed}")


if __name__ == "__main__":
    main()
