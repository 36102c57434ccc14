"""Arms are drawn by their weights, and never one of weight zero."""

import numpy as np
import pytest

from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import make_stream, uniform


def stream_with(number):
    """A stream whose next number is given."""
    stream = make_stream((0, 0), 0, 0)
    uniform(stream)
    stream.buffer[stream.position[1]] = number
    return stream


@pytest.mark.parametrize(
    ("level", "arm"),
    [(0.0, 1), (0.2499, 1), (0.25, 3), (0.7499, 3), (0.75, 4), (1 - 2**-53, 4)],
)
def test_a_level_falls_to_the_arm_whose_share_it_is_in(level, arm):
    weights = np.array([0.0, 0.5, 0.0, 1.0, 0.5, 0.0])
    assert draw_arm(weights, 2.0, stream_with(level)) == arm


@pytest.mark.parametrize(("weights", "arm"), [([0.5, 0.25, 0.0], 1), ([0.0, 0.0], 0)])
def test_a_level_that_rounding_took_to_the_end_falls_to_the_last_possible_arm(weights, arm):
    weights = np.array(weights)
    assert draw_arm(weights, weights.sum() * (1 + 2**-40), stream_with(1 - 2**-53)) == arm
