"""The requests of the clients, one function each; what comes back is judged in ``responses``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from armrace.errors import InvalidParameter
from armrace.service.answers import (
    ArmAnswer,
    Decision,
    ExperimentHealth,
    ExperimentView,
    HistoryView,
    QuarantinedReward,
    RatioCheck,
    RewardAnswer,
    RulingAnswer,
    SourceView,
)
from armrace.service.arguments import (
    RewardItem,
    check_count,
    check_decisions,
    check_list,
    check_part,
    check_rewards,
)
from armrace.service.client.delivery import check_item
from armrace.service.defaults import AUDIT_LEVEL

__all__ = ["Exchange"]

T = TypeVar("T")


class Exchange(NamedTuple, Generic[T]):
    """A request, and the type of its answer."""

    method: str
    path: str
    body: Any
    answer: Any
    """The type of the answer; ``bytes`` if it is not JSON."""
    pick: Callable[[Any], T] | None = None
    """Returns what a caller wants of the answer, if not the whole."""
    takes_long: bool = False
    """Whether the answer may take minutes. Such a request has as long as it takes, and is not sent
    again once the service may have begun with it; all others may be sent again without harm."""


_Experiments, _Status, _Backup = dict[str, list[str]], dict[str, str], dict[str, Any]
_Rewards = dict[str, list[RewardAnswer]]


class _DecisionList(msgspec.Struct, frozen=True):
    decisions: list[Decision | None]

    def made(self) -> list[Decision]:
        return [each for each in self.decisions if each is not None]


def create(
    name: str, arms: Sequence[str], missing: float | Literal["drop"], **settings: Any
) -> Exchange[ExperimentView]:
    """Create an experiment.

    Args:
        name: its name.
        arms: the names of its arms.
        missing: what a reward counts as that never comes, or ``"drop"``.
        settings: as for :meth:`armrace.service.Service.create`.
    """
    listed = check_list("arms", "names", arms)
    body = {"name": name, "arms": listed, "missing": missing, **settings}
    # The server may have to compile the policy first, which takes half a minute on a slow machine.
    return Exchange("POST", "/v1/experiments", body, ExperimentView, takes_long=True)


def names() -> Exchange[list[str]]:
    """Return the names of all experiments."""
    return Exchange("GET", "/v1/experiments", None, _Experiments, itemgetter("experiments"))


def describe(name: str) -> Exchange[ExperimentView]:
    """Return the state of an experiment.

    Args:
        name: the experiment.
    """
    return Exchange("GET", _experiment(name), None, ExperimentView)


def pause(name: str) -> Exchange[ExperimentView]:
    """Pause an experiment: it makes no decisions until :func:`resume`, and still takes rewards.

    Args:
        name: the experiment.
    """
    return Exchange("POST", f"{_experiment(name)}/pause", None, ExperimentView)


def resume(name: str) -> Exchange[ExperimentView]:
    """Make decisions again.

    Args:
        name: the experiment.
    """
    return Exchange("POST", f"{_experiment(name)}/resume", None, ExperimentView)


def finish(name: str) -> Exchange[ExperimentView]:
    """End an experiment: it makes no more decisions; rewards are taken until windows close.

    Args:
        name: the experiment.
    """
    return Exchange("POST", f"{_experiment(name)}/finish", None, ExperimentView)


def decide(
    name: str,
    eligible: Iterable[str] | None = None,
    unit: str | None = None,
    request: str | None = None,
) -> Exchange[Decision]:
    """Make a decision; as :meth:`armrace.service.Service.decide`.

    Args:
        name: the experiment.
        eligible: the arms that may be chosen; by default all.
        unit: the visitor or user that the decision is made for.
        request: an identifier of this call, so that it can be repeated; made up if none is given.
    """
    body = {
        "eligible": None if eligible is None else check_list("eligible", "arms", eligible),
        "unit": unit,
        "request": request or secrets.token_hex(16),
    }
    return Exchange("POST", f"{_experiment(name)}/decide", body, Decision)


def decide_many(name: str, count: int) -> Exchange[list[Decision]]:
    """Make a number of decisions, at most 1,000; as :meth:`armrace.service.Service.decide_many`.

    Args:
        name: the experiment.
        count: how many decisions to make.
    """
    body = {"decisions": [{"request": secrets.token_hex(16)} for _ in range(check_count(count))]}
    path = f"{_experiment(name)}/decide/batch"
    return Exchange("POST", path, body, _DecisionList, _DecisionList.made)


def reward(
    decision: Decision | str,
    value: float,
    source: str | None = None,
    suspicion: float | None = None,
) -> Exchange[str]:
    """Say what a decision earned; as :meth:`armrace.service.Service.reward`.

    Args:
        decision: the decision, or its signed name.
        value: the reward.
        source: where the reward comes from, by which it can be retracted.
        suspicion: how suspicious it is, from 0 to 1.
    """
    body = _reward(decision, value, source, suspicion)
    return Exchange("POST", "/v1/rewards", body, _Status, itemgetter("status"))


def reward_many(
    rewards: Iterable[tuple[Decision | str, float] | RewardItem],
    source: str | None = None,
    suspicion: float | None = None,
) -> Exchange[list[RewardAnswer]]:
    """Say what several decisions earned, at most 1,000; each has its own answer.

    Args:
        rewards: pairs of a decision and its reward; a :class:`RewardItem` may have a source and a
            suspicion of its own.
        source: where the other rewards come from.
        suspicion: how suspicious they are.
    """
    body = {"rewards": [_reward(*item) for item in check_rewards(rewards, source, suspicion)]}
    return Exchange("POST", "/v1/rewards/batch", body, _Rewards, itemgetter("rewards"))


def _reward(
    decision: Decision | str, value: float, source: str | None, suspicion: float | None
) -> dict[str, Any]:
    item = check_item(decision, value, source, suspicion)
    named = item.decision
    token = named.decision if isinstance(named, Decision) else named
    return {**item._asdict(), "decision": token}


def retract(
    name: str,
    decisions: Iterable[Decision | str | int] | Decision | str | int | None = None,
    *,
    source: str | None = None,
    since: int | None = None,
    until: int | None = None,
    reason: str = "",
    preview: bool = False,
) -> Exchange[RulingAnswer]:
    """Take rewards back; as :meth:`armrace.service.Service.retract`.

    Args:
        name: the experiment.
        decisions: decisions whose rewards to retract, or one.
        source: the source whose rewards to retract.
        since: only rewards that came at this time or later, in milliseconds since 1970.
        until: only rewards that came before this time.
        reason: why, for the log.
        preview: whether to change nothing and return the state before and after.
    """
    body = _selection(decisions, source, since, until, reason)
    action = "retract/preview" if preview else "retract"
    return _ruling(name, action, body)


def release(
    name: str,
    decisions: Iterable[Decision | str | int] | Decision | str | int | None = None,
    *,
    source: str | None = None,
    since: int | None = None,
    until: int | None = None,
    reason: str = "",
    preview: bool = False,
) -> Exchange[RulingAnswer]:
    """Let rewards count that are in quarantine or were retracted; as :func:`retract`."""
    body = _selection(decisions, source, since, until, reason)
    return _ruling(name, "release/preview" if preview else "release", body)


def _ruling(name: str, action: str, body: dict[str, Any]) -> Exchange[RulingAnswer]:
    path = f"{_experiment(name)}/{action}"
    return Exchange("POST", path, body, RulingAnswer, takes_long=True)


def _selection(
    decisions: Iterable[Decision | str | int] | Decision | str | int | None,
    source: str | None,
    since: int | None,
    until: int | None,
    reason: str,
) -> dict[str, Any]:
    chosen = check_decisions(decisions)
    given = {"decisions": chosen, "source": source, "since": since, "until": until}
    return {**given, "reason": reason}


def quarantine(name: str) -> Exchange[list[QuarantinedReward]]:
    """Return the rewards in quarantine."""
    return Exchange("GET", f"{_experiment(name)}/quarantine", None, list[QuarantinedReward])


def add_arm(name: str, arm: str) -> Exchange[ArmAnswer]:
    """Add an arm; the answer says whether the policy starts afresh.

    Args:
        name: the experiment.
        arm: the name of the new arm.
    """
    return Exchange("POST", f"{_experiment(name)}/arms", {"arm": arm}, ArmAnswer)


def pause_arm(name: str, arm: str) -> Exchange[ArmAnswer]:
    """Pause an arm: it is not chosen until :func:`resume_arm`.

    Args:
        name: the experiment.
        arm: the arm.
    """
    return _change_arm(name, arm, "pause")


def resume_arm(name: str, arm: str) -> Exchange[ArmAnswer]:
    """Choose a paused arm again.

    Args:
        name: the experiment.
        arm: the arm.
    """
    return _change_arm(name, arm, "resume")


def retire_arm(name: str, arm: str) -> Exchange[ArmAnswer]:
    """Retire an arm: it is never chosen again.

    Args:
        name: the experiment.
        arm: the arm.
    """
    return _change_arm(name, arm, "retire")


def _change_arm(name: str, arm: str, action: str) -> Exchange[ArmAnswer]:
    path = f"{_experiment(name)}/arms/{quote(check_part('arm', arm), safe='')}/{action}"
    return Exchange("POST", path, None, ArmAnswer)


def audit(name: str, level: float = AUDIT_LEVEL) -> Exchange[dict[str, Any]]:
    """Look for traces of corruption; return the alarms and certificates as plain data.

    Args:
        name: the experiment.
        level: a bound on the probability that any statement of any audit is wrong.
    """
    path = f"{_experiment(name)}/audit?level={level!r}"
    return Exchange("GET", path, None, dict[str, Any])


def check_ratio(name: str) -> Exchange[RatioCheck]:
    """Compare how often arms were chosen with their published probabilities."""
    return Exchange("GET", f"{_experiment(name)}/ratio", None, RatioCheck)


def health() -> Exchange[list[ExperimentHealth]]:
    """Return all experiments at a glance, without those whose policy the server still compiles."""
    return Exchange("GET", "/v1/health", None, list[ExperimentHealth])


def history(name: str) -> Exchange[HistoryView]:
    """Return the course of an experiment: traffic, rewards and certificates over time."""
    return Exchange("GET", f"{_experiment(name)}/history", None, HistoryView)


def sources(name: str) -> Exchange[list[SourceView]]:
    """Return the rewards of each source by day, and how late they came."""
    return Exchange("GET", f"{_experiment(name)}/sources", None, list[SourceView])


def events(name: str) -> Exchange[ExperimentView]:
    """Follow the state of an experiment: a stream of answers, which ``EventReader`` reads."""
    return Exchange("GET", f"{_experiment(name)}/events", None, ExperimentView)


def export(name: str, format: Literal["ndjson", "parquet"] = "ndjson") -> Exchange[bytes]:
    """Return all decisions with their rewards, as the content of a file of this format.

    :meth:`armrace.service.Service.export` writes the file instead.

    Args:
        name: the experiment.
        format: ``"ndjson"`` or ``"parquet"``.
    """
    path = f"{_experiment(name)}/export?format={quote(format, safe='')}"
    return Exchange("GET", path, None, bytes, takes_long=True)


def back_up() -> Exchange[str]:
    """Write a copy of the log beside it, on the server's disk; return the name of the file."""
    return Exchange("POST", "/v1/backup", None, _Backup, itemgetter("file"), takes_long=True)


def _experiment(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise InvalidParameter(f"name must be the name of an experiment; got {name!r:.100}.")
    return f"/v1/experiments/{quote(check_part('name', name), safe='')}"
