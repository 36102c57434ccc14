"""What is left of a day of bots, after their clicks were retracted or their visits voided.

Run as ``python -m docs.experiments.visits_taken_back [RUNS]``; prints the table of the guide.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any, Literal

from armrace.service import MemoryStore, Service
from armrace_client.answers import DecisionAnswer
from armrace_client.operations import Visit

__all__ = ["POLICIES", "share_of_green"]

POLICIES: dict[str, Any] = {
    "optimistic-log-barrier": "optimistic-log-barrier",
    "thompson": "thompson",
    "sharp-race": {"name": "sharp-race", "most_corruption": 1000},
    "kl-ucb": "kl-ucb",
    "ucb1": "ucb1",
}
_RATES = {"green": 0.09, "blue": 0.07}
_DAY, _BATCH, _BOTS = 86_400_000, 100, 0.4
Remedy = Literal["no bots", "retract", "void"]


def share_of_green(policy: Any, remedy: Remedy, seed: int, visits: int = 20_000) -> float:
    """Return the share of green, the better arm, on the third day.

    On the second day 40% of the visits are bots that click green whenever they see it. At its end
    their clicks are retracted, or their visits voided.

    Args:
        policy: the policy.
        remedy: what is done about the bots.
        seed: the seed of visitors and decisions.
        visits: the number of visits a day.
    """
    rng, now = random.Random(seed), 1_700_000_000_000
    with Service(MemoryStore(), clock=lambda: now) as service:
        service.create("ads", [*_RATES], 0, policy=policy, horizon=3 * visits, seed=seed)
        shown: list[str] = []
        for day in range(3):
            share = _BOTS if day == 1 and remedy != "no bots" else 0.0
            for _ in range(visits // _BATCH):
                bots = [rng.random() < share for _ in range(_BATCH)]
                made = _decide(service, bots)
                shown += [each.arm for each in made] if day == 2 else []
                now += _DAY * _BATCH // visits
                clicks = [
                    (each, 1.0)
                    for each, bot in zip(made, bots, strict=True)
                    if (each.arm == "green" if bot else rng.random() < _RATES[each.arm])
                ]
                service.reward_many(clicks)
            if day == 1 and remedy != "no bots":
                getattr(service, remedy)("ads", sources=["bots"], reason="click farm")
    return shown.count("green") / len(shown)


def _decide(service: Service, bots: Sequence[bool]) -> list[DecisionAnswer]:
    asked = [Visit(source="bots" if bot else None) for bot in bots]
    return service.decide_batch("ads", asked).made()


def main() -> None:
    """Print the least and the largest share of each policy and remedy."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    remedies: tuple[Remedy, ...] = ("no bots", "retract", "void")
    print("| policy |", " | ".join(remedies), "|")
    for name, policy in POLICIES.items():
        cells = []
        for remedy in remedies:
            shares = [share_of_green(policy, remedy, seed) for seed in range(runs)]
            cells.append(f"{min(shares):.2f} to {max(shares):.2f}")
        print(f"| `{name}` |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
