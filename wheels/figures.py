"""Print a digest of every figure that the catalogue gives, to compare two installations to the bit.

Every policy plays without an attack and against one, every attack plays against one policy, audited
simulations and learners included, and the races that skip rounds play ten million.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

from armrace import ADVERSARIES, POLICIES, simulate
from armrace.errors import InvalidParameter
from armrace.learner import Learner

MEANS = [0.6, 0.5, 0.3]
LONG = 10**7 + 1


def simulated(policy: str, attack: str, horizon: int = 500, **options: Any) -> Any:
    """Return the figures of two runs, as exact numbers."""
    result = simulate(
        policy, MEANS, attack, budget=20, horizon=horizon, replications=2, seed=11, **options
    )
    return result.final.to_dicts(), result.curves.to_dicts()


def decided(policy: str) -> Any:
    """Return what a learner decides, one at a time and in batches, and how probable it was."""
    learner = Learner(policy, 3, horizon=1000, seed=11)
    seen = []
    for time in range(60):
        decision = learner.decide()
        learner.learn(decision, float((7 * time + decision.arm) % 3 == 0))
        seen.append((decision.arm, learner.distribution()))
    batch = learner.decide_many(40)
    learner.learn_many(batch, [float(arm == 1) for arm in batch.arms])
    return seen, learner.distribution()


def tasks() -> Iterator[tuple[str, Callable[[], Any]]]:
    """All that is compared, by name."""
    for policy in POLICIES:
        yield f"{policy}", lambda p=policy: simulated(p, "none")
        yield f"{policy} against swap-best", lambda p=policy: simulated(p, "swap-best")
        yield f"{policy} audited", lambda p=policy: simulated(p, "none", audit=0.05)
        yield f"{policy} learner", lambda p=policy: decided(p)
    for attack in ADVERSARIES:
        yield f"{attack} against ucb1", lambda a=attack: simulated("ucb1", a)
    yield "leaps", lambda: simulated("multi-layer-race", "none", LONG)


def digest(task: Callable[[], Any]) -> str:
    """Return a digest of what a task gives, or its refusal."""
    try:
        found = repr(task())
    except InvalidParameter as refusal:  # such as an attack on two arms
        found = str(refusal)
    return hashlib.sha256(found.encode()).hexdigest()[:16]


if __name__ == "__main__":
    for name, task in tasks():
        print(name, digest(task), flush=True)
