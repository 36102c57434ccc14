"""The specification of an experiment, with all that is needed to run it again."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary, Setting
from armrace.adversaries.plain import NoAttack
from armrace.audit.auditing import LEVEL
from armrace.environments import ENVIRONMENTS, Environment
from armrace.environments.base import check_sizes
from armrace.environments.laws import Bernoulli
from armrace.errors import InvalidParameter
from armrace.formatting import percent
from armrace.limits import Limits
from armrace.policies import POLICIES, Policy
from armrace.randomness import MAXIMAL_SEED
from armrace.specification import MAXIMAL_HORIZON, Specification

USUAL_REFRESH = 0.03
"""Plans, the arena and sweeps compute a costly distribution again for the attack when an arm's
plays have grown by this share, and the rounds by a third of it."""

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
    account: Annotated[
        Literal["largest", "seen"],
        "what a round costs the attack: its largest change, as in the paper; or the change of the "
        "drawn arm alone, for an attacker who sees the arm before answering",
    ] = "largest"
    refresh: Annotated[
        float,
        Limits(
            "share by which an arm's plays, and by a third of it the rounds, must grow before a "
            "costly distribution is computed again for an attack that looks at it; 0: every round",
            0,
            1,
        ),
    ] = 0.0

    def validate(self) -> None:
        self.environment.check_horizon(self.horizon)
        self._check_range()
        setting = self.setting()
        check_sizes(self.environment, setting.means, setting.support, self.horizon)
        self.adversary.check(setting)

    def to_builtins(self) -> dict[str, Any]:
        """Return the arguments of ``simulate`` that run it again, as plain data."""
        data = super().to_builtins()
        del data["name"]
        for part in ("policy", "environment", "adversary"):
            data[part] = getattr(self, part).to_builtins()  # a class may name itself otherwise
        if self.audit is None:
            del data["audit"]
        if self.account == "largest":
            del data["account"]
        if refresh_for(self.policy, self.adversary) == 0 or self.refresh == 0:
            del data["refresh"]  # it changes nothing here
        return data

    def setting(self) -> Setting:
        """Return the setting: what the adversary knows before the first round."""
        # An environment of the user's may give whole numbers, or a list.
        means = np.array(self.environment.mean_rewards(self.horizon), dtype=np.float64)
        support = self.environment.support()
        known = (means, self.horizon, float(self.budget), self.policy, support)
        return Setting(*known, *self.environment.reward_range())

    def _check_range(self) -> None:
        """Refuse rewards outside [0, 1] where something relies on that range."""
        low, high = self.environment.reward_range()
        if low >= 0.0 and high <= 1.0:
            return
        paid = f"{self.environment.tag()} pays rewards in [{low:g}, {high:g}]"
        if not self.policy.takes_any_reward:
            able = [name for name, each in POLICIES.items() if each.takes_any_reward]
            raise InvalidParameter(
                f"{self.policy.tag()} takes rewards in [0, 1], and {paid}; policies that take any "
                f"are {', '.join(able)}."
            )
        if self.audit is not None:
            raise InvalidParameter(f"an audit takes rewards in [0, 1], and {paid}; leave it out.")


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
    account: str = "largest",
    refresh: float = 0.0,
) -> Experiment:
    """Make an experiment of specifications, names or data, as for :func:`armrace.simulate`."""
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
        account=account,  # type: ignore[arg-type]
        refresh=refresh,
    )


def refresh_for(policy: Policy, attack: Adversary) -> float:
    """Return the ``refresh`` that plans, sweeps and the arena use for a policy and an attack.

    A policy such as Thompson sampling needs integrals to compute its distribution, which take as
    long as hundreds of rounds. The distribution of every other policy is computed in every round,
    and attacks that do not read it do not need it.

    >>> refresh_for(POLICIES.make("thompson"), ADVERSARIES.make("zero-best-when-likely"))
    0.03
    """
    costly = attack.sees_weights and not policy.exact_tickets
    return USUAL_REFRESH if costly else 0.0


def refresh_words(labels: Sequence[str], growth: float) -> str:
    """Say in words what attacks see of policies whose distribution is not computed every round.

    >>> refresh_words(["thompson"], 0.03)[:59]
    'Attacks see the probabilities of thompson slightly outdated'
    """
    if not labels:
        return ""
    return (
        f"Attacks see the probabilities of {', '.join(labels)} slightly outdated, since they are "
        f"slow to compute: anew only when an arm has {percent(growth)} more plays."
    )


def _environment(given: Environment | Mapping[str, Any] | npt.ArrayLike) -> Environment:
    if isinstance(given, (Environment, Mapping, str)):
        return ENVIRONMENTS.make(given)
    refusal = InvalidParameter("environment must be an environment or a list of means.")
    try:
        numbers = np.asanyarray(given)
        # NumPy would drop imaginary parts, and use what a mask hides.
        if numbers.ndim != 1 or numbers.dtype.kind == "c" or np.ma.is_masked(numbers):
            raise refusal
        means = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError):
        raise refusal from None
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
