"""Whether the policies of other libraries have the regret of ours.

Both sides play the same Bernoulli arms with random numbers of their own, so their mean regrets
agree in law or not at all; the difference comes with an interval.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

import armrace
from benchmarks.libraries import PEERS, Unavailable, run_script

MEANS = (0.6, 0.5, 0.5, 0.4, 0.3)
HORIZON = 5_000
OURS = 4_000
LEVEL = 0.999
_SEED = 3

Floats = npt.NDArray[np.float64]


class Pair(NamedTuple):
    """A policy of ours, a player of a peer's script, and how often that is played."""

    policy: str
    peer: str
    player: str
    replications: int
    estimator: str | None = None
    same: bool = True
    """Whether the two are meant to be the same algorithm."""


PAIRS = (
    Pair("ucb1", "PyMAB", "UCBPolicy", 1_000),
    Pair("ucb1", "SMPyBandits", "UCB", 150),
    Pair("kl-ucb", "PyMAB", "KLUCBPolicy", 1_000, same=False),
    Pair("kl-ucb", "PyMAB", "KLUCBPolicy, c = 0", 1_000),
    Pair("kl-ucb", "SMPyBandits", "klUCB", 150),
    Pair("moss", "PyMAB", "MOSSPolicy", 1_000),
    Pair("moss", "SMPyBandits", "MOSSH", 150),
    Pair("thompson", "PyMAB", "BernoulliThompsonSamplingPolicy", 1_000),
    Pair("thompson", "SMPyBandits", "Thompson", 150),
    Pair("exp3", "PyMAB", "EXP3Policy", 1_000, same=False),
    Pair("exp3", "PyMAB", "EXP3Policy, losses", 400),
    Pair("exp3", "SMPyBandits", "Exp3WithHorizon", 150, same=False),
    Pair("tsallis-inf", "SMPyBandits", "TsallisInf", 50, "iw", same=False),
    Pair("tsallis-inf", "SMPyBandits", "TsallisInf, root", 300, "iw"),
)


class Difference(NamedTuple):
    """Mean regrets, and their difference with the ends of its interval."""

    ours: float
    theirs: float
    difference: float
    margin: float

    @property
    def agrees(self) -> bool:
        """Whether the interval contains 0."""
        return abs(self.difference) <= self.margin


def difference(ours: Floats, theirs: Floats) -> Difference:
    """Welch's interval for the difference of two means."""
    test = stats.ttest_ind(ours, theirs, equal_var=False)
    interval = test.confidence_interval(LEVEL)
    middle = float(ours.mean() - theirs.mean())
    return Difference(
        float(ours.mean()), float(theirs.mean()), middle, float(interval.high) - middle
    )


def regrets(pulls: npt.ArrayLike) -> Floats:
    """Sum of gaps, a number a replication."""
    counts = np.asarray(pulls)
    if not (counts.sum(axis=1) == HORIZON).all():
        raise ValueError(f"the pulls do not add up to {HORIZON} rounds")
    return np.asarray(counts @ (max(MEANS) - np.array(MEANS)))


@cache
def our_regrets(policy: str, estimator: str | None, replications: int) -> Floats:
    """Those of armrace."""
    given: dict[str, Any] = {"name": policy} | ({"estimator": estimator} if estimator else {})
    result = armrace.simulate(
        given,
        list(MEANS),
        horizon=HORIZON,
        replications=replications,
        seed=_SEED,
        progress=False,
    )
    return regrets(result.final["pulls"].to_numpy())


def compare(pair: Pair, share: float = 1.0) -> Difference:
    """Play both sides, with a share of the replications."""
    problem = {
        "means": MEANS,
        "horizon": HORIZON,
        "replications": max(3, round(share * pair.replications)),
        "seed": _SEED,
    }
    peer = next(peer for peer in PEERS if peer.name == pair.peer)
    script = peer.script.replace("play_", "pulls_")
    theirs = run_script(peer, script, pair.player, json.dumps(problem))
    ours = our_regrets(pair.policy, pair.estimator, round(share * OURS))
    return difference(ours, regrets(theirs["pulls"]))


def main(words: Sequence[str] | None = None) -> int:
    """Print a table; return 1 if a pair that should agree does not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agreement_with_peers")
    parser.add_argument("--share", type=float, default=1.0, help="share of the replications")
    share = parser.parse_args(words).share
    print("| policy | peer's | ours | theirs | difference, 99.9% interval | |")
    print("|---|---|---:|---:|---:|---|")
    failed = False
    for pair in PAIRS:
        name = f"{pair.peer} `{pair.player}`"
        try:
            found = compare(pair, share)
        except Unavailable as reason:
            print(f"| `{pair.policy}` | {name} | | | | {reason} |", flush=True)
            continue
        failed = failed or (pair.same and not found.agrees)
        print(
            f"| `{pair.policy}` | {name} | {found.ours:.1f} | {found.theirs:.1f} "
            f"| {found.difference:+.1f} ± {found.margin:.1f} "
            f"| {'agree' if found.agrees else 'differ'} |",
            flush=True,
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
