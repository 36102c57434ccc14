"""Rewards drawn one at a time from a stream, and sums of many drawn at once."""

from __future__ import annotations

from armrace.kernels.compiling import inlined
from armrace.kernels.laws import BERNOULLI, DETERMINISTIC, Law, pick
from armrace.kernels.streams import Stream, uniform
from armrace.kernels.variates import binomial


@inlined
def draw_reward(law: Law, arm: int, stream: Stream) -> float:
    """Draw a reward of a Bernoulli, deterministic or finitely supported arm."""
    kind = law.kind[arm]
    if kind == DETERMINISTIC:
        return law.first[arm]
    level = uniform(stream)
    if kind == BERNOULLI:
        return 1.0 if level < law.first[arm] else 0.0
    return pick(law.values[arm], law.cumulative[arm], level)


@inlined
def total_of(law: Law, arm: int, rewards: int, stream: Stream) -> tuple[float, float]:
    """Draw the sum of a number of rewards of an arm, and the sum of their squares."""
    kind = law.kind[arm]
    if kind == DETERMINISTIC:
        total = rewards * law.first[arm]
        return total, total * law.first[arm]
    if kind == BERNOULLI:
        successes = float(binomial(stream, rewards, law.first[arm]))
        return successes, successes
    # How often each value occurs is multinomial, drawn as a chain of binomials: of the rewards that
    # earlier values have left, each is this value with its probability among the remaining ones.
    total, squares, left, below = 0.0, 0.0, rewards, 0.0
    values, cumulative = law.values[arm], law.cumulative[arm]
    for i in range(values.size):
        if left == 0:
            break
        is_last = i == values.size - 1
        chance = (cumulative[i] - below) / (1.0 - below)
        count = left if is_last else binomial(stream, left, chance)
        total += count * values[i]
        squares += count * values[i] * values[i]
        left -= count
        below = cumulative[i]
    return total, squares
