"""Snapshots crafted to do harm are refused, or give a learner that works; none crashes."""

import json
import random
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

import crafting
from armrace.errors import ArmraceError, DamagedFile
from armrace.kernels.live import BadTicket
from armrace.learner import Learner
from armrace.policies import POLICIES
from processes import python

INTERPRETED, COMPILED = 12, 60
"""Crafted snapshots of each policy: 12 of each variant here, 60 of each in the other process."""

VARIANTS = [
    *({"name": name} for name in POLICIES),
    {"name": "robust-ucb", "estimator": "catoni"},
    {"name": "robust-ucb", "estimator": "truncated"},
    {"name": "crucb", "estimator": "shorth"},
    {"name": "rucb", "tuned": True},
    {"name": "exp3-plus-plus", "version": "2014"},
    {"name": "barbar", "scale": 1e-3},
    {"name": "sapo", "scale": 0.01},
    {"name": "best-of-all-worlds", "scale": 0.01},
    {"name": "multi-layer-race", "intervals": "kl-mixture", "pool": True},
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values()))
)
def test_a_crafted_state_is_refused_or_works(variant):
    """Interpreted, where an index out of bounds is an error and not a crash."""
    policy = crafting.Interpreted(variant)
    policy.use(policy.state, random.Random(1))
    for place in range(INTERPRETED):
        luck = random.Random(f"{variant} {place}")
        state, how = policy.crafted_state(luck)
        with suppress(ArithmeticError, ValueError, BadTicket):
            try:
                policy.use(state, luck)
            except IndexError as error:
                pytest.fail(f"{how}: {error!r}")


def test_crafted_snapshots_do_not_crash_compiled_code():
    """In a process of its own, so that a crash is seen, and with the snapshot that caused it."""
    policies = ["ucb1", "exp3-plus-plus", "multi-layer-race", "crucb"]
    program = Path(crafting.__file__)
    done = python(program, json.dumps(policies), "1", str(COMPILED))
    last = done.stdout.splitlines()[-1]
    assert done.returncode == 0, f"{last}: {done.stderr[-2000:]}"
    crafted, restored = json.loads(last)
    assert crafted == COMPILED * len(policies)
    assert 0 < restored < crafted


@pytest.fixture(scope="module")
def race():
    return crafting.busy_learner("multi-layer-race")[0].snapshot()


UNFIT = {
    "decisions": (10**15, -1),
    "taken": (2**62, -1),
    "settled": (3, 64, -8),
    "rewarded": (b"",),
    "horizon": (10**6, 0, "200"),
    "arms": ([0, 1], [0, 1, 1], None),
    "seed": (-1,),
    "watch": (False,),
    "policy": ({"name": "ucb1"}, {"name": "multi-layer-race", "delta": 2.0}, {"name": 5}, {}),
    "state": ({},),
    "format": (1, 2),
    "digest": ("\u00e9",),
}
TOGETHER = [
    {"decisions": 10**15, "settled": 10**15, "rewarded": b""},
    {"rewarded": b"", "settled": 56},
    {"rewarded": b"\xff" * 8, "settled": 0},
]


@pytest.mark.parametrize(
    "changes",
    [*TOGETHER, *({name: each} for name, values in UNFIT.items() for each in values)],
    ids=str,
)
def test_counts_and_parameters_that_do_not_fit_are_refused(race, changes):
    changed = msgspec.structs.replace(race, **changes)
    with pytest.raises(ArmraceError) as refused:
        Learner.restore(changed if "digest" in changes else changed.sealed())
    assert str(refused.value).count("\n") == 0


@pytest.mark.parametrize("name", ["decisions", "taken", "settled", "horizon", "seed", "policy"])
def test_numbers_of_any_length_are_refused(race, name):
    plain = json.loads(race.to_json())
    plain[name] = {"name": "ucb1", "layers": 2**70} if name == "policy" else 2**70
    for form in (plain, json.dumps(plain)):
        with pytest.raises(DamagedFile, match="the snapshot has numbers that no learner has"):
            Learner.restore(form)


@pytest.mark.parametrize(
    ("member", "value"), [("dtype", "<i9"), ("dtype", "|O"), ("shape", (1,)), ("data", b"123")]
)
def test_an_array_of_another_make_is_refused(race, member, value):
    array = msgspec.structs.replace(race.state["marks.reached"], **{member: value})
    changed = msgspec.structs.replace(race, state={**race.state, "marks.reached": array})
    with pytest.raises(DamagedFile, match=r"marks.reached does not fit this policy"):
        Learner.restore(changed.sealed())


@pytest.mark.parametrize("key", [None, b"secret"])
def test_what_was_not_written_here_is_refused(race, key):
    """Without the key, or without sealing it again, no change gets through."""
    luck, sealed = random.Random(3), race.sealed(key)
    for _ in range(20):
        changed, _ = crafting.crafted(race, luck)
        for digest in (sealed.digest, changed.digest) if key else (sealed.digest,):
            forged = msgspec.structs.replace(changed, digest=digest)
            if forged.state != race.state:
                with pytest.raises(DamagedFile, match="does not match its digest"):
                    Learner.restore(forged, key=key)
