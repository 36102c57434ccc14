"""Draws of a policy that trusts stochastic rewards until it is disappointed.

Before its switch such a policy draws from probabilities of its own, afterwards from EXP3.P. A
ticket notes on which side of the switch it was given.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign
from armrace.kernels.exp3p import (
    ExponentialGains,
    add_bonuses,
    draw_from_gains,
    fill_probabilities,
)
from armrace.kernels.generics import Ticket
from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import Stream

__all__ = ["AFTER_SWITCH", "BEFORE_SWITCH", "decide_on_a_side", "fill_a_side"]

BEFORE_SWITCH, AFTER_SWITCH = 0, 1
"""Notes on tickets: what learns from them."""


@inlined
def fill_a_side(
    switched: bool,
    probabilities: npt.NDArray[np.float64],
    fallback: ExponentialGains,
    out: npt.NDArray[np.float64],
) -> None:
    """Write into ``out`` the probabilities of the side that the policy is on."""
    if switched:
        fill_probabilities(fallback, out)
    else:
        for arm in range(out.size):
            out[arm] = probabilities[arm]


@inlined
def decide_on_a_side(
    switched: bool,
    probabilities: npt.NDArray[np.float64],
    fallback: ExponentialGains,
    counts: Counts,
    stream: Stream,
) -> Ticket:
    """Draw an arm from the side that the policy is on, and note the side."""
    if switched:
        arm = draw_from_gains(fallback, stream)
        add_bonuses(fallback)
        probability, note = fallback.drawn_with[arm], AFTER_SWITCH
    else:
        arm = draw_arm(probabilities, 1.0, stream)
        probability, note = probabilities[arm], BEFORE_SWITCH
    assign(counts, arm)
    return Ticket(arm, 0, probability, note)
