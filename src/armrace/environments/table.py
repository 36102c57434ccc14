"""An environment of recorded rewards."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.environments.base import Environment
from armrace.errors import InvalidParameter
from armrace.kernels import laws


class Table(Environment, frozen=True, tag="table", eq=False):
    """Pays what a table says: an array of rounds x arms."""

    family: ClassVar[str] = "record"
    rewards: Annotated[np.ndarray, "rewards in [0, 1], one row per round and one column per arm"]

    def validate(self) -> None:
        table = self.rewards
        if not isinstance(table, np.ndarray) or table.ndim != 2:
            raise InvalidParameter("rewards must be an array of rounds x arms.")
        if table.dtype.kind not in "buif":
            raise InvalidParameter(f"rewards must be an array of numbers; got {table.dtype}.")
        if table.shape[1] < 2 or table.shape[0] < 1:
            rounds, arms = table.shape
            raise InvalidParameter(
                f"rewards must have at least 1 round and 2 arms; got {rounds} and {arms}."
            )
        # A masked array compares as masked, not as false, and would pass the next test.
        if np.ma.is_masked(table):
            count = int(np.count_nonzero(np.ma.getmaskarray(table)))
            raise InvalidParameter(f"rewards must have no masked values; got {count}.")
        if not bool(np.all((table >= 0) & (table <= 1))):
            raise InvalidParameter("each of rewards must be in [0, 1]; got others.")
        # A copy, so that the specification stays as it is whatever becomes of the caller's array.
        msgspec.structs.force_setattr(self, "rewards", np.array(table, subok=False))

    def mean_rewards(self, horizon: int) -> npt.NDArray[np.float64]:
        return np.asarray(self.rewards[:horizon].mean(axis=0, dtype=np.float64))

    def law(self) -> laws.Law:
        table = np.ascontiguousarray(self.rewards, dtype=np.float64)
        return laws.make_law(laws.TABLE, table.shape[1], table=table)

    def check_horizon(self, horizon: int) -> None:
        if horizon > len(self.rewards):
            raise InvalidParameter(
                f"horizon must be at most the table's {len(self.rewards)} rounds; got {horizon}."
            )
