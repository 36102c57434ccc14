"""The draw of a round's layer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.streams import Stream, uniform
from armrace.policies.races.state import Race

_EXPONENT_OF_A_HALF, _MANTISSA = 1022, 52
"""The stored exponent of 0.5 as a double, and the number of mantissa bits below the exponent."""


@inlined
def draw_layer(state: Race, stream: Stream) -> int:
    """Draw the layer of a round."""
    level = uniform(stream)
    if state.halving[0]:
        return halving_layer_at(level, state.share.size)
    return layer_at(level, state.tail, 0)


@inlined
def layer_from(state: Race, fastest: int, stream: Stream) -> int:
    """Draw a layer, given that it is ``fastest`` or slower."""
    # Slow layers have the low levels, so that a uniform level below the tail is one given that the
    # layer is no faster.
    return layer_at(uniform(stream) * state.tail[fastest], state.tail, fastest)


@inlined
def layer_at(level: float, tail: npt.NDArray[np.float64], fastest: int) -> int:
    """Return the layer whose part of [0, 1) contains ``level``; slow layers have low levels.

    Args:
        level: a uniform number below ``tail[fastest]``.
        tail: the probability of each layer or a slower one, with a final 0.
        fastest: the fastest layer that is possible.
    """
    layer = fastest
    while layer + 2 < tail.size and level < tail[layer + 1]:
        layer += 1
    return layer


@inlined
def halving_layer_at(level: float, layers: int) -> int:
    """Return the layer for a level in [0, 1) if shares halve, from the level's binary exponent.

    Layer ``l > 0`` has the levels from ``2^-(l+1)`` to ``2^-l``, layer 0 all others.
    """
    # The number of leading zeros is read from the bits of the double: unlike the loop of
    # ``layer_at``, that has no branch that depends on the random level.
    layer = _EXPONENT_OF_A_HALF - int(np.float64(level).view(np.int64) >> _MANTISSA)
    return layer if layer < layers else 0
