"""Snapshots crafted to do harm: each is refused, or gives a learner that works.

Run as a program with a list of policies (JSON), a seed and a number of snapshots for each, it
names every snapshot before it restores it, so that whoever runs it sees which one crashed it.
"""

from __future__ import annotations

import json
import random
import sys

import msgspec
import numpy as np

from armrace.errors import DamagedFile
from armrace.online import Learner

ARMS, HORIZON, DECISIONS, OUTSTANDING, AFTERWARDS = 3, 200, 60, 8, 50

INTEGERS = (-(2**63), -(2**31), -200, -2, -1, 0, 1, 2, 3, 5, 59, 61, 127, 129, 200, 2**20)
INTEGERS += (2**31 - 1, 2**40, 2**62, 2**63 - 1)
FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -1e-9, 0.5, 1.0, 1.5, 2.0, 1e-300, 1e-9)
FLOATS += (60.0, 61.0, 1e9, 1e18, 1e200, -1e200, 1.7e308, -1.7e308, 5e-324)


def busy_learner(policy):
    """A learner in the middle of its work, and the decisions whose rewards are outstanding."""
    luck = random.Random(5)
    learner = Learner(policy, ARMS, HORIZON, seed=7)
    outstanding = []
    for _ in range(DECISIONS):
        decision = learner.decide()
        if len(outstanding) < OUTSTANDING and luck.random() < 0.2:
            outstanding.append(decision)
        else:
            learner.learn(decision, reward_of(decision.arm, luck))
    return learner, outstanding


def reward_of(arm, luck):
    return float(luck.random() < (0.9, 0.5, 0.1)[arm]) if luck.random() < 0.8 else luck.random()


def crafted(snapshot, luck):
    """The snapshot with one array changed, sealed again; and what was done."""
    name = luck.choice(sorted(snapshot.state))
    stored = snapshot.state[name]
    array = np.frombuffer(stored.data, dtype=stored.dtype).reshape(stored.shape).copy()
    how = change(array, luck)
    data = msgspec.structs.replace(stored, data=array.tobytes())
    changed = msgspec.structs.replace(snapshot, state={**snapshot.state, name: data})
    return changed.sealed(), f"{name} {how}"


def change(array, luck):
    """Change some of an array's values; returns how."""
    flat = array.reshape(-1)
    if flat.size == 0:
        return "nothing"
    if flat.dtype == np.bool_:
        flat.view(np.uint8)[luck.randrange(flat.size)] = value = luck.choice([0, 1, 2, 255])
        return f"bit {value}"
    how = luck.randrange(6)
    some = [luck.randrange(flat.size) for _ in range(luck.choice([1, 1, 2, flat.size]))]
    if how == 0:
        flat[:] = flat[np.array(luck.sample(range(flat.size), flat.size))]
        return "permuted"
    if how == 1:
        flat[some] = -flat[some]
        return "negated"
    if how == 2:
        flat[some] += luck.choice([-2, -1, 1, 2])
        return "shifted"
    values = FLOATS if flat.dtype.kind == "f" else INTEGERS
    if flat.dtype.kind == "i":
        limits = np.iinfo(flat.dtype)
        values = [value for value in values if limits.min <= value <= limits.max]
    value = luck.choice(values)
    flat[slice(None) if how == 3 else some] = value
    return f"= {value}"


def works(snapshot, outstanding, luck):
    """Whether it can be restored; whatever can be must work."""
    try:
        learner = Learner.restore(snapshot)
    except DamagedFile:
        return False
    for decision in outstanding[:4]:
        learner.learn(decision, reward_of(decision.arm, luck))
    for _ in range(AFTERWARDS):
        decision = learner.decide()
        assert decision.arm in range(ARMS), decision
        learner.learn(decision, reward_of(decision.arm, luck))
    weights = list(learner.distribution().values())
    assert min(weights) >= 0 and abs(sum(weights) - 1) < 1e-6, weights
    assert learner.decisions == DECISIONS + AFTERWARDS
    learner.inspect()
    learner.audit()
    Learner.restore(learner.snapshot())
    return True


def main(policies, seed, count):
    """Craft ``count`` snapshots of each policy; the last line has the numbers."""
    restored = 0
    for policy in policies:
        learner, outstanding = busy_learner(policy)
        snapshot = learner.snapshot()
        assert works(snapshot, outstanding, random.Random(1))
        for place in range(count):
            luck = random.Random(f"{policy} {seed} {place}")
            changed, how = crafted(snapshot, luck)
            print(json.dumps([policy, place, how]), flush=True)
            restored += works(changed, outstanding, luck)
    print(json.dumps([len(policies) * count, restored]), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
