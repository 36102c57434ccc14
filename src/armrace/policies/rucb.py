"""rUCB and rUCB-Tune: upper confidence bounds around the median."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    learn,
)
from armrace.limits import Limits
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.indices.argmax import make_argmax, plays_next_arm
from armrace.policies.indices.histories import (
    HistoryPolicy,
    Ordered,
    insert,
    make_ordered,
    median,
    reward_of_rank,
)

_CONSISTENCY = 1.4826
"""Makes the median deviation of a normal law its standard deviation."""
_MIDDLE, _LOW, _HIGH = 0, 1, 2


class RUcbState(NamedTuple):
    """Counts, all rewards in order of size, and their medians and median deviations."""

    counts: Counts
    ordered: Ordered
    medians: npt.NDArray[np.float64]
    deviations: npt.NDArray[np.float64]
    windows: npt.NDArray[np.int64]
    """Rank of the lowest of the rewards nearest to the median."""
    share: npt.NDArray[np.float64]
    """1/assigned."""
    rho: npt.NDArray[np.float64]
    eta: npt.NDArray[np.float64]
    tuned: npt.NDArray[np.bool_]


class RUcb(HistoryPolicy, frozen=True, tag="rucb"):
    """Plays the arm with the largest ``median + sqrt(rho ln t / n) + sqrt(rho) eta``.

    Here ``t`` counts the rounds played before the present one. Tuned (rUCB-Tune), the index is
    ``median + sqrt(rho 1.4826 D (ln t / n + eta))`` instead, where ``D`` is the median distance of
    the arm's rewards from their median. ``eta`` should be at least the rate at which rewards are
    corrupted; without tuning it adds the same to every arm and so decides nothing. On Bernoulli
    arms the median is 0 or 1 whatever the mean, so the policy does not work there.

    Both indices are checked against the authors' code, which differs in two details: for an even
    number of rewards it takes one of the two middle ones as the median, where their mean is taken
    here, and its ``D`` is approximate. That up to ``eta T`` of regret remains, and that there is no
    published default for ``rho``, is from memory; 2 makes the bonus that of UCB1.

    All rewards are kept, in order of size: 16 bytes each; the median and the exact median
    distance are found from where they were last. Rewards beyond the horizon count as plays but
    are no longer kept. While feedback is outstanding, ``n`` counts the plays assigned; before
    its first reward an arm has the median 1 and the distance 1/2, the largest possible.

    >>> from armrace.kernels.generics import learn
    >>> state = RUcb(tuned=True).start(arms=2, horizon=100)
    >>> for reward in (0, 0.2, 0.4, 0.6, 1):
    ...     learn(state, Ticket(arm=0), reward)
    >>> f"{state.medians[0]:.1f} {state.deviations[0]:.1f}"
    '0.4 0.2'
    """

    family: ClassVar[str] = "robust"
    takes_new_arms: ClassVar[bool] = True
    reference: ClassVar[str] = "Kapoor, Patel and Kar (2019), Corruption-tolerant bandit learning"
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with the authors' program; the text of the journal was not available."
    )

    rho: Annotated[float, Limits("weight of the bonus", 0, 1e6, low_open=True)] = 2.0
    eta: Annotated[float, Limits("rate at which rewards may be corrupted", 0, 1)] = 0.0
    tuned: Annotated[bool, "scale the bonus by the spread of the rewards (rUCB-Tune)"] = False

    def start(self, arms: int, horizon: int) -> RUcbState:
        return RUcbState(
            counts=make_counts(arms),
            ordered=make_ordered(arms, self.room(horizon), cursors=3),
            medians=np.ones(arms),
            deviations=np.full(arms, 0.5),
            windows=np.zeros(arms, dtype=np.int64),
            share=np.zeros(arms),
            rho=np.array([float(self.rho)]),
            eta=np.array([float(self.eta)]),
            tuned=np.array([bool(self.tuned)]),
        )

    def upper_bound(self, state: RUcbState, arm: int) -> float:
        return float(_index(state, arm, math.log(state.counts.rounds[0])))


@inlined
def bonus(rate: float, rho: float, eta: float) -> float:
    """The bonus without tuning; ``rate`` is ``ln t / n``."""
    return math.sqrt(rho * rate) + math.sqrt(rho) * eta


@inlined
def tuned_bonus(rate: float, rho: float, eta: float, deviation: float) -> float:
    """The bonus with tuning."""
    return math.sqrt(rho * _CONSISTENCY * deviation * (rate + eta))


@inlined
def _index(state: RUcbState, arm: int, logarithm: float) -> float:
    rate, rho, eta = logarithm * state.share[arm], state.rho[0], state.eta[0]
    if state.tuned[0]:
        return state.medians[arm] + tuned_bonus(rate, rho, eta, state.deviations[arm])
    return state.medians[arm] + bonus(rate, rho, eta)


_arm_of_largest_index = make_argmax(_index)


@plays_next_arm(RUcbState)
@inlined
def _next_arm(state: RUcbState, eligible: Eligible) -> int:
    return _arm_of_largest_index(state, math.log(max(1, state.counts.rounds[0])), eligible)


@implement(assign, RUcbState)
def rucb_assign(state: RUcbState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.share[ticket.arm] = 1.0 / state.counts.assigned[ticket.arm]
    return ticket


@implement(learn, RUcbState)
def rucb_learn(state: RUcbState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    if insert(state.ordered, arm, reward):
        state.medians[arm] = median(state.ordered, arm, _MIDDLE)
        if state.tuned[0]:
            state.deviations[arm], state.windows[arm] = median_deviation(
                state.ordered, arm, _LOW, _HIGH, state.medians[arm], state.windows[arm]
            )


@inlined
def median_deviation(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, near: int
) -> tuple[float, int]:
    """The median of the distances from ``centre``, and the rank from which to search next.

    ``low`` and ``high`` are cursors, ``near`` is what the last search returned.

    The ``k`` rewards nearest to a centre are neighbours in order. If they begin at rank ``a``, the
    ``k``-th distance is the larger of those of the two ends; as ``a`` grows the lower end comes
    nearer and the upper end goes farther, so the best ``a`` is where the two cross. The search
    starts from where the crossing was last and takes steps that double.
    """
    size = ordered.sizes[arm]
    deviation, near = _nearest_distance(ordered, arm, low, high, centre, size // 2 + 1, near)
    if size % 2 == 0:
        other, near = _nearest_distance(ordered, arm, low, high, centre, size // 2, near)
        deviation = 0.5 * (deviation + other)
    return deviation, near


@inlined
def _nearest_distance(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, near: int
) -> tuple[float, int]:
    """The ``count``-th smallest distance from ``centre``, and where those rewards begin."""
    crossing = _crossing(ordered, arm, low, high, centre, count, near)
    distance = _farther_end(ordered, arm, low, high, centre, count, crossing)
    # At the crossing the upper end is the farther one, just before it the lower: the smaller of the
    # two maxima is the distance.
    if crossing > 0:
        before = _farther_end(ordered, arm, low, high, centre, count, crossing - 1)
        distance = min(distance, before)
    return distance, crossing


@inlined
def _crossing(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, near: int
) -> int:
    """The first rank, or the last possible, from which the upper end is no nearer."""
    least, most = 0, ordered.sizes[arm] - count
    place, step = min(max(near, 0), most), 1
    while least < most:
        lower_distance = centre - reward_of_rank(ordered, arm, low, place)
        upper_distance = reward_of_rank(ordered, arm, high, place + count - 1) - centre
        if upper_distance >= lower_distance:
            most = place
            # Steps that double until they would pass the middle, then bisection.
            place = max(place - step, (least + most) // 2)
        else:
            least = place + 1
            place = min(place + step, (least + most) // 2)
        step *= 2
    return least


@inlined
def _farther_end(
    ordered: Ordered, arm: int, low: int, high: int, centre: float, count: int, start: int
) -> float:
    """Return the larger distance of the two ends of ``count`` neighbouring rewards."""
    lower_distance = centre - reward_of_rank(ordered, arm, low, start)
    upper_distance = reward_of_rank(ordered, arm, high, start + count - 1) - centre
    return max(lower_distance, upper_distance)
