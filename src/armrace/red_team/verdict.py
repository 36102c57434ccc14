"""The verdict of a search: the worst attack found, confirmed on seeds that took no part."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.formatting import count, figure
from armrace.red_team.descriptions import describe, replay_command
from armrace.red_team.ratings import Ratings
from armrace.red_team.target import Target
from armrace.reports import Presentation
from armrace.statistics import mean_interval, summarise

__all__ = ["CAUTION", "HeldOut", "SearchRecord", "Verdict", "held_out"]

CAUTION = "worst found: a lower bound on the worst case"


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """What a frozen attack achieved on held-out seeds."""

    mean: float
    stderr: float
    low: float
    high: float
    """Student's 95% interval of the mean."""
    p95: float
    max: float
    spent: float
    """The mean corruption, as the paper counts it."""
    seen: float
    """The mean corruption of the rewards that the learner saw."""
    replications: int
    seed: int
    sample: tuple[float, ...]
    """The measure of every replication."""

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, without the sample."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        del data["sample"]
        return data


def held_out(ratings: Ratings, attack: Adversary) -> HeldOut:
    """Summarise the confirming replications of an attack."""
    sample: npt.NDArray[np.float64] = ratings.sample(attack)
    summary, (low, high) = summarise(sample), mean_interval(sample)
    return HeldOut(
        mean=summary.mean,
        stderr=summary.stderr,
        low=low,
        high=high,
        p95=summary.p95,
        max=summary.max,
        spent=float(ratings.sample(attack, "corruption").mean()),
        seen=float(ratings.sample(attack, "seen_corruption").mean()),
        replications=sample.size,
        seed=ratings.seed,
        sample=tuple(sample.tolist()),
    )


class SearchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a search went."""

    effort: str
    searcher: str = "evolution"
    """What varied the best attacks of the opening."""
    seed: int
    families: tuple[str, ...]
    """The classes that were named to be searched; empty for those searched by default."""
    attacks: tuple[dict[str, Any], ...]
    """The attacks that were named to be tried, as plain data."""
    candidates: int
    """Different attacks that were tried."""
    replications: int
    """All replications: of searching, selecting and confirming."""
    searched: float
    """What the winner achieved while it was searched."""
    selected: float
    """What it achieved on the seeds on which it was selected among the finalists."""
    seconds: float


class Verdict(msgspec.Struct, Presentation, frozen=True, kw_only=True):
    """The worst attack that a search found, and the best built-in one, on the same seeds."""

    target: Target
    attack: Adversary
    search: SearchRecord
    held_out: HeldOut
    builtin: Adversary
    builtin_held_out: HeldOut

    @property
    def value(self) -> float:
        """What the attack achieved on held-out seeds: the mean or the quantile searched for."""
        return self.target.value(np.array(self.held_out.sample))

    @property
    def factor(self) -> float:
        """How much more the attack achieved than the best built-in one."""
        own = self.target.value(np.array(self.builtin_held_out.sample))
        return self.value / own if own > 0 else float("inf") if self.value > 0 else 1.0

    @property
    def selection(self) -> float:
        """What the search saw of the attack, relative to the held-out figure."""
        return self.search.searched / self.value if self.value > 0 else 1.0

    @property
    def description(self) -> str:
        """The attack in plain words."""
        return describe(self.attack)

    @property
    def command(self) -> str:
        """The command that plays the held-out replications again."""
        confirmed = self.held_out
        return replay_command(
            self.target.experiment(self.attack, confirmed.replications, confirmed.seed)
        )

    @property
    def charged(self) -> float:
        """What the attack was charged on average, of its budget."""
        return self.held_out.seen if self.target.sees_arm else self.held_out.spent

    def sentence(self) -> str:
        """The verdict in one sentence."""
        target, found = self.target, self.held_out
        measure = target.measure.replace("pseudo_regret", "pseudo-regret").replace("_", " ")
        # Only the pseudo-regret has a largest value that is known in advance.
        is_bounded = target.measure == "pseudo_regret"
        limit = f" of at most {figure(target.all_lost())}" if is_bounded else ""
        tail = f", 95th percentile {figure(found.p95)}" if target.objective == "p95" else ""
        model = f", {target.model()}" if target.sees_arm else ""
        return (
            f"{target.policy.tag()}: mean {measure} {figure(found.mean)} ({figure(found.low)} to "
            f"{figure(found.high)}){limit}{tail}, with a budget of {figure(target.budget)} in "
            f"{count(target.horizon)} rounds{model} ({CAUTION})."
        )

    def to_builtins(self) -> dict[str, Any]:
        """Return the object that ``armrace redteam --json`` prints."""
        return {
            **self.target.to_builtins(),
            "verdict": CAUTION,
            "attack": self.attack.to_builtins(),
            "description": self.description,
            "command": self.command,
            "held_out": self.held_out.to_builtins(),
            "best_builtin": {
                "attack": self.builtin.to_builtins(),
                "held_out": self.builtin_held_out.to_builtins(),
            },
            "factor": self.factor,
            "selection": self.selection,
            "all_lost": self.target.all_lost(),
            "search": msgspec.to_builtins(self.search),
        }

    def __str__(self) -> str:
        return self.sentence()
