"""Rewards outside [0, 1]: the ledger is exact, and an attack stays within the law's range."""

from typing import Annotated, Any, NamedTuple

import numpy as np
import pytest

from armrace.adversaries import AdaptiveConstant, Adversary, JunUcb, Setting
from armrace.environments import Gaussian, WideUniform
from armrace.extending import Floats, Limits, Stream, corrupt, implement
from armrace.simulation import make_experiment
from armrace.simulation.reference import run_reference
from armrace.simulation.replication import make_parts, play_out

BELL = Gaussian(means=(1.0, 0.0, -0.5), sigma=0.3)
WIDE = WideUniform(lows=(-2.0, 0.0), highs=(1.0, 3.0))


class ShiftState(NamedTuple):
    """How far every reward is moved."""

    by: float


class Shift(Adversary, frozen=True, tag="shift"):
    """Moves every reward."""

    by: Annotated[float, Limits("how far", -9, 9)] = 1.0

    def start(self, setting: Setting) -> ShiftState:
        return ShiftState(float(self.by))


@implement(corrupt, ShiftState)
def shift_all(
    state: ShiftState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    for arm in range(rewards.size):
        rewards[arm] += state.by


CASES = [
    (BELL, JunUcb(target=1, sigma=0.3), 60.0),
    (BELL, AdaptiveConstant(target=1, sigma=0.3), 60.0),
    (BELL, Shift(by=-4.0), 99.0),
    (WIDE, Shift(by=0.5), 99.0),
]


@pytest.mark.parametrize("account", ["largest", "seen"])
@pytest.mark.parametrize(("environment", "attack", "budget"), CASES, ids=range(len(CASES)))
def test_the_engine_books_what_the_protocol_says(
    environment: Any, attack: Adversary, budget: float, account: str
) -> None:
    experiment = make_experiment(
        policy={"name": "ucb", "bonus": 0.9}, environment=environment, adversary=attack,
        budget=budget, horizon=400, replications=1, seed=5, account=account,
    )  # fmt: skip
    parts = make_parts(experiment, 0)
    play_out(parts)
    ledger, told = parts.ledger, run_reference(experiment)
    accounts = told.accounts(1)
    for name in ("pulls", "clean_totals", "shifts", "corruption", "seen", "refused"):
        assert getattr(ledger, name) == pytest.approx(accounts[name], abs=1e-9), name
    assert ledger.charged[0] == pytest.approx(told.spent)
    assert ledger.corruption[0] > 0
    shown = np.array(told.paid)
    low, high = environment.reward_range()
    assert ((shown >= low) & (shown <= high)).all()


def test_what_leaves_the_range_of_the_law_is_refused() -> None:
    """Of rewards uniform in [-2, 1] and [0, 3], half a unit up leaves [-2, 3] in a sixth."""
    experiment = make_experiment(
        policy="ucb", environment=WIDE, adversary=Shift(by=0.5), budget=1e9, horizon=4_000,
        replications=1, seed=1,
    )  # fmt: skip
    parts = make_parts(experiment, 0)
    play_out(parts)
    # Six standard errors of a share of 1/6 among 4,000: by chance with probability 1e-8.
    assert parts.ledger.refused[0] / 4_000 == pytest.approx(1 / 6, abs=6 * np.sqrt(5 / 36 / 4_000))
