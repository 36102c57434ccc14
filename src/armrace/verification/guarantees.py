"""What is prescribed for each race and guard, and what its theorem promises.

The prescribed shares, log terms and allowances come from the theorems and the parameters of the
policy alone, never from its running state, so that a state that differs is detected. The interval
ends are computed a second time, in plain Python and by another method than in the compiled code.

A race is checked against the guarantee of its class, so that a policy of a user that derives from
one of these is checked against the same guarantee; the first class that matches counts. A new race
needs a line in ``GUARANTEES``, before the race from which it derives if its guarantee differs, and
one in ``CHECKED``, where ``{"name": ..., "delta": DELTA, ...}`` sets parameters.
"""

from __future__ import annotations

import math
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
from armrace.statistics.proportions import bisect
from armrace.theory import RegretBound

Floats = npt.NDArray[np.float64]

AT_ALL_TIMES = ("kl-mixture", "kl-jeffreys")
"""The kinds of intervals that hold for all numbers of rewards at once."""

_HALVINGS = 100


class PrescribedRace(NamedTuple):
    """A race as its theorem prescribes it; arrays have an entry for each layer, fastest first."""

    kind: str
    share: Floats
    log_lower: Floats
    log_upper: Floats
    allowance: Floats
    tolerated: Floats
    """The corruption up to which each layer is guaranteed to keep the best arm."""
    intervals_part: float
    """The failure probability that the intervals of all layers may spend together."""
    allowances_part: float
    """The failure probability that the allowances of all layers may spend together."""
    pooled: bool = False
    lead: int = 0

    @property
    def used_share(self) -> Floats:
        """The share of the rounds whose rewards each layer uses."""
        return used_share(self.share, self.pooled)


def used_share(share: Floats, pooled: bool) -> Floats:
    """The share of the rounds whose rewards each layer uses: its own, or its own and all slower.

    >>> used_share(np.array([0.75, 0.25]), pooled=True).tolist()
    [1.0, 0.25]
    """
    return np.asarray(np.cumsum(share[::-1])[::-1]) if pooled else share


def elimination_rule(policy: Any, arms: int, horizon: int) -> PrescribedRace:
    """Arm elimination of Theorem 1, with its corruption as the allowance."""
    log_term = np.array([theory.elimination_log_term(arms, horizon, policy.delta)])
    allowance = np.array([float(getattr(policy, "corruption", 0.0))])
    part = policy.delta / 2
    return PrescribedRace(
        "paper", np.ones(1), log_term, log_term, allowance, allowance, part, allowances_part=0.0
    )


def fast_slow_rule(policy: Any, arms: int, horizon: int) -> PrescribedRace:
    """The two layers of Theorem 2."""
    log_term = theory.fast_slow_log_term(arms, horizon, policy.delta)
    told = max(policy.corruption, 1.0)
    log_terms, part = np.full(2, log_term), policy.delta / 8
    allowances = [0.0, 2 * log_term]
    return PrescribedRace(
        kind="paper",
        share=np.array([1 - 1 / told, 1 / told]),
        log_lower=log_terms,
        log_upper=log_terms,
        allowance=np.array(allowances),
        tolerated=np.array(theory.layer_tolerances([0.0, told], allowances)),
        intervals_part=part,
        allowances_part=part,
    )


def race_rule(policy: Any, arms: int, horizon: int) -> PrescribedRace:
    """The layers of Theorem 3, with the paper's intervals or with sharper ones."""
    layers, delta = policy.layer_count(arms, horizon), policy.delta
    share = np.asarray(policy.base ** -np.arange(1.0, layers + 1))
    share[0] = 1 - share[1:].sum()
    if policy.intervals == "paper":
        log_term = theory.race_log_term(arms, horizon, delta, layers)
        allowance = log_terms = np.full(layers, log_term)
        tolerated = theory.race_tolerances(arms, horizon, delta, share.tolist())
        intervals_part = allowances_part = delta / 8
    else:
        log_term = math.log(2 * arms * layers / delta)
        if policy.intervals not in AT_ALL_TIMES:
            log_term += math.log((4 if policy.intervals == "bernstein" else 2) * horizon)
        log_terms = np.full(layers, log_term)
        ratios = used_share(share, policy.pool) / share
        certainty = math.log(2 * layers / delta)
        allowance = np.array([theory.corruption_allowance(r, certainty) for r in ratios.tolist()])
        tolerated = theory.layer_tolerances((1 / share).tolist(), allowance.tolist())
        intervals_part = allowances_part = delta / 2
    return PrescribedRace(
        kind=policy.intervals,
        share=share,
        log_lower=log_terms,
        log_upper=log_terms,
        allowance=allowance,
        tolerated=np.array(tolerated),
        intervals_part=intervals_part,
        allowances_part=allowances_part,
        pooled=policy.pool,
    )


def sharp_race_rule(policy: Any, arms: int, horizon: int) -> PrescribedRace:
    """The layers of Theorem B."""
    return _pooled_rule(policy, _sharp_layers(policy, arms, horizon))


def _sharp_layers(policy: Any, arms: int, horizon: int) -> Sequence[theory.SharpLayer]:
    return theory.sharp_layers(arms, horizon, policy.delta, policy.first, policy.most_corruption)


def guard_rule(policy: Any, arms: int, horizon: int) -> PrescribedRace:
    """The layers of Theorem C; the rounds that no layer gets are the base policy's."""
    return _pooled_rule(policy, guard_layers(policy, arms, horizon))


def guard_layers(policy: Any, arms: int, horizon: int) -> Sequence[theory.SharpLayer]:
    """The layers of a guard."""
    return theory.guard_layers(arms, horizon, policy.delta, policy.share, policy.first)


def _pooled_rule(policy: Any, layers: Sequence[theory.SharpLayer]) -> PrescribedRace:
    tolerated = theory.layer_tolerances(
        [layer.tolerated for layer in layers], [layer.allowance for layer in layers]
    )
    return PrescribedRace(
        kind="kl-jeffreys",
        share=np.array([layer.share for layer in layers]),
        log_lower=np.array([layer.log_lower for layer in layers]),
        log_upper=np.array([layer.log_upper for layer in layers]),
        allowance=np.array([layer.allowance for layer in layers]),
        tolerated=np.array(tolerated),
        intervals_part=policy.delta / 3,
        allowances_part=policy.delta / 3,
        pooled=True,
        lead=policy.lead,
    )


def ends(rule: PrescribedRace, layer: int, pulls: float, total: float) -> tuple[float, float]:
    """The prescribed interval of a layer after rewards of 0 and 1 with the given sum."""
    mean, shift = total / pulls, rule.allowance[layer] / pulls
    lower, upper = rule.log_lower[layer], rule.log_upper[layer]
    if rule.kind in ("kl", *AT_ALL_TIMES):
        extra = _extra(rule.kind, pulls)
        return (
            _kl_end(max(0.0, mean - shift), 0.0, (lower + extra) / pulls),
            _kl_end(min(1.0, mean + shift), 1.0, (upper + extra) / pulls),
        )
    width = {"paper": _paper, "hoeffding": _hoeffding, "bernstein": _bernstein}[rule.kind]
    spread = math.sqrt(max(0.0, total - total * total / pulls)) + math.sqrt(rule.allowance[layer])
    return (
        mean - shift - width(pulls, lower, spread),
        mean + shift + width(pulls, upper, spread),
    )


def _paper(pulls: float, log_term: float, spread: float) -> float:
    return math.sqrt(log_term / pulls)


def _hoeffding(pulls: float, log_term: float, spread: float) -> float:
    return math.sqrt(log_term / (2 * pulls))


def _bernstein(pulls: float, log_term: float, spread: float) -> float:
    """The smaller of Hoeffding's width and that of Maurer and Pontil."""
    widest = _hoeffding(pulls, log_term, spread)
    if pulls < 2:
        return widest
    h = log_term + math.log(2)
    return min(widest, spread * math.sqrt(2 * h / pulls / (pulls - 1)) + 7 * h / (3 * (pulls - 1)))


def _extra(kind: str, pulls: float) -> float:
    if kind == "kl-mixture":
        return math.log(pulls + 1)
    return math.log(math.pi * (pulls + 0.5)) / 2 if kind == "kl-jeffreys" else 0.0


def _kl_end(mean: float, end: float, limit: float) -> float:
    """The mean towards ``end`` whose divergence from ``mean`` is ``limit``, by halving."""
    return bisect(lambda q: _divergence(mean, q) <= limit, mean, end, _HALVINGS)[0]


def _divergence(p: float, q: float) -> float:
    """The divergence of Bernoulli laws; infinite where ``q`` rules out what ``p`` allows."""
    first = 0.0 if p == 0 else math.inf if q == 0 else p * math.log(p / q)
    second = 0.0 if p == 1 else math.inf if q == 1 else (1 - p) * math.log((1 - p) / (1 - q))
    return first + second


Bools = npt.NDArray[np.bool_]
DELTA = 0.1
"""The failure probability at which races are checked; large, so that failures would show."""

_NOTHING = 1e-9


class RaceGuarantee(NamedTuple):
    """What holds with probability ``1 - delta`` for a race, and which statements say so."""

    rule: Callable[[Any, int, int], PrescribedRace]
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
    has_allowances: bool = False
    """Whether a tolerant layer and all slower ones meet at most its allowance; by default a layer
    with its share of the corruption meets what the paper's lemma says."""
    regret_failure: float = 1.0
    """The probability with which the regret bound may fail, in units of ``delta``."""


class Subject(NamedTuple):
    """A race to be checked, its guarantee, and its label."""

    label: str
    policy: Policy
    guarantee: RaceGuarantee

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


def _turns(policy: Any, gap: float, layers: Sequence[theory.SharpLayer], arms: int) -> list[float]:
    """Return the most plays of an arm in each layer of a sharp race or of a guard.

    These are all plays of the layer until its turns suffice to delete the arm, since the leader, or
    the base of a guard, may have played it in every round that was not a turn.
    """
    return [
        (1 + policy.lead) * arms * theory.sharp_plays_until_deleted(gap, layer) for layer in layers
    ]


def _sharp_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> RegretBound:
    return theory.sharp_regret(
        gaps, horizon, policy.delta, spent, policy.lead, policy.first, policy.most_corruption
    )


def _guarded_regret(policy: Any, gaps: Sequence[float], horizon: int, spent: float) -> RegretBound:
    return theory.guarded_regret(
        gaps, horizon, policy.delta, spent, policy.share, policy.lead, policy.first
    )


_SHARP = RaceGuarantee(
    rule=sharp_race_rule,
    plays=lambda policy, gap, arms, horizon: _turns(
        policy, gap, _sharp_layers(policy, arms, horizon), arms
    ),
    regret=_sharp_regret,
    theorem="Theorem B",
    survival="Theorem A",
    deletion="Lemma 4",
    thinning="Lemma 1",
    subsampled=True,
    has_allowances=True,
)

GUARANTEES: Mapping[type[Policy], RaceGuarantee] = {
    ActiveArmElimination: RaceGuarantee(
        rule=elimination_rule,
        plays=_elimination_plays,
        regret=lambda policy, gaps, horizon, spent: theory.known_corruption_regret(
            gaps, horizon, policy.delta
        ),
        theorem="Theorem 1",
        robust=False,
    ),
    EnlargedArmElimination: RaceGuarantee(
        rule=elimination_rule,
        plays=_elimination_plays,
        regret=lambda policy, gaps, horizon, spent: theory.known_corruption_regret(
            gaps, horizon, policy.delta, policy.corruption
        ),
        theorem="Theorem 1",
    ),
    FastSlowRace: RaceGuarantee(
        rule=fast_slow_rule,
        plays=_fast_slow_plays,
        regret=_fast_slow_regret,
        theorem="Theorem 2",
        subsampled=True,
    ),
    MultiLayerRace: RaceGuarantee(
        rule=race_rule,
        plays=_race_plays,
        regret=_race_regret,
        theorem="Theorem 3",
        subsampled=True,
    ),
    SharpRace: _SHARP,
    Guarded: _SHARP._replace(
        rule=guard_rule,
        plays=lambda policy, gap, arms, horizon: _turns(
            policy, gap, guard_layers(policy, arms, horizon), arms
        ),
        regret=_guarded_regret,
        theorem="Theorem C",
    ),
}


def _refine(policy: Policy, guarantee: RaceGuarantee) -> RaceGuarantee:
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
