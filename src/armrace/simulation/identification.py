"""The best arm with a set confidence, under attack: when a policy stops, and with which answer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import polars as pl

from armrace.errors import InvalidParameter
from armrace.simulation.executors import check_workers
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.replication import make_parts, play_out
from armrace.statistics import clopper_pearson


class Identification(NamedTuple):
    """When the runs stopped, and with which answer."""

    rows: pl.DataFrame
    """For each replication the round in which it stopped and the answer; null if it did not."""
    best: int
    """The arm with the largest mean."""

    @property
    def _wrong(self) -> int:
        return sum(answer not in (None, self.best) for answer in self.rows["answer"])

    @property
    def wrong(self) -> float:
        """The share of the runs that gave a wrong answer."""
        return self._wrong / self.rows.height

    @property
    def wrong_interval(self) -> tuple[float, float]:
        """A 95% interval for the probability of a wrong answer."""
        return clopper_pearson(self._wrong, self.rows.height)

    @property
    def unfinished(self) -> float:
        """The share of the runs that had not stopped at the horizon."""
        return self.rows["stopped"].null_count() / self.rows.height

    @property
    def mean_rounds(self) -> float | None:
        """The mean round in which the runs stopped that did."""
        known = self.rows["stopped"].drop_nulls().to_list()
        return sum(known) / len(known) if known else None


def identify(
    policy: Any,
    environment: Any,
    adversary: Any = "none",
    budget: float | None = None,
    *,
    horizon: int = 1_000_000,
    replications: int = 100,
    seed: int = 0,
    account: str = "largest",
    workers: int | None = None,
) -> Identification:
    """Let a policy that deletes arms find the best one: when it stops, and whether it is right.

    It stops when one arm is left. ``enlarged-arm-elimination``, best with
    ``interval="kl-jeffreys"``, and ``track-and-stop`` take a bound on the ``corruption``: up to it,
    their answer is wrong with probability at most their ``delta``, whoever the attacker is.

    Args:
        policy: a policy with one layer that deletes arms, such as the two above.
        environment: the arms, as in :func:`armrace.simulate`.
        adversary: the attack, such as the worst that :func:`armrace.redteam` found.
        budget: the most that the attack may spend.
        horizon: the number of rounds after which a run is given up.
        replications: the number of independent runs.
        seed: the seed of all randomness.
        account: what a round costs the attack; see :func:`armrace.simulate`.
        workers: the number of threads; by default one for each core.

    Returns:
        The rounds and answers, with the shares of wrong and of unfinished runs.

    >>> found = identify("track-and-stop", [0.8, 0.2], horizon=10_000, replications=20)
    >>> found.wrong, found.unfinished, found.mean_rounds < 100
    (0.0, 0.0, True)
    """
    experiment = make_experiment(
        policy=policy,
        environment=environment,
        adversary=adversary,
        budget=budget,
        horizon=horizon,
        replications=replications,
        seed=seed,
        account=account,
        engine="plain",
    )
    means = experiment.setting().means
    if experiment.policy.layer_count(means.size, horizon) != 1:
        raise InvalidParameter(
            f"policy must be one with a single layer; got {experiment.policy.tag()}."
        )
    check_workers(workers)
    with ThreadPoolExecutor(workers) as pool:
        ends = list(pool.map(lambda number: _end_of(experiment, number), range(replications)))
    rows = pl.DataFrame(
        {"replication": range(replications), "stopped": [e[0] for e in ends],
         "answer": [e[1] for e in ends]},
        schema={"replication": pl.Int64, "stopped": pl.Int64, "answer": pl.Int64},
    )  # fmt: skip
    return Identification(rows, int(means.argmax()))


def _end_of(experiment: Experiment, replication: int) -> tuple[int | None, int | None]:
    """Return the round in which a run stopped and its answer; neither if it did not."""
    parts = make_parts(experiment, replication)
    play_out(parts)
    views = experiment.policy.inspect(parts.policy_state)
    left = [view.arm for view in views if view.active]
    if len(left) != 1:
        return None, None
    return max(view.eliminated_at or 0 for view in views), left[0]
