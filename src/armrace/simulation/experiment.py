"""The specification of an experiment: everything that is needed to run it again."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, NoAttack, Setting
from armrace.environments import ENVIRONMENTS, Bernoulli, Environment
from armrace.errors import InvalidParameter
from armrace.forensics.audit import LEVEL
from armrace.policies import POLICIES, Policy
from armrace.randomness import MAXIMAL_SEED
from armrace.specification import MAXIMAL_HORIZON, Limits, Specification

__all__ = ["MAXIMAL_REPLICATIONS", "Experiment", "checkpoints_for", "make_experiment"]

_CHECKPOINTS_A_DECADE = 8
MAXIMAL_REPLICATIONS = 2**32 - 1


class Experiment(Specification, frozen=True, tag="experiment", kw_only=True):
    """One policy in one environment under one attack."""

    policy: Policy
    environment: Environment
    adversary: Adversary
    budget: Annotated[float, Limits("the most that the attack may spend", 0)]
    horizon: Annotated[int, Limits("rounds", 1, MAXIMAL_HORIZON)]
    replications: Annotated[int, Limits("independent runs", 1, MAXIMAL_REPLICATIONS)]
    seed: Annotated[int, Limits("seed of all randomness", 0, MAXIMAL_SEED)]
    engine: Annotated[
        Literal["auto", "plain", "leap"],
        "whether rounds that cannot matter are skipped: exact in law, with other random numbers",
    ] = "auto"
    audit: Annotated[float | None, LEVEL] = None

    def validate(self) -> None:
        self.environment.check_horizon(self.horizon)
        self.adversary.check(self.setting())

    def to_builtins(self) -> dict[str, Any]:
        """Return the arguments of ``simulate`` that run it again, as plain data."""
        data = super().to_builtins()
        del data["name"]
        for part in ("policy", "environment", "adversary"):
            data[part] = getattr(self, part).to_builtins()  # a class may name itself otherwise
        if self.audit is None:
            del data["audit"]
        return data

    def setting(self) -> Setting:
        """Return what the adversary knows before the first round."""
        means, support = self.environment.mean_rewards(self.horizon), self.environment.support()
        return Setting(means, self.horizon, float(self.budget), self.policy, support)


def make_experiment(
    *,
    policy: Policy | str | Mapping[str, Any],
    environment: Environment | Mapping[str, Any] | npt.ArrayLike,
    adversary: Adversary | str | Mapping[str, Any] = "none",
    budget: float | None = None,
    horizon: float = 100_000,
    replications: int = 100,
    seed: int = 0,
    engine: str = "auto",
    audit: float | None = None,
) -> Experiment:
    """Make an experiment of specifications, names or plain data; see :func:`simulate`."""
    attack = ADVERSARIES.make(adversary)
    if budget is None and not isinstance(attack, NoAttack):
        raise InvalidParameter(f"{attack.tag()} needs a budget, the most that it may spend.")
    return Experiment(
        policy=POLICIES.make(policy),
        environment=_environment(environment),
        adversary=attack,
        budget=0.0 if budget is None else budget,
        horizon=_whole("horizon", horizon),
        replications=_whole("replications", replications),
        seed=seed,
        engine=engine,  # type: ignore[arg-type]  # the specification refuses other words
        audit=audit,
    )


def _environment(given: Environment | Mapping[str, Any] | npt.ArrayLike) -> Environment:
    if isinstance(given, (Environment, Mapping, str)):
        return ENVIRONMENTS.make(given)
    try:
        means = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter("environment must be an environment or a list of means.") from None
    if means.ndim != 1:
        raise InvalidParameter("environment must be an environment or a list of means.")
    return Bernoulli(means=tuple(means.tolist()))


def _whole(name: str, value: float) -> int:
    """Return a whole number, also of a float such as 1e6; other types are refused later."""
    if isinstance(value, float) and math.isfinite(value):
        if value != int(value):
            raise InvalidParameter(f"{name} must be a whole number; got {value:g}.")
        return int(value)
    return value  # type: ignore[return-value]  # the specification refuses what is no whole number


def checkpoints_for(horizon: int) -> npt.NDArray[np.int64]:
    """Return the rounds after which the ledger is recorded: log-spaced, ending with the horizon.

    >>> checkpoints_for(20)
    array([ 1,  2,  3,  4,  6,  7, 10, 13, 18, 20])
    """
    count = 1 + math.ceil(_CHECKPOINTS_A_DECADE * math.log10(horizon)) if horizon > 1 else 1
    exponents = np.arange(count) / _CHECKPOINTS_A_DECADE
    points = np.minimum(np.rint(10.0**exponents), horizon).astype(np.int64)
    return np.unique(np.append(points, horizon))
