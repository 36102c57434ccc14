"""The settings of an experiment, which are declared once, when it is created."""

from __future__ import annotations

import math
import sys
from typing import Any, Literal

import msgspec

from armrace.errors import ArmraceError, InvalidParameter
from armrace.limits import MOST_ARMS, Limits, check_number
from armrace.online.arguments import check_arms, check_horizon, check_seed
from armrace.policies import POLICIES, Policy, recommended
from armrace.service.model.rewards import RewardScale, check_range
from armrace_client.operations import LABEL_BYTES, MOST_LABELS, Create, check_part

__all__ = [
    "DROP",
    "FIRST_HORIZON",
    "Settings",
    "check_arm_count",
    "check_label",
    "check_labels",
    "check_name",
    "check_reason",
    "make_settings",
]

DROP: Literal["drop"] = "drop"
"""What :attr:`Settings.missing` says if a decision without a reward is to teach nothing."""

FIRST_HORIZON = 10_000
"""The first guess where no horizon is given; it doubles whenever it is reached."""

_LONGEST_LABEL, _LONGEST_REASON = 200, 1000
_WINDOW = Limits("seconds in which a decision can be rewarded", 0, 10 * 366 * 86400, low_open=True)
_OPEN = Limits("decisions that may be open at once", 1, 10_000_000)
_FINITE = Limits("reward", -sys.float_info.max, sys.float_info.max)
_SUSPICION = Limits("suspicion above which a reward is quarantined", 0, 1)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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

    def scale(self) -> RewardScale:
        """Return the map between rewards and the grid on which they are kept."""
        return RewardScale(*self.rewards)

    def window_milliseconds(self) -> int:
        """Return the window in the unit of the log's times, at least 1."""
        return max(1, round(self.window * 1000))

    def missing_steps(self) -> int | None:
        """Return what a missing reward counts as, on the grid; ``None`` if it is dropped."""
        return None if self.missing == DROP else self.scale().steps(self.missing)

    def make_policy(self) -> Policy:
        """Return the policy."""
        return POLICIES.make(self.policy)


def make_settings(create: Create, seed: int) -> Settings:
    """Check the settings of an experiment and return them as plain data.

    Args:
        create: the settings as they are asked for.
        seed: the seed of the decisions.

    Raises:
        ArmraceError: a setting is refused; the message names it, its limits and its value.
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
    settings = Settings(
        arms=names,
        missing=DROP if create.missing == DROP else _number("missing", create.missing),
        policy=_policy_data(recommended(len(names)) if create.policy is None else create.policy),
        horizon=None if horizon is None else check_horizon(horizon),
        window=float(create.window),
        settle=create.settle,
        rewards=_reward_range(create.rewards),
        floors=_floors(create.floors, names),
        quarantine=None if quarantine is None else float(quarantine),
        most_open=int(create.most_open),
        seed=check_seed(seed),
    )
    _check_missing(settings)
    # Made once, so that a policy which does not fit the horizon or the arms is refused here.
    settings.make_policy().start(len(names), settings.horizon or FIRST_HORIZON)
    return settings


def _policy_data(policy: Any) -> dict[str, Any]:
    try:
        return POLICIES.make(policy).to_builtins()
    except RecursionError:  # policies that contain policies, hundreds of levels deep
        raise InvalidParameter("policy must not be nested as deep as this.") from None


def check_arm_count(arms: int) -> None:
    """Refuse more arms than others could be served beside.

    Args:
        arms: how many there would be.
    """
    if arms > MOST_ARMS:
        raise InvalidParameter(f"arms must be at most {MOST_ARMS}; got {arms}.")


def check_label(what: str, label: Any) -> str:
    """Return a name as plain text, or refuse it.

    Args:
        what: what the name is called in the sentence of a refusal.
        label: the name.
    """
    return _check_text(what, label, 1, _LONGEST_LABEL)


def check_name(name: Any) -> str:
    """Return the name of an experiment, or refuse one that no address could have.

    Args:
        name: the name.
    """
    check_part("name", check_label("name", name))
    if "/" in name:
        raise InvalidParameter(f"name must not have a slash; got {name!r:.100}.")
    return str(name)


def check_labels(labels: Any) -> dict[str, str] | None:
    """Return attributes of a visit or a reward, or refuse them.

    Args:
        labels: names and values.
    """
    if not labels:
        return None
    if not isinstance(labels, dict) or len(labels) > MOST_LABELS:
        raise InvalidParameter(f"labels must be at most {MOST_LABELS} names with their values.")
    for text in (*labels, *labels.values()):
        if not isinstance(text, str) or not _is_valid(text) or not text:
            raise InvalidParameter(f"labels must be text; got {text!r:.100}.")
        if len(text.encode()) > LABEL_BYTES:
            raise InvalidParameter(
                f"labels must have at most {LABEL_BYTES} bytes; got {text!r:.100}."
            )
    return labels


def check_reason(reason: Any) -> str:
    """Return why something is done as plain text, or refuse it.

    Args:
        reason: the text.
    """
    return _check_text("reason", reason, 0, _LONGEST_REASON)


def _check_text(what: str, text: Any, least: int, most: int) -> str:
    if not isinstance(text, str) or not least <= len(text) <= most or not _is_valid(text):
        raise InvalidParameter(
            f"{what} must be text of {least} to {most} characters; got {text!r:.100}."
        )
    return text


def _is_valid(text: str) -> bool:
    """Whether a log can hold the text: half of a surrogate pair is not a character."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _number(name: str, value: Any) -> float:
    check_number(name, value, _FINITE)
    return float(value)


def _check_missing(settings: Settings) -> None:
    try:
        settings.missing_steps()
    except InvalidParameter:
        low, high = settings.rewards
        raise InvalidParameter(
            f"missing must be 'drop' or a reward in [{low:g}, {high:g}]; got {settings.missing}."
        ) from None


def _reward_range(rewards: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in rewards)
    except (OverflowError, TypeError, ValueError):
        raise InvalidParameter(
            f"rewards must be a range of two numbers; got {rewards!r:.100}."
        ) from None
    check_range(low, high)
    return low, high


def _floors(floors: Any, arms: list[str]) -> dict[str, float]:
    if floors is None:
        return {}
    if not isinstance(floors, dict):
        raise InvalidParameter(f"floors must give shares by arm; got {floors!r:.100}.")
    for arm, share in floors.items():
        if arm not in arms:
            raise InvalidParameter(f"floors must name arms of the experiment; got {arm!r:.100}.")
        check_number(f"the floor of {arm}", share, Limits("share", 0, 1))
    if math.fsum(floors.values()) > 1.0:
        raise InvalidParameter(
            f"floors must add up to at most 1; got {math.fsum(floors.values()):g}."
        )
    return {arm: float(share) for arm, share in floors.items() if share > 0}


def read_settings(data: Any) -> Settings:
    """Return settings that a log holds as plain data.

    Args:
        data: the settings as plain data.
    """
    try:
        return msgspec.convert(data, Settings)
    except (msgspec.ValidationError, ArmraceError) as error:
        raise InvalidParameter(f"the log has settings that cannot be read: {error}.") from None
