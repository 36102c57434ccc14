"""Bots forge the rewards of one segment: the alarm names it, and a void restores it.

A shop shows one of two banners. On Android the second one is the better, elsewhere the first.
From the second day on, a source buys nothing and clicks on the first banner, from Android alone.
``python -m docs.experiments.segment_attack`` prints what the service says before and after its
visits are voided.
"""

from __future__ import annotations

import numpy as np

from armrace.service import MemoryStore, Service
from armrace_client.answers import ExperimentView
from armrace_client.operations import Visit

DEVICES = ("ios", "android", "desktop")
BANNERS = ("sale", "news")
RATES = {"ios": (0.6, 0.4), "android": (0.35, 0.6), "desktop": (0.5, 0.3)}
SOURCES = ("search", "mail", "partners")
BOTS = "cheap-clicks"
HOUR = 3_600_000
_FIRST = 1_767_225_600_000
_VISITS, _FORGED = 120, 40
_ATTACK = 30
"""The hour from which on bots come."""


class Shop:
    """A service whose clock the shop moves, and honest visitors of an hour after the other."""

    def __init__(self, seed: int = 8) -> None:
        self.now = _FIRST
        self.hour = 0
        self.service = Service(MemoryStore(), clock=lambda: self.now)
        self._rng = np.random.default_rng(seed)
        self.service.create(
            "banners",
            list(BANNERS),
            "drop",
            policy="leaf-barrier",
            horizon=20_000,
            window=600,
            seed=seed,
            context={"device": {"type": "category", "values": list(DEVICES)}},
            leaves={"device": True},
        )

    def open(self, hours: int) -> None:
        """Serve visitors, and bots among them once they have come."""
        for _ in range(hours):
            self._serve(_VISITS, is_forged=False)
            if self.hour >= _ATTACK:
                self._serve(_FORGED, is_forged=True)
            self.hour += 1
            self.now += HOUR

    def _serve(self, count: int, is_forged: bool) -> None:
        rng = self._rng
        devices = ["android" if is_forged else DEVICES[rng.integers(3)] for _ in range(count)]
        sources = [BOTS if is_forged else SOURCES[rng.integers(3)] for _ in range(count)]
        visits = [
            Visit(source=source, context={"device": device})
            for source, device in zip(sources, devices, strict=True)
        ]
        made = self.service.decide_batch("banners", visits).made()
        rewards = []
        for decision, device in zip(made, devices, strict=True):
            place = BANNERS.index(decision.arm)
            paid = place == 0 if is_forged else rng.random() < RATES[device][place]
            rewards.append((decision, float(paid)))
        self.service.reward_many(rewards)


def table(view: ExperimentView) -> str:
    """Return how often each banner will be shown in each segment, and its mean reward."""
    lines = ["| segment | " + " | ".join(BANNERS) + " |", "|---|" + "---:|" * len(BANNERS)]
    for leaf in view.leaves:
        cells = [f"{100 * (a.probability or 0):.1f}% ({a.mean:.2f})" for a in leaf.arms]
        lines.append(f"| `{leaf.leaf}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Print the state before the attack, during it, and without it."""
    shop = Shop()
    shop.open(_ATTACK)
    print(f"Before:\n\n{table(shop.service.describe('banners'))}\n")
    shop.open(20)
    print(f"After 20 hours of forged clicks:\n\n{table(shop.service.describe('banners'))}\n")
    for alarm in shop.service.audit("banners").alarms:
        print(f"- {alarm.words}")
    answer = shop.service.void("banners", sources=[BOTS], reason="clicks on everything")
    print(f"\nWithout the {answer.visits} visits of {BOTS}:\n")
    print(table(shop.service.describe("banners")))
    print(f"\n{shop.service.audit('banners')}")
    shop.service.close()


if __name__ == "__main__":
    main()
