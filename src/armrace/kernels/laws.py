"""Reward laws: the stochastic rewards of a range of rounds, as a function of Philox's counter.

Each arm has its own law. The reward of an arm in a round is a pure function of (seed,
replication, round, arm): all policies of a comparison meet the same rewards, and a run can be
cut anywhere. Bernoulli arms are coins; for uniform arms and finite support one 32-bit word decides
a reward, so that their means are exact up to 2^-33; Beta arms reject and draw again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.streams import (
    BLOCK,
    BLOCKS,
    MASK,
    SCRATCH,
    Stream,
    binomial,
    count_heads,
    counter_high,
    counter_lane,
    flip_coins,
    philox,
    spread_heads,
    uniform,
)

KINDS = (
    "Bernoulli",
    "uniform",
    "Beta",
    "finite support",
    "deterministic",
    "table",
    "visitors",
    "Gaussian",
    "phases",
    "changing",
    "seasonal",
)
"""What the kinds of laws are called, in order of their numbers. A new kind is added here, and its
rewards are drawn in :func:`_fill_arm`."""

BERNOULLI, UNIFORM, BETA, FINITE, DETERMINISTIC = range(5)
TABLE, VISITORS, GAUSSIAN, PHASES, CHANGING, SEASONAL = range(5, len(KINDS))

CHUNK = BLOCK * BLOCKS
"""Rounds whose rewards are drawn together, so that drawing vectorises."""

_ARMS_A_GROUP = 4
_WORD_UNIT = 2.0**-32
_TWO_PI = 2.0 * math.pi
_NONE = np.uint64(0)


class Law(NamedTuple):
    """The reward laws of all arms.

    ``first`` and ``second`` are an arm's parameters: the mean of a Bernoulli arm, the ends of
    a uniform one, alpha and beta of a Beta one, the value of a deterministic one, mean and standard
    deviation of a Gaussian one, the means of odd and of even phases, the middle and the swing of a
    seasonal mean. ``values`` and ``cumulative`` (one row per arm) belong to finite support,
    ``table`` to recorded rewards (one row per round), to visitors (the means of each kind of
    visitor), to phases (the round in which each ends), to changing means (rounds and the means
    there, between which they move evenly) and to seasons (their length).
    ``place`` is the key, the purpose and the replication of the counter.
    """

    kind: npt.NDArray[np.int64]
    first: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
    cumulative: npt.NDArray[np.float64]
    table: npt.NDArray[np.float64]
    place: npt.NDArray[np.uint64]


def make_law(
    kind: int,
    arms: int,
    first: npt.ArrayLike = 0.0,
    second: npt.ArrayLike = 0.0,
    values: npt.NDArray[np.float64] | None = None,
    cumulative: npt.NDArray[np.float64] | None = None,
    table: npt.NDArray[np.float64] | None = None,
) -> Law:
    """A law of one kind for all arms, with the arrays it does not use left empty."""
    nothing = np.empty((0, 0))
    return Law(
        kind=np.full(arms, kind, dtype=np.int64),
        first=np.broadcast_to(np.asarray(first, dtype=np.float64), arms).copy(),
        second=np.broadcast_to(np.asarray(second, dtype=np.float64), arms).copy(),
        values=nothing if values is None else values,
        cumulative=nothing if cumulative is None else cumulative,
        table=nothing if table is None else table,
        place=np.zeros(4, dtype=np.uint64),
    )


class RewardChunk(NamedTuple):
    """The rewards of a chunk of rounds, one row per arm."""

    chunk: npt.NDArray[np.int64]
    """Which chunk it is; -1 before the first."""
    rewards: npt.NDArray[np.float64]
    heads: npt.NDArray[np.uint64]
    """The coins of Bernoulli arms, before they were spread into rewards."""
    visitors: npt.NDArray[np.int64]
    """Which visitor came in each round, where visitors differ."""
    means: npt.NDArray[np.float64]
    """The mean of each arm in each round, where means move; else empty."""
    words: npt.NDArray[np.uint32]
    scratch: npt.NDArray[np.uint64]


def make_drawn(arms: int, moving: bool = False) -> RewardChunk:
    """Make room for a chunk, with nothing drawn yet; see :func:`moves` on ``moving``."""
    return RewardChunk(
        chunk=np.full(1, -1, dtype=np.int64),
        rewards=np.zeros((arms, CHUNK)),
        heads=np.zeros((arms, BLOCKS), dtype=np.uint64),
        visitors=np.zeros(CHUNK, dtype=np.int64),
        means=np.zeros((arms, CHUNK if moving else 0)),
        words=np.zeros((_ARMS_A_GROUP, CHUNK), dtype=np.uint32),
        scratch=np.zeros(SCRATCH, dtype=np.uint64),
    )


def check_kinds(law: Law) -> None:
    """Refuse a law of an unknown kind, which compiled code would leave undrawn."""
    if law.kind.size and not 0 <= law.kind.min() <= law.kind.max() < len(KINDS):
        known = ", ".join(f"{number} ({name})" for number, name in enumerate(KINDS))
        raise ValueError(f"the kind of a law must be one of {known}; got {law.kind.tolist()}.")


def is_coins(law: Law) -> bool:
    """Whether all arms are Bernoulli arms."""
    return bool((law.kind == BERNOULLI).all())


def moves(law: Law) -> bool:
    """Whether means are another in each round, so that regret to the best of each round differs."""
    return bool(np.isin(law.kind, (CHANGING, SEASONAL)).any())


@inlined
def draw_chunk(law: Law, chunk: int, drawn: RewardChunk) -> None:
    """Draw the rewards of the rounds from ``chunk * CHUNK`` on, unless that was done already."""
    if drawn.chunk[0] == chunk:
        return
    drawn.chunk[0] = chunk
    if law.kind[0] == VISITORS:
        _draw_visitors(law, chunk * CHUNK, drawn)
    group_of_words = -1
    for arm in range(law.kind.size):
        kind = law.kind[arm]
        if kind == BERNOULLI:
            _flip_arm(law, arm, chunk, drawn)
            continue
        # One call of Philox gives four words: neighbouring arms share it, one word each.
        group, place_in_group = divmod(arm, _ARMS_A_GROUP)
        if (
            kind in (UNIFORM, FINITE, VISITORS, PHASES, CHANGING, SEASONAL)
            and group != group_of_words
        ):
            _draw_words(law.place, chunk * CHUNK, group, drawn.words)
            group_of_words = group
        words, out = drawn.words[place_in_group], drawn.rewards[arm]
        if kind == VISITORS:
            for i in range(CHUNK):
                mean = law.table[drawn.visitors[i], arm]
                out[i] = 1.0 if _open_unit(words[i]) < mean else 0.0
        elif kind in (CHANGING, SEASONAL):
            means = drawn.means[arm]
            _fill_means(law, arm, chunk * CHUNK, means)
            for i in range(CHUNK):
                out[i] = 1.0 if _open_unit(words[i]) < means[i] else 0.0
        else:
            _fill_arm(law, arm, chunk * CHUNK, words, out)


@inlined
def flip_chunk(law: Law, chunk: int, drawn: RewardChunk) -> None:
    """As :func:`draw_chunk`, for Bernoulli arms only, which compiles in half the time."""
    if drawn.chunk[0] != chunk:
        drawn.chunk[0] = chunk
        for arm in range(law.kind.size):
            _flip_arm(law, arm, chunk, drawn)


@inlined
def _flip_arm(law: Law, arm: int, chunk: int, drawn: RewardChunk) -> None:
    """Draw the rewards of a Bernoulli arm."""
    heads = drawn.heads[arm]
    flip_coins(law.place, arm, law.first[arm], chunk * BLOCKS, drawn.scratch, heads)
    spread_heads(heads, drawn.rewards[arm])


@inlined
def count_totals(drawn: RewardChunk, begin: int, end: int, totals: npt.NDArray[np.float64]) -> None:
    """As :func:`add_totals`, for Bernoulli arms only."""
    for arm in range(totals.size):
        totals[arm] += count_heads(drawn.heads[arm], begin, end)


@inlined
def add_totals(
    law: Law, drawn: RewardChunk, begin: int, end: int, totals: npt.NDArray[np.float64]
) -> None:
    """Add what each arm pays in the rounds from ``begin`` to ``end`` of the chunk.

    Rewards are added in the order of rounds, so that the sums do not depend on where a run is cut.
    The inner loop is over the arms: consecutive additions then belong to different sums and do
    not wait for each other.
    """
    others = False
    for arm in range(law.kind.size):
        if law.kind[arm] == BERNOULLI:
            totals[arm] += count_heads(drawn.heads[arm], begin, end)
        else:
            others = True
    if others:
        for column in range(begin, end):
            for arm in range(law.kind.size):
                if law.kind[arm] != BERNOULLI:
                    totals[arm] += drawn.rewards[arm, column]


def rewards_between(
    law: Law, first: int, last: int, draw: Callable[[Law, int, RewardChunk], None] = draw_chunk
) -> npt.NDArray[np.float64]:
    """Return the rewards of the rounds from ``first`` up to, not including, ``last``, in rows.

    ``draw`` may be a compiled :func:`draw_chunk`.
    """
    check_kinds(law)
    drawn = make_drawn(law.kind.size, moves(law))
    chunks = range(first // CHUNK, -(-last // CHUNK))
    table = [np.empty((0, law.kind.size))]
    for chunk in chunks:
        draw(law, chunk, drawn)
        table.append(drawn.rewards.T.copy())
    start = chunks.start * CHUNK
    return np.vstack(table)[first - start : last - start]


def visitors_between(law: Law, first: int, last: int) -> list[int]:
    """Return who comes in the rounds from ``first`` up to, not including, ``last``."""
    if law.kind[0] != VISITORS:
        return [0] * (last - first)
    drawn, found = make_drawn(law.kind.size), []
    for number in range(first, last):
        draw_chunk(law, number // CHUNK, drawn)
        found.append(int(drawn.visitors[number % CHUNK]))
    return found


@inlined
def _draw_words(
    place: npt.NDArray[np.uint64], first_round: int, group: int, words: npt.NDArray[np.uint32]
) -> None:
    """Draw one word per arm and round, for a group of four arms; this loop vectorises."""
    k0, k1, replication = place[0], place[1], place[3]
    lane = counter_lane(np.uint64(group), place[2])
    for i in range(CHUNK):
        position = np.uint64(first_round + i)
        a, b, c, d = philox(
            position & MASK, counter_high(position, _NONE), lane, replication, k0, k1
        )
        words[0, i] = a
        words[1, i] = b
        words[2, i] = c
        words[3, i] = d


@inlined
def _draw_visitors(law: Law, first_round: int, drawn: RewardChunk) -> None:
    """Draw who comes in each round, with words of a group that no arm has."""
    beyond = (law.kind.size + _ARMS_A_GROUP - 1) // _ARMS_A_GROUP
    _draw_words(law.place, first_round, beyond, drawn.words)
    for i in range(CHUNK):
        drawn.visitors[i] = int(_open_unit(drawn.words[0, i]) * law.table.shape[0])


@inlined
def _fill_arm(
    law: Law,
    arm: int,
    first_round: int,
    words: npt.NDArray[np.uint32],
    out: npt.NDArray[np.float64],
) -> None:
    """Draw the rewards of an arm that is not a Bernoulli arm."""
    kind = law.kind[arm]
    first = law.first[arm]
    if kind == UNIFORM:
        span = law.second[arm] - first
        for i in range(CHUNK):
            out[i] = first + span * _open_unit(words[i])
    elif kind == FINITE:
        for i in range(CHUNK):
            out[i] = pick(law.values[arm], law.cumulative[arm], _open_unit(words[i]))
    elif kind == BETA:
        for i in range(CHUNK):
            out[i] = _beta(law, arm, np.uint64(first_round + i))
    elif kind == DETERMINISTIC:
        for i in range(CHUNK):
            out[i] = first
    elif kind == PHASES:
        phase = 0
        for i in range(CHUNK):
            while first_round + i >= law.table[phase, 0]:
                phase += 1
            mean = law.second[arm] if phase % 2 else first
            out[i] = 1.0 if _open_unit(words[i]) < mean else 0.0
    elif kind == GAUSSIAN:
        for i in range(CHUNK):
            a, b, _, _ = _draw_further(law.place, arm, np.uint64(first_round + i), np.uint64(1))
            out[i] = first + law.second[arm] * _normal(a, b)
    elif kind == TABLE:
        # A table may end within the last chunk; rounds beyond its end are never played.
        for i in range(min(CHUNK, law.table.shape[0] - first_round)):
            out[i] = law.table[first_round + i, arm]


@inlined
def _fill_means(law: Law, arm: int, first_round: int, means: npt.NDArray[np.float64]) -> None:
    """Write the mean of an arm in each round of a chunk."""
    knots, knot = law.table, 0
    for i in range(CHUNK):
        number = first_round + i
        if law.kind[arm] == SEASONAL:
            part = number % knots[0, 0] / knots[0, 0]
            means[i] = law.first[arm] + law.second[arm] * math.sin(_TWO_PI * part)
            continue
        while knot + 1 < knots.shape[0] and knots[knot + 1, 0] <= number:
            knot += 1
        means[i] = knots[knot, 1 + arm]
        if knot + 1 < knots.shape[0]:
            part = (number - knots[knot, 0]) / (knots[knot + 1, 0] - knots[knot, 0])
            means[i] += part * (knots[knot + 1, 1 + arm] - knots[knot, 1 + arm])


@inlined
def _open_unit(word: np.uint32 | np.uint64) -> float:
    """Convert a word to a number strictly between 0 and 1."""
    # The centre of the word's interval: never 0 or 1, so that logarithms are finite.
    return (np.float64(word) + 0.5) * _WORD_UNIT


@inlined
def pick(
    values: npt.NDArray[np.float64], cumulative: npt.NDArray[np.float64], level: float
) -> float:
    """Return the value at which the cumulative probability first exceeds ``level``."""
    # The last value is taken without a comparison: rounded probabilities may sum to less than 1.
    last = values.size - 1
    i = 0
    while i < last and level >= cumulative[i]:
        i += 1
    return values[i]


@inlined
def _beta(law: Law, arm: int, position: np.uint64) -> float:
    """Draw a Beta reward as a ratio of two gamma variates.

    Logarithms are used because gamma variates of small shapes underflow.
    """
    further = np.uint64(1)
    log_x, further = _log_gamma_variate(law, arm, position, further, law.first[arm])
    log_y, further = _log_gamma_variate(law, arm, position, further, law.second[arm])
    difference = log_y - log_x
    if difference > 700.0:  # exp would overflow
        return 0.0
    return 1.0 / (1.0 + math.exp(difference))


@inlined
def _log_gamma_variate(
    law: Law, arm: int, position: np.uint64, further: np.uint64, shape: float
) -> tuple[float, np.uint64]:
    """Draw the logarithm of a gamma variate (Marsaglia and Tsang 2000).

    A variate of a shape below 1 is one of ``shape + 1`` times a power of a uniform number.

    Each attempt is accepted with probability above 0.95, so the 12 bits that number further
    draws are never used up.
    """
    boosted = shape + 1.0 if shape < 1.0 else shape
    d = boosted - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        a, b, accept, boost = _draw_further(law.place, arm, position, further)
        further += np.uint64(1)
        normal = _normal(a, b)
        cube = 1.0 + c * normal
        if cube <= 0.0:
            continue
        v = cube * cube * cube
        if math.log(accept) < 0.5 * normal * normal + d - d * v + d * math.log(v):
            log_variate = math.log(d * v)
            if shape < 1.0:
                log_variate += math.log(boost) / shape
            return log_variate, further


@inlined
def _normal(a: float, b: float) -> float:
    """Turn two uniform numbers into a standard normal one (Box and Muller 1958)."""
    return math.sqrt(-2.0 * math.log(a)) * math.cos(_TWO_PI * b)


@inlined
def _draw_further(
    place: npt.NDArray[np.uint64], arm: int, position: np.uint64, further: np.uint64
) -> tuple[float, float, float, float]:
    """Draw four more numbers for one arm in one round.

    The counter's group is the arm itself here; draws of groups of four arms have ``further = 0``,
    so that the two never share a counter.
    """
    a, b, c, d = philox(
        position & MASK,
        counter_high(position, further),
        counter_lane(np.uint64(arm), place[2]),
        place[3],
        place[0],
        place[1],
    )
    return _open_unit(a), _open_unit(b), _open_unit(c), _open_unit(d)


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
