"""Runs of policies over a log, and the figures that they give."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary, NoAttack
from armrace.adversaries.base import Setting
from armrace.errors import BrokenPolicy
from armrace.kernels.attack_pointers import LiveAttack
from armrace.kernels.dispatch import implementations
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import call_entry
from armrace.kernels.ledger import make_ledger
from armrace.kernels.live import BadTicket
from armrace.kernels.replay import ACCEPTED, LOGGED, REPLAYED, TOTAL, make_replayer, make_tally
from armrace.offline.log import Batch
from armrace.offline.results import (
    AttackOnLog,
    Gain,
    PolicyReplay,
    Verdict,
    estimate_gain,
    estimates_of,
)
from armrace.policies import Policy
from armrace.randomness import Purpose, generator_for, stream_for
from armrace.statistics.scales import Scale


class Run:
    """A policy that meets the rows of a log."""

    def __init__(
        self,
        policy: Policy,
        attack: Adversary,
        setting: Setting,
        *,
        seed: int,
        replication: int,
        blocks: int,
        rows: int,
        floor: float,
        weighs: bool,
    ) -> None:
        arms, horizon = setting.arms, setting.horizon
        self._name, self._shape = policy.tag(), (arms, policy.layer_count(arms, horizon))
        self._state = policy.start(arms, horizon)
        corrupter = attack.start(setting)
        self._attack = LiveAttack(
            corrupter,
            stream_for(seed, Purpose.ADVERSARY, replication),
            attack.sees_weights,
            attack.smallest_cost(corrupter, setting),
        )
        self._stream = stream_for(seed, Purpose.LEARNER, replication)
        # A stream of its own: acceptance must not depend on how many numbers the policy draws.
        self._coins = stream_for(seed, Purpose.ACCEPTANCE, replication)
        self.ledger = make_ledger(*self._shape, setting.budget)
        self.tally = make_tally(arms, blocks)
        self._floor, self._rows, self._weighs = floor, rows, weighs
        self._replay_rows = make_replayer(fingerprint(implementations(self._state)))

    def take(self, batch: Batch, blocks: npt.NDArray[np.int64]) -> None:
        """Replay a batch of rows."""
        try:
            self._take(batch, blocks)
        except BadTicket as error:
            raise BrokenPolicy.by_ticket(self._name, error.args, *self._shape) from None

    def _take(self, batch: Batch, blocks: npt.NDArray[np.int64]) -> None:
        call_entry(
            self._replay_rows,
            self._state,
            self._attack.attack,
            self._stream,
            self._coins,
            self.ledger,
            self.tally,
            *map(_read_only, (batch.arms, batch.rewards, batch.propensities, blocks)),
            self._floor,
            self._rows,
            self._weighs,
        )


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return a view that cannot be written: other arrays are compiled for once more.

    Some columns of a data frame come as arrays that can be written, and others do not.
    """
    view = array.view()
    view.flags.writeable = False
    return view


class Form(NamedTuple):
    """One form of the log that a policy meets, and who corrupts the rewards."""

    name: str
    attack: Adversary
    budget: float
    without: int | None = None
    """The place of the source whose rows are left out."""
    found_by: str = ""
    """The effort of the search that found the attack, if one did."""


class PlannedRuns(NamedTuple):
    """A policy on a form of the log, and its runs."""

    policy: Policy
    label: str
    form: Form
    runs: list[Run]
    rows: int
    """The rows of the log in this form."""
    horizon: int
    """The number of decisions that the policy plans for."""


def figures_of(
    plan: PlannedRuns, scale: Scale, floor: float, level: float, seed: int, *, weighs: bool
) -> PolicyReplay:
    """Return the estimates of a policy, and what else is known of its runs."""
    tallies = [run.tally for run in plan.runs]
    # A probability of at most 1 over a propensity that is raised to the floor.
    heaviest = 1.0 / floor
    # Every policy has the same generator, so that its figures do not depend on the others.
    generator = generator_for(seed, Purpose.BOOTSTRAP)
    found = estimates_of(tallies, scale, heaviest, level, weighs, generator)
    gain = None
    if weighs:
        value, ends = estimate_gain(tallies, scale, heaviest, level)
        gain = Gain(value=value, low=ends.low, high=ends.high)
    accepted = np.array([tally.counts[ACCEPTED] for tally in tallies], dtype=np.float64)
    sums = np.array([tally.sums[REPLAYED, TOTAL] for tally in tallies])
    means = sums[accepted > 0] / accepted[accepted > 0]
    pulls = np.sum([tally.pulls for tally in tallies], axis=0)
    return PolicyReplay(
        policy=plan.label,
        specification=plan.policy.to_builtins(),
        form=plan.form.name,
        rows=plan.rows,
        logged_mean=scale.reward(float(tallies[0].moments[LOGGED]) / plan.rows),
        rounds=float(accepted.mean()),
        acceptance=float(accepted.mean()) / plan.rows,
        horizon=plan.horizon,
        estimates=found,
        lowest=scale.reward(float(means.min())) if means.size else None,
        highest=scale.reward(float(means.max())) if means.size else None,
        shares=(pulls / max(1, pulls.sum())).tolist(),
        gain=gain,
        verdict=_verdict(found[-1].is_enough, gain),
        attack=_attack(plan),
        curve=_curve(plan, scale),
    )


def _verdict(is_enough: bool, gain: Gain | None) -> Verdict:
    if not is_enough:
        return "not enough data"
    if gain is None or gain.low <= 0.0 <= gain.high:
        return "undecided"
    return "better" if gain.low > 0.0 else "worse"


def _attack(plan: PlannedRuns) -> AttackOnLog | None:
    if isinstance(plan.form.attack, NoAttack):
        return None
    return AttackOnLog(
        specification=plan.form.attack.to_builtins(),
        budget=plan.form.budget,
        spent=float(np.mean([run.ledger.charged[0] for run in plan.runs])),
        seen=float(np.mean([run.ledger.seen[0] for run in plan.runs])),
        found_by=plan.form.found_by,
    )


def _curve(plan: PlannedRuns, scale: Scale) -> list[tuple[float, float, float]]:
    """Return rows, rounds and the mean reward so far, at some places along the log."""
    curve = np.mean([run.tally.curve for run in plan.runs], axis=0)
    return [
        (float(rows), float(rounds), scale.reward(float(paid / rounds)))
        for rows, rounds, paid, _ in curve
        if rounds > 0.0
    ]
