"""The settings of an experiment, declared when it is created, and the grid of its rewards.

Learners take rewards in [0, 1]. A reward of the declared range is mapped there and rounded to a
multiple of 2^-20. Sums of such numbers are exact in double precision up to 2^33 rewards, so that
counts and sums do not depend on the order in which rewards come.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Container
from typing import Any, Literal

import msgspec

from armrace.contexts import Schema
from armrace.errors import ArmraceError, InvalidParameter, UnknownName
from armrace.kernels.generics import NO_FEATURES, ContextShape
from armrace.learner.arguments import check_arms, check_flag, check_horizon, check_seed
from armrace.limits import MOST_ARMS, Limits, check_number
from armrace.policies import POLICIES, Policy, recommended
from armrace.policies.common.counts import LeafPolicy
from armrace_client.operations import LABEL_BYTES, MOST_LABELS, Create, check_part

DROP: Literal["drop"] = "drop"
"""What :attr:`Settings.missing` says if a decision without a reward is to teach nothing."""

FIRST_HORIZON = 10_000
"""The first guess where no horizon is given; it doubles whenever it is reached."""

RECOMMENDED_IN_CONTEXT = "expert-barrier"
"""The policy of an experiment that declares features and names none."""

GRID = 2**20
"""Steps of the grid between the smallest and the largest reward."""

_MOST_CELLS, _MOST_COEFFICIENTS = 4096, 2**18
"""How many arms times leaves, and arms times squared coordinates, an experiment may have: its state
then takes some 16 MB at most."""
_NARROWEST, _NARROWEST_SHARE = 1e-290, 2.0**-32
"""How wide the range of rewards must be, at least and in parts of its larger end."""
_LONGEST_LABEL, _LONGEST_REASON = 200, 1000
_WINDOW = Limits("seconds in which a decision can be rewarded", 0, 10 * 366 * 86400, low_open=True)
_OPEN = Limits("decisions that may be open at once", 1, 10_000_000)
_FINITE = Limits("reward", -sys.float_info.max, sys.float_info.max)
_MOST_GUARDRAILS = 8
_HOLDOUT = Limits("share of decisions that are not left to the policy", 0, 0.5)
_SUSPICION = Limits("suspicion above which a reward is quarantined", 0, 1)
_SURROGATE = re.compile("[\ud800-\udfff]")
"""Half of a pair, which is not a character: a log cannot hold it."""


class RewardScale(msgspec.Struct, frozen=True):
    """The map between rewards as the user states them and steps of the grid.

    >>> scale = RewardScale(low=-1.0, high=3.0)
    >>> scale.steps(1.0), scale.reward(524288), RewardScale.learned(524288)
    (524288, 1.0, 0.5)
    """

    low: float = 0.0
    high: float = 1.0

    def steps(self, reward: Any, what: str = "reward") -> int:
        """Return the step of the grid that is nearest to a reward; refuse one out of range."""
        number = isinstance(reward, (int, float)) or hasattr(reward, "__float__")
        if not number or isinstance(reward, str):
            raise InvalidParameter(f"{what} must be a number; got {reward!r:.100}.")
        try:
            value = float(reward)
        except (OverflowError, TypeError, ValueError):
            check_number(what, reward, Limits(what, self.low, self.high))
            raise
        if not self.low <= value <= self.high:  # also refuses NaN
            short = f"{value:g}"
            # Six digits of 1.0000001 would read as if it were in the range.
            given = short if float(short) == value else repr(value)
            raise InvalidParameter(f"{what} must be in [{self.low:g}, {self.high:g}]; got {given}.")
        if self.low == 0.0 and self.high == 1.0:
            return round(value * GRID)
        # Halved, so that the width of a range such as [-1e308, 1e308] does not overflow.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return round(min(share, 1.0) * GRID)

    def reward(self, steps: float) -> float:
        """Return the reward, or the mean of rewards, that a number of steps stands for."""
        share = steps / GRID
        return self.low * (1.0 - share) + self.high * share

    @staticmethod
    def learned(steps: int) -> float:
        """Return the number in [0, 1] that a learner is given."""
        return steps / GRID


class Guardrail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number that is watched besides the reward, and never learned."""

    low: float
    high: float
    worse: Literal["higher", "lower"]
    limit: float | None = None
    """From where on its mean is too bad, if anywhere."""

    def scale(self) -> RewardScale:
        """Return the map between its values and their grid."""
        return RewardScale(self.low, self.high)


class Settings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What an experiment does; see :class:`armrace_client.operations.Create` for each setting."""

    arms: list[str]
    missing: float | Literal["drop"]
    policy: dict[str, Any]
    horizon: int | None
    window: float
    settle: Literal["window", "immediate"]
    rewards: tuple[float, float]
    floors: dict[str, float]
    quarantine: float | None
    most_open: int
    seed: int
    suspicion: tuple[float, float] = (0.0, 1.0)
    """The scores that mean honest and forged."""
    holdout: float = 0.0
    holdout_arm: str | None = None
    guardrails: dict[str, Guardrail] = {}
    accumulate: bool = False
    schema: Schema | None = None
    feature_key: bytes = b""
    """The secret by which texts fall into buckets; whoever knew it could choose texts that share
    one."""
    arm_codes: list[bytes] = []
    """The code of each arm's features, where arms have some."""

    @property
    def shape(self) -> ContextShape:
        """How large the contexts of decisions are."""
        return NO_FEATURES if self.schema is None else self.schema.shape

    def shown(self) -> dict[str, Any]:
        """Return the settings as plain data, without the secrets."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        # With the seed, decisions can be predicted.
        secrets = "seed", "feature_key", "arm_codes"
        return {name: data[name] for name in data if name not in secrets}

    def scale(self) -> RewardScale:
        """Return the map between rewards and the grid on which they are kept."""
        return RewardScale(*self.rewards)

    def suspicion_of(self, score: Any) -> float:
        """Return how suspicious a score is, from 0 to 1; refuse one that is not on the scale."""
        honest, forged = self.suspicion
        limits = Limits("suspicion", min(honest, forged), max(honest, forged))
        check_number("suspicion", score, limits)
        return (float(score) - honest) / (forged - honest)

    def metric_steps(self, metrics: Any) -> dict[str, int] | None:
        """Return numbers of guardrails on their grids, or refuse them."""
        if not metrics:
            return None
        if not isinstance(metrics, dict):
            raise InvalidParameter(f"metrics must give numbers by name; got {metrics!r:.100}.")
        for name in metrics:
            if name not in self.guardrails:
                raise UnknownName.among("guardrail", str(name)[:100], self.guardrails)
        return {
            name: self._steps(self.guardrails[name].scale(), value, f"metric {name!r}")
            for name, value in sorted(metrics.items())
        }

    def reward_steps(self, value: Any) -> int:
        """Return a reward on the grid, or refuse it."""
        return self._steps(self.scale(), value, "reward")

    def _steps(self, scale: RewardScale, value: Any, what: str) -> int:
        # A sum is limited to the range, and so is each of its parts.
        is_large = self.accumulate and isinstance(value, (int, float)) and value > scale.high
        return scale.steps(scale.high if is_large and value != math.inf else value, what)

    def window_milliseconds(self) -> int:
        """Return the window in the unit of the log's times, at least 1."""
        return max(1, round(self.window * 1000))

    def missing_steps(self) -> int | None:
        """Return what a missing reward counts as, on the grid; ``None`` if it is dropped."""
        return None if self.missing == DROP else self.scale().steps(self.missing)

    def make_policy(self) -> Policy:
        """Return the policy."""
        return POLICIES.make(self.policy)


def make_settings(create: Create, seed: int, feature_key: bytes = b"") -> Settings:
    """Check the settings of an experiment and return them as plain data.

    A message of refusal names the setting, its limits and its value.
    """
    what = "names of arms"
    names = [check_part(what, check_label(what, arm)) for arm in check_arms(create.arms)]
    check_arm_count(len(names))
    check_number("window", create.window, _WINDOW)
    check_number("most_open", create.most_open, _OPEN, whole=True)
    if create.settle not in ("window", "immediate"):
        raise InvalidParameter(
            f"settle must be one of window, immediate; got {create.settle!r:.100}."
        )
    quarantine, horizon = create.quarantine, create.horizon
    if quarantine is not None:
        check_number("quarantine", quarantine, _SUSPICION)
    if create.missing != DROP:
        check_number("missing", create.missing, _FINITE)
    schema = _schema(create)
    settings = Settings(
        arms=names,
        missing=DROP if create.missing == DROP else float(create.missing),
        policy=_policy_data(_policy_of(create, len(names))),
        horizon=None if horizon is None else check_horizon(horizon),
        window=float(create.window),
        settle=create.settle,
        rewards=_range("rewards", create.rewards),
        floors=_floors(create.floors, names),
        quarantine=None if quarantine is None else float(quarantine),
        most_open=int(create.most_open),
        seed=check_seed(seed),
        suspicion=_suspicion_scale(create.suspicion),
        holdout=_holdout(create, names),
        holdout_arm=create.holdout_arm,
        guardrails=_guardrails(create.guardrails),
        accumulate=check_flag("accumulate", create.accumulate),
        schema=schema,
        feature_key=feature_key,
        arm_codes=_arm_codes(create, names, schema, feature_key),
    )
    try:
        settings.missing_steps()
    except InvalidParameter:
        low, high = settings.rewards
        raise InvalidParameter(
            f"missing must be 'drop' or a reward in [{low:g}, {high:g}]; got {settings.missing}."
        ) from None
    if settings.accumulate:
        _check_sums(settings)
    # Made once, so that a policy which does not fit the horizon or the arms is refused here.
    policy = settings.make_policy()
    _check_size(policy, len(names), settings.shape)
    policy.start_with(len(names), settings.horizon or FIRST_HORIZON, settings.shape)
    return settings


def _suspicion_scale(given: Any) -> tuple[float, float]:
    if given is None:
        return 0.0, 1.0
    if not isinstance(given, dict) or set(given) != {"from", "to"}:
        raise InvalidParameter(f"suspicion must have from and to; got {given!r:.100}.")
    for name, score in given.items():
        check_number(f"suspicion {name}", score, _FINITE)
    if given["from"] == given["to"]:
        raise InvalidParameter(f"suspicion must lead to another score; got {given!r:.100}.")
    return float(given["from"]), float(given["to"])


def _holdout(create: Create, arms: list[str]) -> float:
    check_number("holdout", create.holdout, _HOLDOUT)
    if create.holdout_arm is not None:
        if create.holdout_arm not in arms:
            raise InvalidParameter(
                f"holdout_arm must be an arm of the experiment; got {create.holdout_arm!r:.100}."
            )
        if not create.holdout:
            raise InvalidParameter("holdout_arm needs a holdout; give its share.")
    return float(create.holdout)


def _schema(create: Create) -> Schema | None:
    if create.context is None:
        if create.leaves:
            raise InvalidParameter("leaves need features; declare them with context.")
        if not create.arm_features:
            return None
    schema = Schema.declare(
        create.context or {},
        create.leaves,
        create.missing_feature,
        create.arm_features,
        create.cross or (),
    )
    if not schema.features and not schema.arm_features:
        raise InvalidParameter("context must declare at least one feature; got none.")
    for name, feature in (schema.features | schema.arm_features).items():
        check_label("names of features", name)
        for value in getattr(feature, "values", ()):
            check_label(f"values of the feature {name!r}", value)
    return schema


def _arm_codes(create: Create, arms: list[str], schema: Schema | None, key: bytes) -> list[bytes]:
    """Encode the features of arms."""
    given = create.arm_values or {}
    if schema is None or not schema.arm_features:
        if given or create.cross:
            raise InvalidParameter("values of arms need features; declare them with arm_features.")
        return []
    check_arm_values("arm_values", given, arms)
    return [schema.encode_arm(given.get(arm) or {}, key) for arm in arms]


def check_arm_values(what: str, given: Any, arms: Container[str]) -> None:
    """Refuse features of arms that are not given by the names of arms."""
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        raise InvalidParameter(f"{what} must give features by arm; got {given!r:.100}.")
    for arm in given:
        if arm not in arms:
            raise InvalidParameter(f"{what} must name arms of the experiment; got {arm!r:.100}.")


def _check_size(policy: Policy, arms: int, shape: ContextShape) -> None:
    """Refuse a schema that the policy has no use for, or whose state would be too large."""
    if shape == NO_FEATURES:
        return
    tag = policy.tag()
    if not policy.takes_contexts:
        takers = ", ".join(sorted(name for name, kind in POLICIES.items() if kind.takes_contexts))
        raise InvalidParameter(f"{tag} takes no context; policies that do are {takers}.")
    if shape.of_arms and not policy.takes_arm_features:
        takers = ", ".join(sorted(n for n, kind in POLICIES.items() if kind.takes_arm_features))
        raise InvalidParameter(
            f"{tag} has no use for features of arms; policies that have are {takers}."
        )
    if isinstance(policy, LeafPolicy) and shape.leaves == 1:
        raise InvalidParameter(f"{tag} needs leaves: name the features that make segments.")
    check_rooms(arms, shape)


def check_rooms(arms: int, shape: ContextShape) -> None:
    """Refuse so many arms, or contexts so large, that others could not be served beside."""
    for what, given, most in (
        ("leaves", arms * shape.leaves, _MOST_CELLS),
        ("squared coordinates", arms * shape.dimension**2, _MOST_COEFFICIENTS),
    ):
        if shape != NO_FEATURES and given > most:
            raise InvalidParameter(f"arms times {what} must be at most {most:,}; got {given:,}.")


def read_settings(data: Any) -> Settings:
    """Return settings that a log holds as plain data."""
    try:
        return msgspec.convert(data, Settings)
    except (msgspec.ValidationError, ArmraceError) as error:
        raise InvalidParameter(f"the log has settings that cannot be read: {error}.") from None


def _policy_of(create: Create, arms: int) -> Any:
    if create.policy is not None:
        return create.policy
    alike = create.context is None and not create.arm_features
    return recommended(arms) if alike else RECOMMENDED_IN_CONTEXT


def _policy_data(policy: Any) -> dict[str, Any]:
    try:
        return POLICIES.make(policy).to_builtins()
    except RecursionError:  # policies that contain policies, hundreds of levels deep
        raise InvalidParameter("policy must not be nested as deep as this.") from None


def _range(what: str, ends: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in ends)
    except (OverflowError, TypeError, ValueError):
        raise InvalidParameter(
            f"{what} must be a range of two numbers; got {ends!r:.100}."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidParameter(
            f"{what} must be a range of two finite numbers, the smaller first; got {low}, {high}."
        )
    # Else neighbours on the grid, of which there are a million, would be the same number.
    least = max(_NARROWEST, _NARROWEST_SHARE * max(abs(low), abs(high)))
    if high / 2 - low / 2 < least / 2:
        raise InvalidParameter(
            f"{what} must be a range at least {least:g} wide; got {low}, {high}."
        )
    return low, high


def _check_sums(settings: Settings) -> None:
    """Refuse settings under which rewards cannot add up."""
    if settings.settle != "window":
        raise InvalidParameter("accumulate needs settle='window': a sum is known when it closes.")
    ranges = {"rewards": settings.rewards[0]}
    ranges |= {f"the guardrail {name!r}": each.low for name, each in settings.guardrails.items()}
    for what, low in ranges.items():
        if low != 0:
            raise InvalidParameter(f"{what} must begin at 0 to accumulate; got {low:g}.")


def _guardrails(declared: Any) -> dict[str, Guardrail]:
    if not declared:
        return {}
    if not isinstance(declared, dict) or len(declared) > _MOST_GUARDRAILS:
        raise InvalidParameter(
            f"guardrails must be at most {_MOST_GUARDRAILS} names with what they are; "
            f"got {declared!r:.100}."
        )
    found = {}
    for name, given in declared.items():
        what = f"the guardrail {check_label('names of guardrails', name)!r}"
        try:
            made = msgspec.convert(given, Guardrail)
        except msgspec.ValidationError as error:
            raise InvalidParameter(f"{what} cannot be read: {error}.") from None
        low, high = _range(f"low and high of {what}", (made.low, made.high))
        if made.limit is not None:
            check_number(f"the limit of {what}", made.limit, Limits("limit", low, high))
        found[name] = made
    return found


def _floors(floors: Any, arms: list[str]) -> dict[str, float]:
    if floors is None:
        return {}
    if not isinstance(floors, dict):
        raise InvalidParameter(f"floors must give shares by arm; got {floors!r:.100}.")
    for arm, share in floors.items():
        if arm not in arms:
            raise InvalidParameter(f"floors must name arms of the experiment; got {arm!r:.100}.")
        check_number(f"the floor of {arm}", share, Limits("share", 0, 1))
    if (total := math.fsum(floors.values())) > 1.0:
        raise InvalidParameter(f"floors must add up to at most 1; got {total:g}.")
    return {arm: float(share) for arm, share in floors.items() if share > 0}


def check_arm_count(arms: int) -> None:
    """Refuse more arms than others could be served beside."""
    if arms > MOST_ARMS:
        raise InvalidParameter(f"arms must be at most {MOST_ARMS}; got {arms}.")


def check_label(what: str, label: Any) -> str:
    """Return a name as plain text, or refuse it in a sentence that calls it ``what``."""
    return _check_text(what, label, 1, _LONGEST_LABEL)


def check_name(name: Any) -> str:
    """Return the name of an experiment, or refuse one that no address could have."""
    check_part("name", check_label("name", name))
    if "/" in name:
        raise InvalidParameter(f"name must not have a slash; got {name!r:.100}.")
    return str(name)


def check_labels(labels: Any) -> dict[str, str] | None:
    """Return attributes of a visit or a reward, or refuse them."""
    if not labels:
        return None
    if not isinstance(labels, dict) or len(labels) > MOST_LABELS:
        raise InvalidParameter(f"labels must be at most {MOST_LABELS} names with their values.")
    for text in (*labels, *labels.values()):
        if not isinstance(text, str) or _SURROGATE.search(text) or not text:
            raise InvalidParameter(f"labels must be text; got {text!r:.100}.")
        if len(text.encode()) > LABEL_BYTES:
            raise InvalidParameter(
                f"labels must have at most {LABEL_BYTES} bytes; got {text!r:.100}."
            )
    return labels


def check_reason(reason: Any) -> str:
    """Return why something is done as plain text, or refuse it."""
    return _check_text("reason", reason, 0, _LONGEST_REASON)


def _check_text(what: str, text: Any, least: int, most: int) -> str:
    if not isinstance(text, str) or not least <= len(text) <= most or _SURROGATE.search(text):
        raise InvalidParameter(
            f"{what} must be text of {least} to {most} characters; got {text!r:.100}."
        )
    return text
