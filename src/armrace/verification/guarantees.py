"""The guarantee of each race: the corruption that layers tolerate, plays of arms, and regret.

A race is checked against the guarantee of its class, so that a user's policy that derives from one
of these is checked against the same guarantee; the first class that matches counts. A new race
needs a line in ``GUARANTEES``, before the race from which it derives if its guarantee differs, and
one in ``CHECKED``, where ``{"name": ..., "delta": DELTA, ...}`` sets parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.errors import InvalidParameter
from armrace.policies import (
    POLICIES,
    ActiveArmElimination,
    EnlargedArmElimination,
    FastSlowRace,
    Guarded,
    MultiLayerRace,
    Policy,
    SharpRace,
)
from armrace.theory import RegretBound
from armrace.verification.rules import (
    Rule,
    elimination_rule,
    fast_slow_rule,
    guard_rule,
    race_rule,
    sharp_race_rule,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
DELTA = 0.1
"""The failure probability at which races are checked; large, so that failures would show."""

_NOTHING = 1e-9


class Guarantee(NamedTuple):
    """What holds with probability ``1 - delta`` for a race, and which statements say so."""

    rule: Callable[[Any, int, int], Rule]
    """From policy, arms and horizon, what the theorem prescribes for each layer."""
    plays: Callable[[Any, float, int, int], Sequence[float]]
    """From policy, gap, arms and horizon, the most plays of an arm in each tolerant layer."""
    regret: Callable[[Any, Sequence[float], int, float], RegretBound]
    """From policy, gaps, horizon and corruption spent, a bound on the regret."""
    theorem: str
    """Which statement bounds the regret."""
    survival: str = "Lemma 1 of the paper"
    """Which statement says that intervals hold and the best arm survives."""
    deletion: str = "Lemma 2 of the paper"
    """Which statement says that bad arms are deleted in time."""
    thinning: str = "Lemma 3 of the paper"
    """Which statement bounds the corruption that a layer meets."""
    robust: bool = True
    """Whether it promises anything under corruption."""
    subsampled: bool = False
    """Whether layers meet only a share of the corruption."""
    allowances: Callable[[Any, int, int], Floats] | None = None
    """From policy, arms and horizon, what each tolerant layer and all slower ones meet at most;
    by default a layer with its share of the corruption meets what the paper's lemma says."""
    regret_failure: float = 1.0
    """The probability with which the regret bound may fail, in units of ``delta``."""


class Subject(NamedTuple):
    """A race to be checked, its guarantee, and its label."""

    label: str
    policy: Policy
    guarantee: Guarantee

    @property
    def told(self) -> bool:
        """Whether the race takes a bound on the corruption as a parameter."""
        return hasattr(self.policy, "corruption")

    def facing(self, corruption: float) -> Policy:
        """Return the policy, with this bound on the corruption if it takes one."""
        if self.told:
            return msgspec.structs.replace(self.policy, corruption=float(corruption))
        return self.policy

    @property
    def delta(self) -> float:
        """The failure probability that it was given."""
        return float(self.policy.delta)  # type: ignore[attr-defined]  # every race has one

    @property
    def regret_failure(self) -> float:
        """The probability with which its regret may exceed the bound."""
        return self.guarantee.regret_failure * self.delta

    def tolerant(self, policy: Policy, arms: int, horizon: int, spent: Floats) -> Bools:
        """Return which layers (columns) tolerate the corruption spent in each run (row)."""
        limits = self.guarantee.rule(policy, arms, horizon).tolerated
        return np.asarray(spent[:, None] <= limits + _NOTHING)

    def bound(self, gaps: Sequence[float], horizon: int, corruption: float) -> RegretBound:
        """Return the regret bound under this corruption, given to the race if it takes it."""
        return self.guarantee.regret(self.facing(corruption), gaps, horizon, corruption)


def _elimination_plays(policy: Any, gap: float, arms: int, horizon: int) -> list[float]:
    log_term = theory.elimination_log_term(arms, horizon, policy.delta)
    return [theory.plays_until_deleted(gap, log_term, getattr(policy, "corruption", 0.0))]


def _fast_slow_plays(policy: Any, gap: float, arms: int, horizon: int) -> list[float]:
    log_term = theory.fast_slow_log_term(arms, horizon, policy.delta)
    return [theory.plays_until_deleted(gap, log_term, c) for c in (0.0, 2 * log_term)]


def _race_plays(policy: Any, gap: float, arms: int, horizon: int) -> list[float]:
    layers = policy.layer_count(arms, horizon)
    log_term = theory.race_log_term(arms, horizon, policy.delta, layers)
    return [theory.plays_until_deleted(gap, log_term, log_term)] * layers


def _fast_slow_regret(
    policy: Any, gaps: Sequence[float], horizon: int, spent: float
) -> RegretBound:
    if spent <= _NOTHING:
        return theory.fast_slow_stochastic_regret(gaps, horizon, policy.delta)
    return theory.fast_slow_regret(gaps, horizon, policy.delta, policy.corruption)


def _race_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> RegretBound:
    rule = race_rule(policy, len(gaps) + 1, horizon)
    tolerance = None if policy.intervals == "paper" else 1.0
    return theory.agnostic_regret(
        gaps, horizon, policy.delta, spent, rule.share.tolist(), tolerance
    )


def _sharp_plays(policy: Any, gap: float, arms: int, horizon: int) -> list[float]:
    """Return the most plays of an arm in each layer.

    These are all plays of the layer until its turns suffice to delete the arm, since the arm may
    have been the layer's leader all the time.
    """
    return [
        (1 + policy.lead) * arms * theory.sharp_plays_until_deleted(gap, layer)
        for layer in theory.sharp_layers(
            arms, horizon, policy.delta, policy.first, policy.most_corruption
        )
    ]


def _sharp_allowances(policy: Any, arms: int, horizon: int) -> Floats:
    return sharp_race_rule(policy, arms, horizon).allowance


def _sharp_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> RegretBound:
    return theory.sharp_regret(
        gaps, horizon, policy.delta, spent, policy.lead, policy.first, policy.most_corruption
    )


def _guard_plays(policy: Any, gap: float, arms: int, horizon: int) -> list[float]:
    """Return the most plays of an arm in each layer: all rounds of the layer until it is deleted.

    The base may have played this arm in every round that was not a turn.
    """
    layers = theory.guard_layers(arms, horizon, policy.delta, policy.share, policy.first)
    return [
        (1 + policy.lead) * arms * theory.sharp_plays_until_deleted(gap, layer) for layer in layers
    ]


def _guard_allowances(policy: Any, arms: int, horizon: int) -> Floats:
    return guard_rule(policy, arms, horizon).allowance


def _guarded_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> RegretBound:
    return theory.guarded_regret(
        gaps, horizon, policy.delta, spent, policy.share, policy.lead, policy.first
    )


GUARANTEES: Mapping[type[Policy], Guarantee] = {
    ActiveArmElimination: Guarantee(
        rule=elimination_rule,
        plays=_elimination_plays,
        regret=lambda policy, gaps, horizon, spent: theory.known_corruption_regret(
            gaps, horizon, policy.delta
        ),
        theorem="Theorem 1",
        robust=False,
    ),
    EnlargedArmElimination: Guarantee(
        rule=elimination_rule,
        plays=_elimination_plays,
        regret=lambda policy, gaps, horizon, spent: theory.known_corruption_regret(
            gaps, horizon, policy.delta, policy.corruption
        ),
        theorem="Theorem 1",
    ),
    FastSlowRace: Guarantee(
        rule=fast_slow_rule,
        plays=_fast_slow_plays,
        regret=_fast_slow_regret,
        theorem="Theorem 2",
        subsampled=True,
    ),
    MultiLayerRace: Guarantee(
        rule=race_rule,
        plays=_race_plays,
        regret=_race_regret,
        theorem="Theorem 3",
        subsampled=True,
    ),
    SharpRace: Guarantee(
        rule=sharp_race_rule,
        plays=_sharp_plays,
        regret=_sharp_regret,
        theorem="Theorem B",
        survival="Theorem A",
        deletion="Lemma 4",
        thinning="Lemma 1",
        subsampled=True,
        allowances=_sharp_allowances,
    ),
    Guarded: Guarantee(
        rule=guard_rule,
        plays=_guard_plays,
        regret=_guarded_regret,
        theorem="Theorem C",
        survival="Theorem A",
        deletion="Lemma 4",
        thinning="Lemma 1",
        subsampled=True,
        allowances=_guard_allowances,
    ),
}


def _refine(policy: Policy, guarantee: Guarantee) -> Guarantee:
    """Return the guarantee of the multi-layer race with other intervals than the paper's.

    Intervals and allowances spend all of ``delta``. The bound on the regret also needs an event of
    probability ``1 - delta/2`` about the layers' coins, so that it holds with probability
    ``1 - 3 delta/2``.
    """
    if isinstance(policy, MultiLayerRace) and policy.intervals != "paper":
        return guarantee._replace(survival="Theorem A", thinning="Lemma 1", regret_failure=1.5)
    return guarantee


CHECKED: tuple[str | Mapping[str, Any], ...] = (
    "active-arm-elimination",
    "enlarged-arm-elimination",
    "fast-slow-race",
    "multi-layer-race",
    "sharp-race",
    "guarded",
)
"""The races that are checked unless others are asked for, by name or with parameters."""

CHECKED_AT_LENGTH: tuple[str | Mapping[str, Any], ...] = (
    *CHECKED,
    {"name": "guarded", "delta": DELTA, "base": "thompson", "share": 1, "lead": 3},
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "hoeffding"},
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "bernstein"},
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "kl"},
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "kl-mixture", "pool": True},
    {"name": "multi-layer-race", "delta": DELTA, "intervals": "kl-jeffreys", "pool": True},
)
"""With them in the full form, every kind of interval."""


def make_policy(description: Policy | str | Mapping[str, Any]) -> Policy:
    """Make a policy, with the ``delta`` of the checks if it is given by its name alone."""
    if not isinstance(description, str):
        return POLICIES.make(description)
    policy: Policy = POLICIES.find(description).from_parameters({})
    return msgspec.structs.replace(policy, delta=DELTA) if hasattr(policy, "delta") else policy


def make_subject(description: Policy | str | Mapping[str, Any]) -> Subject:
    """A race to be checked."""
    policy = make_policy(description)
    for kind, guarantee in GUARANTEES.items():
        if isinstance(policy, kind):
            return Subject(label_of(policy), policy, _refine(policy, guarantee))
    races = ", ".join(kind.tag() for kind in GUARANTEES)
    raise InvalidParameter(
        f"policies must be races whose guarantees are known ({races}); got {policy.tag()}."
    )


def label_of(policy: Policy) -> str:
    """Return the policy's name with the parameters that differ from the defaults."""
    usual = {parameter.name: parameter.default for parameter in policy.parameters()}
    skipped = {"name", "delta", "corruption"}
    given = {name: _in_short(value) for name, value in policy.to_builtins().items()}
    own = [
        f"{name}={value}"
        for name, value in given.items()
        if name not in skipped and value != usual[name]
    ]
    return f"{policy.tag()} ({', '.join(own)})" if own else policy.tag()


def _in_short(value: Any) -> Any:
    """Return a parameter as its default is given: a policy without parameters by its name."""
    if not isinstance(value, dict) or "name" not in value:
        return value
    usual = POLICIES.make(value["name"]).to_builtins()
    return value["name"] if value == usual else value
