"""What every environment is: arms with laws on [0, 1], known to the ledger and the adversary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.laws import Law
from armrace.specification import Specification

__all__ = ["Environment", "require_arms", "require_equal_lengths"]


class Environment(Specification, frozen=True):
    """Where the stochastic rewards come from."""

    kind: ClassVar[str] = "environment"
    family: ClassVar[str] = "law"
    families: ClassVar[tuple[str, ...]] = ("law", "record")

    @property
    def arms(self) -> int:
        """How many arms there are."""
        return int(self.mean_rewards(1).size)

    def mean_rewards(self, horizon: int) -> npt.NDArray[np.float64]:
        """Each arm's expected reward, over a run of ``horizon`` rounds."""
        raise NotImplementedError(f"{type(self).__name__} does not say its means")

    def support(self) -> npt.NDArray[np.float64] | None:
        """All rewards that may occur, a row an arm; none where they are too many to name."""
        return None

    def law(self) -> Law:
        """The laws of all arms, for the engine."""
        raise NotImplementedError(f"{type(self).__name__} does not say its law")

    def check_horizon(self, horizon: int) -> None:
        """Refuse a run that is longer than the environment can pay for."""


def require_arms(values: Sequence[Any], name: str) -> None:
    """Refuse fewer than two arms."""
    if len(values) < 2:
        raise InvalidParameter(f"{name} must name at least 2 arms; got {len(values)}.")


def require_equal_lengths(**lists: Sequence[Any]) -> None:
    """Refuse per-arm lists of different lengths."""
    lengths = {name: len(values) for name, values in lists.items()}
    if len(set(lengths.values())) > 1:
        given = " and ".join(f"{length} {name}" for name, length in lengths.items())
        raise InvalidParameter(f"{' and '.join(lengths)} must be equally many; got {given}.")
