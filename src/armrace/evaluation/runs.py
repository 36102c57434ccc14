"""One run of a policy over a log: its state, its streams and its tally."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.adversaries.base import Setting
from armrace.errors import BrokenPolicy
from armrace.kernels.attack_pointers import LiveAttack
from armrace.kernels.compiling import fingerprint
from armrace.kernels.dispatch import implementations
from armrace.kernels.handles import call_entry
from armrace.kernels.ledger import make_ledger
from armrace.kernels.live import BadTicket
from armrace.kernels.replay import make_replayer, make_tally
from armrace.logs import Batch
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for

__all__ = ["Run"]


class Run:
    """A policy that meets the rows of a log.

    Args:
        policy: the policy.
        attack: who corrupts the rewards that it learns.
        setting: what the attack knows: the arms' rates, the horizon and the budget.
        seed: the seed of all draws.
        replication: runs of different numbers draw independently.
        blocks: into how many blocks the rows are divided for the bootstrap.
        rows: how many rows the log has.
        floor: matching rows are accepted with probability floor / propensity, at most 1.
        weighs: whether the estimates that weigh all rows are made.
    """

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
