"""The base of environments: arms with laws, usually on [0, 1], known to ledger and adversary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.crowds import Crowd
from armrace.kernels.laws import FINITE, TABLE, Law, check_kinds
from armrace.specification import Specification


class Environment(Specification, frozen=True):
    """A source of rewards.

    An environment of your own subclasses this, gives a ``tag``, and defines ``mean_rewards`` and
    ``law``.
    """

    kind: ClassVar[str] = "environment"
    family: ClassVar[str] = "law"
    families: ClassVar[tuple[str, ...]] = ("law", "record", "visitors")

    @property
    def arms(self) -> int:
        """The number of arms."""
        return int(self.mean_rewards(1).size)

    def mean_rewards(self, horizon: int) -> npt.NDArray[np.float64]:
        """Return each arm's expected reward over a run of ``horizon`` rounds.

        Args:
            horizon: the number of rounds.
        """
        raise NotImplementedError(f"{type(self).__name__} does not say its means")

    def support(self) -> npt.NDArray[np.float64] | None:
        """Return all rewards that may occur, one row per arm; None if they cannot be listed."""
        return None

    def reward_range(self) -> tuple[float, float]:
        """Return the least and the largest reward that may be drawn, and that an attack may show.

        The model has rewards in [0, 1]. Other ranges are for experiments that were published with
        them; only policies that declare ``takes_any_reward`` play there.
        """
        return 0.0, 1.0

    def law(self) -> Law:
        """Return the laws of all arms, for the engine."""
        raise NotImplementedError(f"{type(self).__name__} does not say its law")

    def crowd(self) -> Crowd | None:
        """Return the kinds of visitors, where they differ; None if they are all alike."""
        return None

    def check_horizon(self, horizon: int) -> None:
        """Refuse a horizon for which the environment has no rewards.

        Args:
            horizon: the number of rounds.
        """


def check_sizes(
    environment: Environment,
    means: npt.NDArray[np.float64],
    support: npt.NDArray[np.float64] | None,
    horizon: int,
) -> None:
    """Refuse an environment whose law, means and support do not fit each other or the horizon.

    Compiled code relies on it: it would read or write beyond the end of an array.
    """
    law, name = environment.law(), environment.tag()
    try:
        check_kinds(law)
    except ValueError as error:
        raise InvalidParameter(f"the law of {name} cannot be drawn: {error}") from None
    arms = law.kind.size
    if arms < 2:
        raise InvalidParameter(f"the law of {name} must have at least 2 arms; got {arms}.")
    sizes = {"mean_rewards": means, "first": law.first, "second": law.second}
    if support is not None:
        sizes["support"] = support
    if (law.kind == FINITE).any():
        sizes |= {"values": law.values, "cumulative": law.cumulative}
    if (law.kind == TABLE).any():
        sizes["each row of the table"] = law.table.T
        if len(law.table) < horizon:
            raise InvalidParameter(
                f"horizon must be at most the {len(law.table)} rounds in the table of {name}; "
                f"got {horizon}."
            )
    for part, array in sizes.items():
        if len(array) != arms:
            raise InvalidParameter(
                f"{part} of {name} must have an entry for each of its {arms} arms; "
                f"got {len(array)}."
            )
    if not np.isfinite(means).all():
        raise InvalidParameter(f"mean_rewards of {name} must be finite; got {means.tolist()}.")


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
