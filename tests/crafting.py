"""Snapshots crafted to do harm: each is refused, or gives a learner that works.

Run as a program with a list of policies (JSON), a seed and a number of snapshots for each, it
names every snapshot before it restores it, so that whoever runs it sees which one crashed it.
"""

import copy
import json
import random
import sys
from contextlib import suppress

import msgspec
import numpy as np

from armrace.audit import watch
from armrace.errors import DamagedFile
from armrace.kernels.generics import assign, choose, decide, distribution, learn
from armrace.kernels.live import BadTicket, fitting
from armrace.kernels.states import lasting_arrays, unsafe_array
from armrace.learner import Learner
from armrace.policies import POLICIES
from armrace.randomness import Purpose, stream_for

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
    array = stored_array(snapshot, name)
    how = change(array, luck)
    return with_array(snapshot, name, array), f"{name} {how}"


def stored_array(snapshot, name):
    """A copy of an array in a snapshot."""
    stored = snapshot.state[name]
    return np.frombuffer(stored.data, dtype=stored.dtype).reshape(stored.shape).copy()


def with_array(snapshot, name, array):
    """The snapshot with another array in place of one, sealed again."""
    data = msgspec.structs.replace(snapshot.state[name], data=array.tobytes())
    return msgspec.structs.replace(snapshot, state={**snapshot.state, name: data}).sealed()


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


def is_restored(snapshot, outstanding, luck):
    """Whether it is restored; a learner that is may decide nonsense or raise, but not crash."""
    try:
        learner = Learner.restore(snapshot)
    except DamagedFile:
        return False
    with suppress(ArithmeticError, ValueError, BadTicket):
        use(learner, outstanding, luck)
    return True


def use(learner, outstanding, luck):
    """Do all that a learner does."""
    for decision in outstanding[:4]:
        learner.learn(decision, reward_of(decision.arm, luck))
    for _ in range(AFTERWARDS):
        decision = learner.decide()
        assert decision.arm in range(ARMS), decision
        learner.learn(decision, reward_of(decision.arm, luck))
    learner.distribution()
    assert learner.decisions == DECISIONS + AFTERWARDS
    learner.inspect()
    learner.audit()
    learner.snapshot()


class Guarded(np.ndarray):
    """An array that refuses negative indices, as compiled code would have to."""

    def __getitem__(self, key):
        self._refuse_negative(key)
        return super().__getitem__(key)

    def __setitem__(self, key, value):
        self._refuse_negative(key)
        super().__setitem__(key, value)

    def _refuse_negative(self, key):
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, (int, np.integer)) and part < 0:
                raise IndexError(f"the index {part} is negative")


def guarded(state):
    """The same state, with every array but those of records guarded."""
    return type(state)(*map(guarded_member, state))


def guarded_member(member):
    if hasattr(member, "_fields"):
        return guarded(member)
    is_plain = isinstance(member, np.ndarray) and member.dtype.names is None
    return member.view(Guarded) if is_plain else member


class Interpreted:
    """A policy in the middle of its work, without a learner: nothing of it is compiled."""

    def __init__(self, description):
        self.policy = POLICIES.make(description)
        self.state, self.fresh = self.start(), self.start()
        stream, luck = stream_for(7, Purpose.LEARNER, replication=0), random.Random(5)
        self.outstanding = []
        for _ in range(DECISIONS):
            ticket = decide(self.state, stream)
            if len(self.outstanding) < OUTSTANDING and luck.random() < 0.2:
                self.outstanding.append(ticket)
            else:
                learn(self.state, ticket, reward_of(ticket.arm, luck))

    def start(self):
        return watch(self.policy.start(ARMS, HORIZON), ARMS, HORIZON)

    def crafted_state(self, luck):
        """A copy of the state with one array changed; and what was done."""
        state = copy.deepcopy(self.state)
        arrays = dict(lasting_arrays(state))
        name = luck.choice(sorted(arrays))
        changed = np.ascontiguousarray(arrays[name])
        how = change(changed, luck)
        arrays[name][...] = changed
        return state, f"{name} {how}"

    def use(self, state, luck):
        """Do all that a learner does with a state, if it is found safe; no index may be wrong."""
        if unsafe_array(state, self.fresh) is not None:
            return
        layers, exact = self.policy.layer_count(ARMS, HORIZON), self.policy.exact_tickets
        watched, stream = guarded(state), stream_for(9, Purpose.LEARNER, replication=0)
        for ticket in self.outstanding[:4]:
            learn(watched, ticket, reward_of(ticket.arm, luck))
        for _ in range(AFTERWARDS):
            ticket = fitting(choose(watched, stream, None), ARMS, layers, exact)
            ticket = fitting(assign(watched, ticket), ARMS, layers, exact)
            learn(watched, ticket, reward_of(ticket.arm, luck))
        distribution(watched, np.zeros(ARMS))


def main(policies, seed, count):
    """Craft ``count`` snapshots of each policy; the last line has the numbers."""
    restored = 0
    for policy in policies:
        learner, outstanding = busy_learner(policy)
        snapshot = learner.snapshot()
        assert is_restored(snapshot, outstanding, random.Random(1))
        for place in range(count):
            luck = random.Random(f"{policy} {seed} {place}")
            changed, how = crafted(snapshot, luck)
            print(json.dumps([policy, place, how]), flush=True)
            restored += is_restored(changed, outstanding, luck)
    print(json.dumps([len(policies) * count, restored]), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
