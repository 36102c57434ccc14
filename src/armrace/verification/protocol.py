"""Checks of the simulator itself: what an attack is told, what it is charged, and all accounts.

The compiled engine plays to a random round. From there it and the reference, which is plain Python,
play the same rounds with the same random numbers, and every account and every state must agree.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec
import numpy as np

from armrace.adversaries import Adversary, Setting
from armrace.formatting import count
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt, observe
from armrace.kernels.laws import CHUNK, rewards_between
from armrace.kernels.states import lasting_arrays
from armrace.kernels.streams import Stream, tell, uniform
from armrace.policies import Policy
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.reference import play_reference
from armrace.simulation.replication import Parts
from armrace.statistics import Interval
from armrace.verification.claims import Claim, Judgement, Preset, describe_means, windows
from armrace.verification.runs import Runs, play_rounds, witnessed_parts

_MEANS = (0.6, 0.5, 0.4)
_STEP = 1 / 16
"""What the attack spends in a round; a binary fraction, so that its sums are exact."""
_LENGTH = 160
_CLOSE = 1e-9


class TelltaleState(NamedTuple):
    """A number that everything which the attack was told so far has moved."""

    told: Floats


class Telltale(Adversary, frozen=True, tag="telltale"):
    """Changes all rewards a little, by amounts that show all that the attack was ever told.

    So if it is told anything else than the protocol says, the rewards of the learner differ. The
    largest change of a round is always the same, and the others are smaller.
    """

    sees_weights: ClassVar[bool] = True

    def start(self, setting: Setting) -> TelltaleState:
        return TelltaleState(np.zeros(1))


@implement(corrupt, TelltaleState)
def telltale_corrupt(
    state: TelltaleState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    told = state.told[0] / 2 + uniform(stream) + 0.01 * (round % 64) + 1e-3 * left
    for arm in range(rewards.size):
        told += (arm + 1) * (weights[arm] + rewards[arm])
    state.told[0] = told
    for arm in range(rewards.size):
        part = 1.0 if arm == round % rewards.size else 0.5 + 0.4 * math.cos(told + arm)
        rewards[arm] += part * _STEP if rewards[arm] < 0.5 else -part * _STEP


@implement(observe, TelltaleState)
def telltale_observe(state: TelltaleState, round: int, arm: int, reward: float) -> None:
    state.told[0] = state.told[0] / 2 + 0.3 * (arm + 1) + reward


def protocol_claims(label: str, policy: Policy, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about the rounds that the engine plays with a policy."""
    places = windows(preset.path_rounds, preset.windows, _LENGTH, seed)
    lasting = _experiment(policy, preset, seed)
    # A budget that ends within the last window; where less is charged, half ends before it.
    budget = _STEP * (places[-1].start + _LENGTH // 2)
    ending = msgspec.structs.replace(lasting, budget=budget)
    seen = msgspec.structs.replace(lasting, budget=budget / 2, account="seen")
    cases = [(each, window) for each in (lasting, seen) for window in places]
    cases.append((ending, places[-1]))
    setting = (
        f"{describe_means(_MEANS)}; all rewards changed a little; T = {count(preset.path_rounds)}"
    )

    def judge(runs: Sequence[Runs], level: float) -> Judgement:
        found = [len(disagreements(*case)) for case in cases]
        found.append(_repeated_blocks(lasting))
        most, wrong = float(max(found)), sum(each > 0 for each in found)
        return Judgement(len(found), wrong, Interval(most, most), 0.0, wrong == 0)

    yield Claim(
        "the engine tells, charges, pays and books in every round what the protocol says",
        label,
        f"{setting}; {len(places)} windows of {_LENGTH} rounds, for each of both accounts",
        "most accounts and states that differ from the reference's, or rewards drawn twice, 0",
        (),
        judge,
        "Protocol",
    )


def _experiment(policy: Policy, preset: Preset, seed: int) -> Experiment:
    return make_experiment(
        policy=policy,
        environment=list(_MEANS),
        adversary=Telltale(),
        budget=float(preset.path_rounds),
        horizon=preset.path_rounds,
        replications=1,
        seed=seed,
        engine="plain",
    )


def _repeated_blocks(experiment: Experiment) -> int:
    """Count blocks of rewards that occurred before, which those of independent coins never do."""
    law = witnessed_parts(experiment).law
    rewards = rewards_between(law, 0, -(-experiment.horizon // CHUNK) * CHUNK)
    blocks = rewards.reshape(-1, CHUNK * len(_MEANS))
    return len(blocks) - len(np.unique(blocks, axis=0))


def disagreements(experiment: Experiment, window: range) -> list[str]:
    """Return the accounts and states in which engine and reference differ after a window."""
    before, after = witnessed_parts(experiment), witnessed_parts(experiment)
    play_rounds(before, window.start)
    record = play_rounds(after, window.stop).rows
    booked, totals = copy.deepcopy(before.ledger)._asdict(), after.ledger._asdict()
    run = play_reference(experiment, before, window.start, window.stop)
    grown = {name: total - booked[name] for name, total in totals.items()}
    row = {name: account[-1] for name, account in record._asdict().items()}
    reference, compiled = _moved(before), _moved(after)
    return [
        *_differing(run.accounts(after.ledger.layer_corruption.size), grown),
        *_differing(row, totals),
        *_differing(reference, compiled),
    ]


def _moved(parts: Parts) -> dict[str, Any]:
    """Return the arrays of policy and attack, and how many random numbers each has drawn."""
    return {
        **dict(lasting_arrays(parts.policy, "policy.")),
        **dict(lasting_arrays(parts.adversary, "attack.")),
        "numbers of the learner": tell(parts.learner_stream),
        "numbers of the attack": tell(parts.adversary_stream),
    }


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in one.items()
        if not np.allclose(value, other[name], rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
    ]
