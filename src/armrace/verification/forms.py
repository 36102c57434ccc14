"""Sizes of the checks: a minute and a half, or half an hour, of processor time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Form(NamedTuple):
    """Sizes of the experiments of each family."""

    runs: int
    """Runs of the lemmas and of the bounds on regret."""
    horizon: int
    corruption: float
    """The corruption spent with large gaps, where the bounds on regret are not vacuous."""
    close_horizon: int
    close_corruption: float
    """The corruption spent with small gaps, where the best arm could be deleted."""
    sampling_runs: int
    """Runs of the sub-sampling lemma and of shares and turns, which are short."""
    growth_runs: int
    growth_horizon: int
    switch_rounds: tuple[int, ...]
    """The number of rounds after which the adversary of the lower bound stops."""
    asymptotic_runs: int
    computed_runs: int
    """Runs whose intervals are read off at their end."""
    martingale_runs: int
    """Windows of the martingales, which are very short."""
    replayed_runs: int
    """Runs that are played a second time by a second implementation."""
    path_rounds: int
    """The horizon of these runs, and of all that looks at single rounds."""
    windows: int
    """Windows, at random places up to that horizon, in which costly steps are looked at."""
    searched_attacks: int
    """Attacks of the red team's library under which leaders are checked."""

    def of_guards(self) -> Form:
        """The form in which guards are checked: fewer and shorter runs, as each round costs more.

        The horizon must be long enough for the guard's fastest layers to delete an arm.
        """
        return self._replace(
            runs=self.runs // 2,
            horizon=2 * self.horizon // 5,
            close_horizon=self.close_horizon // 2,
            sampling_runs=self.sampling_runs // 2,
        )

    def of_leaders(self) -> Form:
        """The form in which leaders are checked: not longer than needed, as they cannot leap.

        At these lengths their bounds are far below what all rounds can cost.
        """
        return self._replace(
            runs=min(self.runs, 80),
            horizon=min(self.horizon, 200_000),
            martingale_runs=min(self.martingale_runs, 2_000),
        )


QUICK = Form(
    runs=40,
    horizon=100_000,
    corruption=8.0,
    close_horizon=20_000,
    close_corruption=500.0,
    sampling_runs=200,
    growth_runs=16,
    growth_horizon=1_000_000,
    switch_rounds=(20_000, 40_000, 80_000),
    asymptotic_runs=4,
    computed_runs=20,
    martingale_runs=600,
    replayed_runs=1,
    path_rounds=32_768,
    windows=4,
    searched_attacks=2,
)
FULL = Form(
    runs=150,
    horizon=1_000_000,
    corruption=64.0,
    close_horizon=100_000,
    close_corruption=2_000.0,
    sampling_runs=2_000,
    growth_runs=40,
    growth_horizon=2_000_000,
    switch_rounds=(20_000, 40_000, 80_000, 160_000, 320_000),
    asymptotic_runs=20,
    computed_runs=100,
    martingale_runs=4_000,
    replayed_runs=4,
    path_rounds=131_072,
    windows=16,
    searched_attacks=4,
)


def windows(rounds: int, number: int, length: int, seed: int) -> list[range]:
    """Return windows at random places, one in each of ``number`` equal parts, and one at the end.

    >>> windows(1_000, 2, 10, seed=0)
    [range(315, 325), range(628, 638), range(990, 1000)]
    """
    length = min(length, rounds // (number + 1))
    places = (np.arange(number) + np.random.default_rng(seed).random(number)) / number
    starts = [*(places * (rounds - length)).astype(int).tolist(), rounds - length]
    return [range(start, start + length) for start in starts]
