"""The law of a posterior draw among some arms, which does not follow from that among all."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import distribution_among
from armrace.policies.posteriors.beta import law_of_largest
from armrace.policies.posteriors.posteriors import Posteriors

__all__ = ["posteriors_distribution_among"]


@implement(distribution_among, Posteriors)
def posteriors_distribution_among(
    state: Posteriors, eligible: npt.NDArray[np.bool_], out: npt.NDArray[np.float64]
) -> None:
    count = 0
    for arm in range(eligible.size):
        count += eligible[arm]
    successes, failures, law = np.empty(count), np.empty(count), np.empty(count)
    place = 0
    for arm in range(eligible.size):
        if eligible[arm]:
            successes[place], failures[place] = state.successes[arm], state.failures[arm]
            place += 1
    # Dividing the probabilities among all arms by their sum would be wrong: posteriors are drawn
    # and compared, not weighed.
    law_of_largest(successes, failures, law)
    place = 0
    for arm in range(eligible.size):
        out[arm] = 0.0
        if eligible[arm]:
            out[arm] = law[place]
            place += 1
