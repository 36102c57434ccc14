"""All that can be asked of the service, each declared once.

An operation is a frozen struct. Its fields are the arguments of the methods of the same name of
:class:`~armrace_client.Client`, :class:`~armrace_client.AsyncClient` and the service itself; over
HTTP, fields named in the path of its route come from the address, and all others from the body, or
from the query of a GET. Routes, the OpenAPI document and the reference are made from these structs.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from armrace_client import answers
from armrace_client.answers import DecisionAnswer
from armrace_client.errors import InvalidParameter

T = TypeVar("T")
Scope = Literal["decide", "reward", "read", "admin"]
Label = Annotated[str, Meta(min_length=1, max_length=200)]
Labels = dict[str, str]
"""At most :data:`MOST_LABELS` of them, name and value each of at most :data:`LABEL_BYTES` bytes."""
Context = dict[str, str | bool | int | float | None]
ArmFeatures = dict[str, Context]
"""What is known about a visitor: the value of each feature that the experiment declares."""

MOST_IN_BATCH = 1000
MOST_LABELS, LABEL_BYTES = 8, 64
AUDIT_LEVEL = 0.05
"""The bound on the probability that any statement of any audit is wrong."""
_BATCH, _DECIDE_BATCH = 2**20, 2**18
_STATE, _HISTORY, _LOG = 5, 20, 200
"""What it costs to describe an experiment, to look through its history, and to read its log."""
_NAME = "/v1/experiments/{name}"


class Route(NamedTuple):
    """How an operation is reached over HTTP, and what it costs."""

    method: str
    path: str
    scope: Scope
    answer: Any
    """The type of the answer; ``bytes`` if it is a file."""
    limit: int = 4096
    """The most bytes that a body may have."""
    cost: int = 1
    """How many events it counts as against the rate of its key."""
    status: int = 200
    takes_long: bool = False
    """Whether the answer may take minutes. It is not sent again once the service may have begun."""
    operator: bool = False
    """Whether it concerns all tenants."""
    alias: str | None = None
    """Another address, under the experiment, by which a proxy can choose a server."""


class Operation(
    msgspec.Struct, Generic[T], frozen=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Something that can be asked of the service; ``T`` is the type of its answer."""

    route: ClassVar[Route]

    def events(self) -> int:
        """Return how many events it counts as against the rate of its key."""
        return self.route.cost


class _OnExperiment(Operation[T], frozen=True):
    """Something about an experiment.

    Args:
        name: the experiment.
    """

    name: str


OPERATIONS: dict[str, type[Operation[Any]]] = {}
"""All operations by the name of their method."""


def _declared(name: str, route: Route) -> Any:
    def declare(kind: type[Operation[Any]]) -> type[Operation[Any]]:
        kind.route = route
        if "Args:" not in (kind.__doc__ or ""):  # what the base has, so that help() says it
            _, section, words = (kind.__mro__[1].__doc__ or "").partition("\n    Args:\n")
            kind.__doc__ = f"{kind.__doc__}\n{section}{words}" if section else kind.__doc__
        OPERATIONS[name] = kind
        return kind

    return declare


def _listed(name: str, members: str, values: Any) -> list[Any] | None:
    """Return values as a list; refuse text, which would be taken for a list of letters."""
    if values is None or type(values) is list:
        return values
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidParameter(f"{name} must be a list of {members}; got {values!r:.100}.")
    return list(values)


def _identifiers(name: str, given: Any) -> list[Any] | None:
    """Return identifiers that are given alone, as a list, or as a file with one in each line."""
    if isinstance(given, Path):
        try:
            lines = given.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidParameter(f"{name}: cannot read {given}: {error}.") from None
        return [line.strip() for line in lines if line.strip()]
    alone, members = isinstance(given, (DecisionAnswer, str, int)), "decisions"
    return [given] if alone else _listed(name, members if name == members else "names", given)


def _token(decision: Any) -> Any:
    if isinstance(decision, str) and decision.isascii() and decision.isdigit():
        return int(decision)  # as exports show them
    return decision.decision if isinstance(decision, DecisionAnswer) else decision


_set = msgspec.structs.force_setattr

# --- deciding and rewarding -------------------------------------------------------------------


@_declared("decide", Route("POST", f"{_NAME}/decide", "decide", DecisionAnswer))
class Decide(Operation[DecisionAnswer], frozen=True):
    """Make a decision.

    Args:
        name: the experiment.
        eligible: the arms that may be chosen; by default all.
        unit: the visitor or user that the decision is made for. As long as a decision for the same
            unit is open, that one is returned: a unit sees one arm and brings one reward. A new
            decision is made if its arm is not active or not eligible any more.
        request: an identifier of this call. A call with the same one returns the same decision as
            long as it is open, so that a call can be repeated when no answer came.
        source: where the visit comes from, by which it can be taken back, rewarded or not.
        labels: up to 8 further attributes, such as publisher and campaign, for the same purpose.
        context: what is known about the visitor, where the experiment declares features. For an
            open decision of the same unit it is not looked at.
        arms: features of arms, by arm, that hold for this decision, such as today's price; those
            that are not given are the arm's own.
    """

    name: str
    eligible: list[Label] | None = None
    unit: Label | None = None
    request: Label | None = None
    source: Label | None = None
    labels: Labels | None = None
    context: Context | None = None
    arms: ArmFeatures | None = None

    def __post_init__(self) -> None:
        _set(self, "eligible", _listed("eligible", "arms", self.eligible))

    def events(self) -> int:
        """Return one event, and one more for each hundred arms that it names."""
        return 1 + (len(self.eligible or ()) + len(self.arms or ())) // 100


class Visit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to make one decision of a batch; as :class:`Decide`."""

    eligible: list[Label] | None = None
    unit: Label | None = None
    request: Label | None = None
    source: Label | None = None
    labels: Labels | None = None
    context: Context | None = None
    arms: ArmFeatures | None = None

    def of(self, name: str) -> Decide:
        """Return the operation that makes this decision alone."""
        return Decide(name, **{each: getattr(self, each) for each in self.__struct_fields__})


@_declared(
    "decide_batch",
    Route("POST", f"{_NAME}/decide/batch", "decide", answers.DecisionList, _DECIDE_BATCH),
)
class DecideBatch(Operation[answers.DecisionList], frozen=True):
    """Make several decisions; each is made or refused by itself.

    Args:
        name: the experiment.
        decisions: how to make each of them, at most 1,000 over HTTP.
    """

    name: str
    decisions: list[Visit]

    def events(self) -> int:
        """Return one event for each decision, and more if arms are named."""
        return sum(each.of(self.name).events() for each in self.decisions)


@_declared("record", Route("POST", f"{_NAME}/record", "decide", DecisionAnswer))
class RecordDecision(Operation[DecisionAnswer], frozen=True):
    """Record a decision that somebody else made, an editor for instance.

    The visit is kept and can be rewarded. The policy learns from it only what it can learn without
    bias: policies that weight rewards by probabilities learn nothing.

    Args:
        name: the experiment.
        arm: the arm that was shown.
        unit: the visitor or user.
        request: an identifier of this call.
        source: where the visit comes from.
        labels: further attributes.
        context: what is known about the visitor, where the experiment declares features.
        arms: features of arms that hold for this decision.
    """

    name: str
    arm: Label
    unit: Label | None = None
    request: Label | None = None
    source: Label | None = None
    labels: Labels | None = None
    context: Context | None = None
    arms: ArmFeatures | None = None


@_declared(
    "reward",
    Route("POST", "/v1/rewards", "reward", answers.RewardStatus, alias=f"{_NAME}/rewards"),
)
class Reward(Operation[answers.RewardStatus], frozen=True, dict=True):
    """Say what a decision earned.

    Args:
        decision: the decision, or its signed name.
        value: the reward.
        source: where the reward comes from, by which it can be taken back.
        suspicion: how suspicious it is, from 0 to 1 or on the scale of the experiment.
        labels: up to 8 further attributes.
        metrics: numbers of the guardrails that the experiment declares, by name; all or some.
        part: where rewards add up, what this one is for, such as the number of an order: each part
            of a decision counts once.
    """

    decision: str
    value: float
    source: Label | None = None
    suspicion: float | None = None
    labels: Labels | None = None
    metrics: dict[str, float] | None = None
    part: Label | None = None

    def __post_init__(self) -> None:
        if isinstance(self.decision, DecisionAnswer):
            self.__dict__["experiment"] = self.decision.experiment
            _set(self, "decision", self.decision.decision)

    @property
    def experiment(self) -> str | None:
        """The experiment, if a decision was given and not its name; it is not sent."""
        found: str | None = self.__dict__.get("experiment")
        return found


@_declared(
    "reward_batch",
    Route(
        "POST",
        "/v1/rewards/batch",
        "reward",
        answers.RewardList,
        _BATCH,
        alias=f"{_NAME}/rewards/batch",
    ),
)
class RewardBatch(Operation[answers.RewardList], frozen=True):
    """Say what several decisions earned; each reward has its own answer.

    Args:
        rewards: the rewards, at most 1,000 over HTTP.
    """

    rewards: list[Reward]

    def events(self) -> int:
        """Return one event for each reward."""
        return len(self.rewards)


# --- leases -----------------------------------------------------------------------------------


@_declared("lease", Route("POST", f"{_NAME}/leases", "decide", answers.Lease, cost=_STATE))
class TakeLease(Operation[answers.Lease], frozen=True):
    """Take the right to draw decisions in your own process, with the weights of now.

    Args:
        name: the experiment, whose policy must draw by weights.
        visits: how many decisions may be drawn.
        seconds: for how long.
    """

    name: str
    visits: Annotated[int, Meta(ge=1, le=100_000)] = 1000
    seconds: Annotated[float, Meta(gt=0, le=3600)] = 60.0


class LeasedVisit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A visit for which an arm was drawn under a lease."""

    draw: Annotated[int, Meta(ge=0)]
    """The number of the draw."""
    value: float | None = None
    """Its reward, if it has come; a visit may be reported again with its reward."""
    unit: Label | None = None
    request: Label | None = None
    source: Label | None = None
    suspicion: float | None = None
    labels: Labels | None = None
    context: Context | None = None
    metrics: dict[str, float] | None = None


@_declared(
    "report",
    Route("POST", f"{_NAME}/leases/report", "decide", answers.VisitList, _BATCH),
)
class Report(Operation[answers.VisitList], frozen=True):
    """Report visits of a lease, with their rewards or before they come; each counts once.

    Args:
        name: the experiment.
        lease: the signed name of the lease.
        visits: the visits, at most 1,000 over HTTP.
    """

    name: str
    lease: str
    visits: list[LeasedVisit]

    def events(self) -> int:
        """Return one event for each visit."""
        return len(self.visits)


# --- rulings ----------------------------------------------------------------------------------

IDENTIFIERS = ("decisions", "requests", "units", "sources")
"""The lists by which a ruling can name visits, besides labels."""
LARGEST_RULING = 2**23
"""The most bytes that a ruling may have over HTTP."""


class Ruling(Operation[answers.RulingAnswer], frozen=True):
    """Which visits a ruling is about. A visit must fit everything that is given.

    Decisions, requests, units and sources may each be the path of a file with one in each line.

    Args:
        name: the experiment.
        decisions: decisions, their signed names, or their numbers as exports show them.
        requests: identifiers of calls.
        units: visitors or users, or their hashes as exports show them; so also requests.
        sources: where visits or their rewards came from.
        labels: attributes, all of which a visit or its reward must have; of a list of values, one.
        since: only visits decided at this time or later, in milliseconds since 1970.
        until: only visits decided before this time.
        reason: why, for the log.
        reasons: why, for each of the identifiers of the only list, in place of ``reason``.
        listed: how many identifiers to list that are unknown, or of which nothing was changed.
        preview: whether to change nothing and return the state before and after.
        ruled: only visits that this ruling was about, a record of the log as actions show it.
        head: what a preview returned: the ruling is about the visits that the preview has seen, and
            is refused if something other than visits and rewards has come since.
    """

    name: str
    decisions: list[str | int] | None = None
    requests: list[Label] | None = None
    units: list[Label] | None = None
    sources: list[Label] | None = None
    labels: dict[str, str | list[str]] | None = None
    since: int | None = None
    until: int | None = None
    reason: Annotated[str, Meta(max_length=1000)] = ""
    preview: bool = False
    head: str | None = None
    reasons: list[str] | None = None
    ruled: int | None = None
    listed: Annotated[int, Meta(ge=0)] = 100

    def __post_init__(self) -> None:
        for field in IDENTIFIERS:
            _set(self, field, _identifiers(field, getattr(self, field)))
        if self.decisions is not None:
            _set(self, "decisions", [_token(each) for each in self.decisions])


def _ruling_route(action: str) -> Route:
    path = f"{_NAME}/{action}"
    return Route("POST", path, "admin", answers.RulingAnswer, LARGEST_RULING, _LOG, takes_long=True)


@_declared("retract", _ruling_route("retract"))
class Retract(Ruling, frozen=True):
    """Take rewards back: the visits were real, their rewards were not and count as missing."""


@_declared("void", _ruling_route("void"))
class Void(Ruling, frozen=True):
    """Take whole visits back, rewarded or not: they count as if they had never been made."""


@_declared("hold", _ruling_route("hold"))
class Hold(Ruling, frozen=True):
    """Hold rewards: they do not count until they are released.

    Args:
        standing: whether to hold what comes from now on too; for one source or for labels.
        early: whether to hold rewards of these visits too that have not come yet.
    """

    standing: bool = False
    early: bool = False


@_declared(
    "suspect",
    Route(
        "POST",
        f"{_NAME}/suspicions",
        "admin",
        answers.RulingAnswer,
        LARGEST_RULING,
        _LOG,
        takes_long=True,
    ),
)
class Suspect(Operation[answers.RulingAnswer], frozen=True):
    """Give visits scores that come after their decisions, before or after their rewards.

    Rewards of visits above the experiment's ``quarantine`` are held, whether they have come or will
    come. A lower score releases nothing.

    Args:
        name: the experiment.
        scores: a score, on the scale of the experiment, for each decision or unit.
        by: whether they name a ``decision``, as rulings do, or a ``unit``.
        reason: why, for the log.
    """

    name: str
    scores: dict[str, float]
    by: Literal["decision", "unit"] = "decision"
    reason: Annotated[str, Meta(max_length=900)] = ""


@_declared("release", _ruling_route("release"))
class Release(Ruling, frozen=True):
    """Let visits and rewards count that were held, retracted or voided.

    Args:
        standing: whether to end the standing hold of this source or these labels too.
    """

    standing: bool = False


@_declared(
    "quarantine",
    Route("GET", f"{_NAME}/quarantine", "admin", list[answers.QuarantinedReward], cost=_LOG),
)
class ListQuarantine(_OnExperiment[list[answers.QuarantinedReward]], frozen=True):
    """Return the rewards that are held."""


# --- experiments ------------------------------------------------------------------------------


@_declared(
    "create",
    Route(
        "POST",
        "/v1/experiments",
        "admin",
        answers.ExperimentView,
        _BATCH,
        status=201,
        takes_long=True,  # the policy may have to be compiled first
    ),
)
class Create(Operation[answers.ExperimentView], frozen=True):
    """Create an experiment, or return the one that has this name and these settings.

    Args:
        name: the name of the experiment.
        arms: the names of its arms.
        missing: what a reward counts as that has not come when the window closes: a reward, or
            ``"drop"`` if the decision is to teach nothing. Dropping is sound only if whether a
            reward is missing does not depend on it; where silence means no click, give 0.
        policy: a policy, its name, or plain data with a ``name`` and parameters; by default the one
            that the service recommends for the number of arms.
        horizon: the expected number of decisions. If it is ``None``, the policy starts with 10,000,
            and starts afresh with twice as many whenever they are reached.
        window: for how many seconds a decision can be rewarded.
        settle: ``"window"`` learns a decision when its window has closed, in the order of
            decisions; ``"immediate"`` learns rewards as they come.
        rewards: the smallest and the largest reward.
        floors: the least share of decisions of some arms, for a control arm for instance; of those
            outside the holdout, if there is one.
        holdout: a share of decisions that are not left to the policy, such as 0.05, by which what
            it earns is compared with what would have been earned without it. They show arms at
            random, each with the same probability.
        holdout_arm: an arm that the holdout shows instead wherever it may be shown.
        quarantine: rewards of a suspicion above this are held until they are released; it is always
            between 0 and 1.
        suspicion: the scale of suspicions: the scores ``from``, honest, and ``to``, forged; by
            default 0 and 1. For a vendor whose bots score 1, ``{"from": 99, "to": 1}``.
        guardrails: numbers to watch besides the reward, by name, each such as ``{"low": 0, "high":
            2, "worse": "higher", "limit": 0.5}``: its range, whether a ``higher`` or a ``lower``
            mean is worse, and from where on it is too bad, if anywhere. They come with rewards, and
            no policy learns them.
        accumulate: whether the rewards of a decision add up within its window, up to the largest
            reward, as the orders of a visitor do; each then has a ``part``. ``rewards`` must begin
            at 0, as must the ranges of guardrails, which add up too.
        most_open: how many decisions may be open at once.
        seed: the seed of the decisions; by default a random one.
        context: the features by which visitors are told apart, by name, each such as ``{"type":
            "number", "low": 18, "high": 80}``, ``{"type": "boolean"}``, or ``{"type": "category"}``
            with ``values`` or ``buckets``. They need a policy that takes contexts, and never
            change.
        leaves: the features that make segments: ``True`` for a category or a boolean, cut points in
            increasing order for a number.
        missing_feature: ``"refuse"`` a context that lacks a feature, or ``"bucket"``: to lack it
            counts as a value.
        arm_features: what is known about each arm, such as its price, declared as the features of
            visitors. The arms then share one linear model, which needs a linear policy.
        arm_values: for each arm its features by name; decisions may give others, or all of them.
        cross: pairs of a visitor's and an arm's feature whose product matters.
    """

    name: Label
    arms: Annotated[list[Label], Meta(min_length=2)]
    missing: float | Literal["drop"]
    policy: Any = None
    horizon: int | None = None
    window: float = 3600.0
    settle: Literal["window", "immediate"] = "window"
    rewards: tuple[float, float] = (0.0, 1.0)
    floors: dict[str, float] | None = None
    holdout: float = 0.0
    holdout_arm: Label | None = None
    quarantine: float | None = None
    suspicion: dict[str, float] | None = None
    guardrails: dict[str, dict[str, Any]] | None = None
    accumulate: bool = False
    most_open: int = 1_000_000
    seed: int | None = None
    context: dict[str, dict[str, Any]] | None = None
    leaves: dict[str, bool | list[float]] | None = None
    missing_feature: Literal["refuse", "bucket"] = "refuse"
    arm_features: dict[str, dict[str, Any]] | None = None
    arm_values: ArmFeatures | None = None
    cross: list[tuple[str, str]] | None = None

    def __post_init__(self) -> None:
        _set(self, "arms", _listed("arms", "names", self.arms))


@_declared("names", Route("GET", "/v1/experiments", "read", answers.Names))
class ListNames(Operation[answers.Names], frozen=True):
    """Return the names of all experiments."""


@_declared("describe", Route("GET", _NAME, "read", answers.ExperimentView, cost=_STATE))
class Describe(_OnExperiment[answers.ExperimentView], frozen=True):
    """Return the state of an experiment: arms, layers and what the policy knows."""


class _Change(_OnExperiment[answers.ExperimentView], frozen=True):
    """A change of an experiment.

    Args:
        name: the experiment.
        reason: why, for the log.
    """

    reason: Annotated[str, Meta(max_length=1000)] = ""


def _change_route(action: str) -> Route:
    return Route("POST", f"{_NAME}/{action}", "admin", answers.ExperimentView)


@_declared("pause", _change_route("pause"))
class Pause(_Change, frozen=True):
    """Stop making decisions until :meth:`resume`; rewards are still accepted."""


@_declared("resume", _change_route("resume"))
class Resume(_Change, frozen=True):
    """Make decisions again."""


@_declared("finish", _change_route("finish"))
class Finish(_Change, frozen=True):
    """Stop making decisions for good; rewards are accepted until the windows close."""


@_declared("start_afresh", _change_route("start-afresh"))
class StartAfresh(Operation[answers.ExperimentView], frozen=True):
    """Forget what was learned and start a new generation, for when the world has changed.

    The log is kept. Open decisions of the old generation are recorded, but teach the new one
    nothing.

    Args:
        name: the experiment.
        horizon: the expected number of decisions from now on; by default as before.
        reason: why, for the log.
        preview: whether to change nothing and return the state as it would be.
    """

    name: str
    horizon: int | None = None
    reason: Annotated[str, Meta(max_length=1000)] = ""
    preview: bool = False


@_declared(
    "delete",
    Route("POST", f"{_NAME}/delete", "admin", answers.Names, takes_long=True),
)
class Delete(Operation[answers.Names], frozen=True):
    """Delete a finished experiment: its log is gone but for its last record.

    Args:
        name: the experiment.
        without_export: must be true unless an export was made since the last event.
        reason: why, for what is left of the log.

    Returns:
        The names of the experiments that remain.
    """

    name: str
    without_export: bool = False
    reason: Annotated[str, Meta(max_length=1000)] = ""


# --- arms -------------------------------------------------------------------------------------


class _Arm(_OnExperiment[answers.ArmAnswer], frozen=True):
    """A change of an arm.

    Args:
        name: the experiment.
        arm: the name of the arm.
        reason: why, for the log.
    """

    arm: Label
    reason: Annotated[str, Meta(max_length=1000)] = ""


def _arm_route(path: str) -> Route:
    return Route("POST", f"{_NAME}/arms{path}", "admin", answers.ArmAnswer)


@_declared("add_arm", _arm_route(""))
class AddArm(_Arm, frozen=True):
    """Add an arm; the answer says whether the policy starts afresh.

    Args:
        name: the experiment.
        arm: the name of the arm.
        reason: why, for the log.
        features: what is known about the arm, where the experiment declares features of arms.
    """

    features: Context | None = None


@_declared("pause_arm", _arm_route("/{arm}/pause"))
class PauseArm(_Arm, frozen=True):
    """Stop choosing an arm until :meth:`resume_arm`."""


@_declared("resume_arm", _arm_route("/{arm}/resume"))
class ResumeArm(_Arm, frozen=True):
    """Choose a paused arm again."""


@_declared("retire_arm", _arm_route("/{arm}/retire"))
class RetireArm(_Arm, frozen=True):
    """Stop choosing an arm for good."""


# --- inspection -------------------------------------------------------------------------------


@_declared("audit", Route("GET", f"{_NAME}/audit", "read", dict[str, Any], cost=_HISTORY))
class RunAudit(Operation[dict[str, Any]], frozen=True):
    """Look for traces of corruption in what was learned in the current generation.

    Args:
        name: the experiment.
        level: a bound on the probability that any statement of any audit is wrong.
    """

    name: str
    level: Annotated[float, Meta(gt=0, lt=1)] = AUDIT_LEVEL


@_declared("check_ratio", Route("GET", f"{_NAME}/ratio", "read", answers.RatioCheck))
class CheckRatio(_OnExperiment[answers.RatioCheck], frozen=True):
    """Compare how often arms were chosen with their published probabilities."""


@_declared(
    "health", Route("GET", "/v1/health", "read", list[answers.ExperimentHealth], cost=_STATE)
)
class ReadHealth(Operation[list[answers.ExperimentHealth]], frozen=True):
    """Return experiments at a glance, in the order of their creation.

    Args:
        after: the name of the last experiment that was shown before.
        most: how many to return.
    """

    after: str = ""
    most: Annotated[int, Meta(ge=1, le=1000)] = 200


@_declared("history", Route("GET", f"{_NAME}/history", "read", answers.HistoryView, cost=_HISTORY))
class ReadHistory(_OnExperiment[answers.HistoryView], frozen=True):
    """Return the history of an experiment: traffic, rewards and certificates over time."""


@_declared(
    "sources", Route("GET", f"{_NAME}/sources", "read", list[answers.SourceView], cost=_STATE)
)
class ListSources(_OnExperiment[list[answers.SourceView]], frozen=True):
    """Return the rewards of each source by day, and how late they came."""


Sort = Literal["visits", "newest", "moved", "difference", "ruled", "name"]


@_declared("groups", Route("GET", f"{_NAME}/groups", "read", answers.GroupList, cost=_HISTORY))
class ListGroups(Operation[answers.GroupList], frozen=True):
    """Return sources, units or values of a label, and what sets each apart from the rest.

    The log is read at the first call. While that takes time, the answer has no groups, and its
    ``progress`` is below 1: ask again.

    Args:
        name: the experiment.
        by: ``source``, ``unit`` or ``label:NAME``.
        search: only names with this text; of units, of which the log holds hashes, a whole name or
            how a hash begins.
        whole: whether ``search`` is a whole name.
        sort: ``visits``, the most first; ``newest``; ``moved`` or ``difference``, what has moved a
            mean or differs most first; ``ruled``, what was ruled about first; or ``name``.
        since: only visits decided at this time or later, in milliseconds since 1970.
        until: only visits decided before this time.
        leaf: only visitors of this leaf, by its name; by default all.
        skip: how many to leave out at the beginning.
        most: how many to return; of more than 1,000, without counts by arm and delay.
    """

    name: str
    by: str = "source"
    search: Annotated[str, Meta(max_length=200)] = ""
    whole: bool = False
    sort: Sort = "visits"
    since: int | None = None
    until: int | None = None
    leaf: str | None = None
    skip: Annotated[int, Meta(ge=0)] = 0
    most: Annotated[int, Meta(ge=1, le=5_000_000)] = 50


@_declared("actions", Route("GET", f"{_NAME}/actions", "read", list[answers.Action], cost=_STATE))
class ListActions(Operation[list[answers.Action]], frozen=True):
    """Return who changed what and when, the latest first.

    Args:
        name: the experiment.
        before: only actions before this record of the log; by default all.
        most: how many to return.
    """

    name: str
    before: int | None = None
    most: Annotated[int, Meta(ge=1, le=1000)] = 100


Format = Literal["ndjson", "parquet"]


@_declared(
    "export",
    Route("GET", f"{_NAME}/export", "admin", bytes, cost=_LOG, takes_long=True),
)
class Export(Operation[bytes], frozen=True):
    """Return all decisions with their rewards, as the content of a file.

    Args:
        name: the experiment.
        format: ``"ndjson"`` or ``"parquet"``.
    """

    name: str
    format: Format = "ndjson"


@_declared(
    "back_up",
    Route(
        "POST",
        "/v1/backup",
        "admin",
        answers.BackupAnswer,
        cost=_LOG,
        takes_long=True,
        operator=True,
    ),
)
class BackUp(Operation[answers.BackupAnswer], frozen=True):
    """Write a copy of the store beside it, on the server's disk."""


def check_count(count: Any) -> int:
    """Return a number of decisions as a plain whole number, or refuse it."""
    try:
        number = operator.index(count)
    except TypeError:
        number = -1
    if number < 0 or isinstance(count, bool):
        raise InvalidParameter(f"count must be a whole number of at least 0; got {count!r:.100}.")
    return number


def check_part(what: str, name: str) -> str:
    """Return a name that can be a part of an address; refuse dots, which lead elsewhere."""
    if any(part in (".", "..") for part in name.split("/")):
        raise InvalidParameter(f"{what} must not have . or .. as a part; got {name!r:.100}.")
    return name
