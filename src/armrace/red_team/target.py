"""What a search attacks, and how many simulations it may use."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary, Setting
from armrace.environments import Environment
from armrace.errors import InvalidParameter, UnknownName
from armrace.policies import Policy
from armrace.simulation.experiment import Experiment, make_experiment, refresh_for
from armrace.simulation.results import MEASURES
from armrace.statistics import standard_error


class Effort(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a search.

    The opening has several rungs: each keeps the best attacks so far and plays some replications
    more of each. Then ``generations`` of an evolution vary the best
    ``parents``. The best ``finalists`` are compared on seeds of their own; the winner is frozen
    and confirmed, next to the best built-in attack, on seeds that took no part.
    """

    rungs: tuple[tuple[int, int], ...]
    """For each rung the number of attacks kept and the replications added of each."""
    parents: int
    children: int
    generations: int
    replications: int
    """Replications of each parent and child in each generation."""
    finalists: int
    selecting: int
    confirming: int

    @property
    def searching(self) -> int:
        """Replications of the opening and of the evolution."""
        opening = sum(kept * added for kept, added in self.rungs)
        return opening + self.generations * (self.parents + self.children) * self.replications

    @property
    def total(self) -> int:
        """All replications: of searching, selecting and confirming."""
        return self.searching + self.finalists * self.selecting + 2 * self.confirming


EFFORTS: dict[str, Effort] = {
    "quick": Effort(
        # Two replications of each attack at first: one alone often drops the best.
        rungs=((56, 2), (16, 4), (6, 8)),
        parents=3,
        children=4,
        generations=3,
        replications=4,
        finalists=3,
        selecting=24,
        confirming=60,
    ),
    "usual": Effort(
        rungs=((96, 2), (40, 4), (16, 10)),
        parents=4,
        children=8,
        generations=6,
        replications=8,
        finalists=5,
        selecting=60,
        confirming=200,
    ),
    "full": Effort(
        rungs=((200, 3), (80, 8), (32, 20)),
        parents=6,
        children=14,
        generations=14,
        replications=14,
        finalists=8,
        selecting=200,
        confirming=1000,
    ),
}


def find_effort(name: str) -> Effort:
    """The effort of this name, or an error that suggests the nearest."""
    if name not in EFFORTS:
        raise UnknownName.among("effort", name, EFFORTS)
    return EFFORTS[name]


Objective = Literal["mean", "p95"]
OBJECTIVES: tuple[Objective, ...] = ("mean", "p95")

Floats = npt.NDArray[np.float64]


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A policy under attack, and what the attacker wants to be large."""

    policy: Policy
    environment: Environment
    budget: float
    horizon: int
    measure: str = "pseudo_regret"
    objective: Objective = "mean"
    account: str = "largest"

    def __post_init__(self) -> None:
        if self.measure not in MEASURES:
            raise UnknownName.among("measure", self.measure, MEASURES)
        if self.objective not in OBJECTIVES:
            raise UnknownName.among("objective", self.objective, OBJECTIVES)
        if not self.budget > 0:
            raise InvalidParameter(f"budget must be above 0; got {self.budget:g}.")
        self.experiment("none", 1, 0)  # refused here, not after the first simulations

    def experiment(self, attack: Adversary | str, replications: int, seed: int) -> Experiment:
        """The experiment in which an attack is tried.

        An attack that looks at a costly distribution, such as Thompson sampling's, sees one that
        is computed now and then; see :func:`armrace.simulation.experiment.refresh_for`.
        """
        made = attack if isinstance(attack, Adversary) else None
        return make_experiment(
            policy=self.policy,
            environment=self.environment,
            adversary=attack,
            budget=self.budget,
            horizon=self.horizon,
            replications=replications,
            seed=seed,
            account=self.account,
            refresh=0.0 if made is None else refresh_for(self.policy, made),
        )

    def setting(self) -> Setting:
        """What an attacker knows before the first round."""
        return self.experiment("none", 1, 0).setting()._replace(budget=float(self.budget))

    def value(self, sample: Floats) -> float:
        """What the attacker wants to be large, of a sample of the measure."""
        return float(sample.mean() if self.objective == "mean" else np.quantile(sample, 0.95))

    def cautious_value(self, sample: Floats) -> float:
        """The value less one standard error: what attacks are ranked by.

        Regrets under attack have heavy tails. Ranked by plain means, the luckiest of many attacks
        would win, and its held-out figure would be far below.
        """
        return self.value(sample) - standard_error(sample)

    @property
    def sees_arm(self) -> bool:
        """Whether attacks see the arm before they answer, and pay for what is seen alone."""
        return self.account == "seen"

    def model(self) -> str:
        """Name the account in words, where it is not the paper's; empty where it is."""
        return "by attacks that see the arm, charged for what is seen" if self.sees_arm else ""

    def all_lost(self) -> float:
        """The pseudo-regret of playing the worst arm in every round."""
        means = self.setting().means
        return float(self.horizon * (means.max() - means.min()))

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        data = {field: getattr(self, field) for field in self.__struct_fields__}
        return {
            **data,
            "policy": self.policy.to_builtins(),
            "environment": self.environment.to_builtins(),
        }
