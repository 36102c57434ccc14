"""What the earlier rows of a log say about the reward of each arm for each visitor."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import call_entry
from armrace.kernels.replay import RowContexts, read_only, usual_reward
from armrace.offline.log import Log, LogRows
from armrace.policies.linear.models import Ridge, fit, make_ridge, predicted

Floats = npt.NDArray[np.float64]


class Forecast(NamedTuple):
    """Means of arms, and a ridge model of what each visitor's features add to them."""

    ridge: Ridge
    rows: Floats
    """Rows of each arm so far."""
    paid: Floats
    """The sum of their rewards."""


def make_forecasts(log: Log) -> Callable[[LogRows], RowContexts | None]:
    """Return what turns consecutive rows of a log into their visitors.

    It predicts the reward of every arm for each row's visitor from the rows before it, within
    [0, 1]: the arm's mean, as if one more row had paid the mean of all, and a ridge regression of
    what the features add. Without a schema there is nothing to tell.
    """
    if (schema := log.schema) is None:
        return lambda rows: None
    arms = len(log.arms)
    forecast = Forecast(make_ridge(arms, schema.shape.dimension), np.zeros(arms), np.zeros(arms))

    def visitors(rows: LogRows) -> RowContexts:
        vectors, predictions = schema.vectors(rows.codes), np.empty((rows.arms.size, arms))
        columns = map(read_only, (rows.arms, rows.rewards))
        call_entry(_forecaster(), forecast, vectors, *columns, predictions)
        return RowContexts(vectors, read_only(rows.leaves), predictions)

    return visitors


@cache
def _forecaster() -> Callable[..., None]:
    @entry(fingerprint([fit, predicted]))
    def forecast_each(
        forecast: Forecast,
        vectors: Floats,
        arms: npt.NDArray[np.int64],
        rewards: Floats,
        predictions: Floats,
    ) -> None:
        ridge, rows, paid = forecast.ridge, forecast.rows, forecast.paid
        total, seen = paid.sum(), rows.sum()
        for row in range(arms.size):
            usual, vector, own = usual_reward(total, seen), vectors[row], 0.0
            for arm in range(rows.size):
                mean = (paid[arm] + usual) / (rows[arm] + 1.0)
                own = mean if arm == arms[row] else own
                expected = mean + predicted(ridge, arm, vector)
                predictions[row, arm] = min(max(expected, 0.0), 1.0)
            # The model is of the rest, so that an arm without rows in a corner keeps its mean.
            fit(ridge, arms[row], vector, rewards[row] - own, 1.0)
            rows[arms[row]] += 1.0
            paid[arms[row]] += rewards[row]
            total += rewards[row]
            seen += 1.0

    return forecast_each
