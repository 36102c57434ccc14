"""What the service answers, as plain data: the same in Python, over HTTP and in clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from armrace_client.contexts import ContextSchema

ArmStatus = Literal["active", "paused", "retired"]
Phase = Literal["running", "paused", "finished"]
Verdict = Literal["retract", "void", "hold", "release"]


class DecisionAnswer(msgspec.Struct, frozen=True):
    """A decision as it is answered; the layer that it was drawn from is not part of it."""

    decision: str
    """The signed name of the decision, to be given back with its reward."""
    experiment: str
    arm: str
    probability: float | None
    """The probability with which the arm was chosen; ``None`` where it is not known."""
    repeated: bool = False
    """Whether the decision had been made before, for the same request or unit."""
    leaf: str | None = None
    """The segment of the visitor, such as ``device=ios, 30 <= age < 50``; ``None`` if there are
    none."""


class RewardAnswer(msgspec.Struct, frozen=True):
    """What became of one reward of a batch."""

    status: Literal["accepted", "duplicate", "conflict", "unknown", "expired", "invalid"]
    detail: str = ""
    """Why it was refused, in one sentence."""


class ArmAnswer(msgspec.Struct, frozen=True):
    """The status of an arm, and what its change means for the policy."""

    arm: str
    status: ArmStatus
    generation: int
    new_generation: bool
    guarantee: str


class ArmSummary(msgspec.Struct, frozen=True, gc=False):
    """One arm over all generations."""

    arm: str
    status: ArmStatus
    decisions: int
    closed: int
    rewarded: int
    withheld: int
    """Closed decisions whose reward was retracted or is in quarantine."""
    mean: float | None
    """The mean of what closed decisions have earned, with what missing rewards count as."""
    probability: float | None
    """The probability with which the policy chooses the arm next, floors not included."""


class LayerView(msgspec.Struct, frozen=True, gc=False):
    """What one layer of the policy knows of one arm; means are in units of rewards."""

    layer: int
    arm: str
    assigned: int
    pulls: int
    mean: float | None
    lower: float | None
    upper: float | None
    active: bool
    eliminated_at: int | None
    eliminated_by: int | None
    evidence: int | None = None
    """The rewards that the interval rests on; in a race that pools, those of slower layers too."""
    evidence_mean: float | None = None


class BestArmStatement(msgspec.Struct, frozen=True):
    """The arm that is the best, at any time with this confidence, unless too much was forged.

    It assumes that the arms' true means do not move, and that which arm a visitor was shown did not
    depend on who it was.
    """

    arm: str
    confidence: float
    forged: int
    """The most visits that may have been forged, of whichever arms, for it to hold."""
    visits: int
    """The visits that are counted."""
    words: str
    """All of that in one sentence."""


class HoldoutView(msgspec.Struct, frozen=True):
    """What the policy has earned against the holdout, in units of rewards."""

    share: float
    arm: str | None
    """The arm that the holdout shows wherever it may be; ``None`` if it shows all at random."""
    visits: int
    """Closed visits of the holdout that count."""
    mean: float | None
    policy_visits: int
    policy_mean: float | None
    difference: float | None
    """An estimate of how much more a visit earns that is left to the policy, and the ends of an
    interval for its mean so far that holds at all times with this confidence."""
    lower: float | None
    upper: float | None
    confidence: float


class GuardrailArm(msgspec.Struct, frozen=True):
    """What is known of a guardrail for one arm."""

    arm: str
    count: int
    """How many closed visits have brought it with a reward that counts."""
    mean: float | None
    lower: float
    """The ends of an interval for its true mean over these visits; those of all arms and guardrails
    hold together, and at all times, with a confidence of 95%."""
    upper: float


class GuardrailView(msgspec.Struct, frozen=True):
    """A number that is watched besides the reward."""

    metric: str
    worse: Literal["higher", "lower"]
    limit: float | None
    arms: list[GuardrailArm]
    warnings: list[str]
    """Arms that are worse than another one, or beyond the limit, each in one sentence."""


class ExperimentView(msgspec.Struct, frozen=True):
    """The state of an experiment."""

    name: str
    phase: Phase
    settings: dict[str, Any]
    created: int
    generation: int
    horizon: int
    decisions: int
    open: int
    arms: list[ArmSummary]
    layers: list[LayerView]
    notes: list[str]
    """What must be known to read the figures."""
    conflicts: int = 0
    """Rewards that were refused because their decision had another one: a bug, or a forger."""
    holds: list[StandingHold] = []
    head: str = ""
    """The end of the log, so that a ruling can be made on exactly this state."""
    leaves: list[LeafView] = []
    """The segments of visitors, if there are any."""
    experts: dict[str, float] = {}
    """The weight of each expert of the policy, averaged over about its last 1,000 decisions."""
    coefficients: dict[str, dict[str, float]] = {}
    """For each arm what every feature adds to its predicted reward, if the policy predicts it."""
    best: BestArmStatement | None = None
    """``None`` if no arm can be said to be the best, and in experiments with features."""
    holdout: HoldoutView | None = None
    guardrails: list[GuardrailView] = []


class LeafArmView(msgspec.Struct, frozen=True):
    """One arm among the visitors of one leaf, over all generations."""

    arm: str
    decisions: int
    learned: int
    """Decisions that have taught something, with what missing rewards count as."""
    mean: float | None
    lower: float | None
    """The ends of an interval for the mean that holds at all times with probability 95%, if the
    visitors of the leaf do not change."""
    upper: float | None
    probability: float | None
    """The probability with which the policy chooses the arm next, floors not included; ``None`` if
    that depends on more than the leaf."""


class LeafView(msgspec.Struct, frozen=True):
    """A segment of visitors; only those that had a visit are shown."""

    leaf: str
    """What its visitors have in common, such as ``device=ios, 30 <= age < 50``."""
    decisions: int
    arms: list[LeafArmView]


class DeletionView(msgspec.Struct, frozen=True):
    """The deletion of an arm from a layer."""

    layer: int
    arm: str
    by: int
    """The layer whose evidence deleted it."""
    round: int
    time: int
    """The time of the next mark, in milliseconds since 1970."""


class RulingView(msgspec.Struct, frozen=True):
    """A ruling of the past."""

    time: int
    verdict: Verdict
    visits: int
    reason: str


class HistoryView(msgspec.Struct, frozen=True):
    """An experiment over time; the last time is now, the others are data points of the past."""

    bucket: int
    """The milliseconds between data points."""
    times: list[int]
    arms: list[str]
    decisions: list[list[int]]
    """For each arm, its decisions up to each time."""
    learned: list[list[int]]
    """For each arm, its decisions that had taught something by then."""
    earned: list[list[float]]
    """For each arm, the sum of what those have earned, in units of rewards."""
    alarms: list[int]
    certificates: list[float]
    """The certified lower bound on the corruption of the generation, at each time."""
    level: float
    """The level of the audits."""
    tolerated: list[float]
    """The corruption that each layer tolerates; empty for a policy without layers."""
    deletions: list[DeletionView]
    rulings: list[RulingView]
    experts: dict[str, list[float | None]] = {}
    """The weight of each expert that learns, and of the single arms together, at each time."""


class SourceDayView(msgspec.Struct, frozen=True):
    """The rewards of one source for the visits of one day."""

    day: str
    """The date in UTC; ``earlier`` for all days before the latest ones."""
    final: bool
    """Whether the windows of all decisions of the day have closed."""
    counted: int
    quarantined: int
    retracted: int
    mean: float | None
    """The mean of all of them, whether they count or not; ``None`` if there is none."""
    visits: int = 0
    """Visits that said where they came from when they were decided, rewarded or not."""


class SourceView(msgspec.Struct, frozen=True):
    """The rewards of one source."""

    source: str | None
    """``None`` for rewards without a source, or, if ``others``, of all sources beyond the first."""
    others: bool
    days: list[SourceDayView]
    delays: list[int]
    """Entry ``b`` counts delays in milliseconds below ``2^b`` that are not in an earlier one."""


class GroupView(msgspec.Struct, frozen=True):
    """The visits of a source, a unit or a value of a label, but for those that were voided."""

    name: str | None
    """A unit's is the hash that exports show; ``None`` for visits that have none."""
    visits: int
    rewarded: int
    counted: int
    held: int
    retracted: int
    voided: int
    """Visits that were voided; no other figure includes them."""
    mean: float | None
    """The mean of its rewards, whether they count or not."""
    first: int
    last: int
    """When its first and its last visit began."""
    difference: float
    """The largest of its differences from the rest, between 0 and 1, less what chance does."""
    differs: list[str]
    """In what it differs, the most first: ``arms`` (which ones its rewards are for), ``delays`` of
    its rewards, ``rate`` (how many visits are rewarded), ``mean``."""
    moved: float
    """By how much it has moved the mean of an arm: that mean, less the mean without its visits."""
    moved_arm: str | None
    arms: list[int]
    """Its rewards by arm."""
    shown: list[int]
    """Its visits by arm."""
    delays: list[int]
    """As those of a :class:`SourceView`."""


class GroupList(msgspec.Struct, frozen=True):
    """Sources, units or values of a label, and all of them together in the same range of time."""

    time: int
    progress: float
    """The share of the log that has been read; below 1 there are no groups yet."""
    arms: list[str]
    labels: list[str]
    """The names of labels that visits have."""
    begins: int = 0
    """When the first visit began that is looked at: of very long logs, the latest millions are."""
    found: int = 0
    """How many groups fit the search."""
    visits: int = 0
    """Their visits."""
    rewards_by_arm: list[int] = []
    visits_by_arm: list[int] = []
    delays: list[int] = []
    groups: list[GroupView] = []


class ExperimentHealth(msgspec.Struct, frozen=True):
    """An experiment at a glance."""

    name: str
    phase: Phase
    policy: str
    created: int
    decisions: int
    open: int
    best: str | None
    """The arm that got most of the recent decisions; ``None`` before a reward is learned."""
    share: float | None
    """Its share of the recent decisions."""
    mean: float | None
    """The mean of what that arm has earned, missing rewards included."""
    alarms: int
    """The alarms of the last audit of the history."""
    times: list[int]
    traffic: list[int]
    """The decisions up to each time."""


class RulingAnswer(msgspec.Struct, frozen=True):
    """What a ruling changes, or would change if it is a preview."""

    head: str
    """The end of the log that the ruling has seen; give it to make a ruling on the same state."""
    visits: int
    """Visits that are selected."""
    rewarded: int
    """Those of them that have a reward."""
    changed: int
    """Those of them whose standing changes."""
    replayed: bool
    """Whether something had been learned from them, so that the log was replayed without it."""
    unknown: int = 0
    """Identifiers that were given and that no visit has."""
    unknown_listed: list[str | int] = []
    """Some of them."""
    unchanged: int = 0
    """Identifiers that were given, and whose visits all stand like this already."""
    unchanged_listed: list[str | int] = []
    """Some of them."""
    notes: list[str] = []
    """What to know about this ruling: what it leaves behind, what the selection may have missed."""
    before: ExperimentView | None = None
    after: ExperimentView | None = None
    history_before: HistoryView | None = None
    history_after: HistoryView | None = None


class StandingHold(msgspec.Struct, frozen=True):
    """Rewards that come from now on and fit are held until they are released."""

    source: str | None
    labels: dict[str, str]
    since: int
    reason: str = ""


class Action(msgspec.Struct, frozen=True):
    """A change that somebody made, from the log."""

    sequence: int
    time: int
    action: str
    """What was done, as ``void`` or ``retire-arm``."""
    detail: str
    """To what, in a few words."""
    reason: str
    key: str | None
    """The id of the key; ``None`` for a program in the process of the service."""
    label: str | None
    """The label of the key."""
    person: str | None
    """The person, if a trusted proxy said so."""


class Lease(msgspec.Struct, frozen=True):
    """The right to draw decisions elsewhere; see :mod:`armrace_client.leases` for the draw."""

    lease: str
    """Its signed name, to be given with reports."""
    experiment: str
    arms: list[str]
    weights: list[int]
    """The probability of each arm in units of 2^-32; their sum is 2^32. Where visitors fall into
    leaves, those of each leaf, leaf after leaf."""
    seed: str
    """Secret, in hexadecimal digits: whoever knows it can predict the decisions."""
    stream: int
    visits: int
    """How many decisions may be drawn: those numbered from 0 up to this."""
    expires: int
    """Until when decisions may be drawn and reported, in milliseconds since 1970."""
    schema: ContextSchema | None = None
    """The features of visitors, if some tell leaves apart."""
    feature_key: str = ""
    """Secret, in hexadecimal digits: by which texts fall into buckets, if leaves depend on it."""

    def leaf_of(self, context: Mapping[str, Any] | None) -> int:
        """Return the leaf of a visitor; refuse features that the experiment does not declare."""
        if self.schema is None:
            return 0
        return self.schema.encode(context or {}, bytes.fromhex(self.feature_key)).leaf


class VisitAnswer(msgspec.Struct, frozen=True):
    """What became of a visit that was reported."""

    status: Literal["accepted", "duplicate", "conflict", "unknown", "expired", "invalid"]
    decision: str | None = None
    """The signed name of the decision, by which it can be rewarded."""
    detail: str = ""


class VisitList(msgspec.Struct, frozen=True):
    """What became of each visit, in the order of the report."""

    visits: list[VisitAnswer]


class RefusedDecision(msgspec.Struct, frozen=True):
    """Why a decision of a batch was not made."""

    member: int
    """Its place in the batch, from 0."""
    code: str
    message: str


class DecisionList(msgspec.Struct, frozen=True):
    """Decisions in the order of the batch; each was made, and is durable, or was refused."""

    decisions: list[DecisionAnswer | None]
    """For each member its decision; null if it was refused."""
    refusals: list[RefusedDecision]
    """Members that were refused, and why."""

    def made(self) -> list[DecisionAnswer]:
        """Return the decisions that were made."""
        return [each for each in self.decisions if each is not None]


class RewardStatus(msgspec.Struct, frozen=True):
    """What became of a reward."""

    status: Literal["accepted", "duplicate"]


class RewardList(msgspec.Struct, frozen=True):
    """What became of each reward, in the order of the batch."""

    rewards: list[RewardAnswer]


class Names(msgspec.Struct, frozen=True):
    """The names of experiments."""

    experiments: list[str]


class QuarantinedReward(msgspec.Struct, frozen=True):
    """A reward that was accepted and is not learned until it is released."""

    decision: int
    """The sequence number of the decision."""
    time: int
    value: float
    source: str | None
    suspicion: float | None


class RatioRow(msgspec.Struct, frozen=True):
    """How often an arm was chosen, and how often it should have been."""

    arm: str
    decisions: int
    expected: float


class RatioCheck(msgspec.Struct, frozen=True):
    """A comparison of decisions with the probabilities that were published."""

    rows: list[RatioRow]
    left_out: int
    """Decisions without known probabilities of all arms, for instance those of eligible arms."""
    statistic: float | None
    p_value: float | None
    """The probability of such a difference if the published probabilities are the true ones;
    ``None`` if fewer than two arms are expected at least 5 times."""


class BackupAnswer(msgspec.Struct, frozen=True):
    """A copy of the log that was written."""

    file: str
    """Its name, in the folder of the log."""
    records: int
    """A lower bound on the number of records in the copy."""


class DecisionRow(msgspec.Struct):
    """A decision and what became of it; the layer that it was drawn from is not part of it."""

    decision: int
    """The sequence number of the decision."""
    time: int
    arm: str
    probability: float | None
    by: Literal["policy", "floor", "editor", "lease", "holdout"]
    """Who chose the arm."""
    unit: str | None
    """A keyed hash of the unit: the same for the same unit of this experiment."""
    request: str | None
    """A keyed hash of the request."""
    source: str | None = None
    """Where the visit, or else its reward, came from."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    reward: float | None = None
    reward_time: int | None = None
    suspicion: float | None = None
    counts: bool | None = None
    """Whether the reward counts; ``None`` if there is none."""
    void: bool = False
    """Whether the visit counts as never made."""
    leaf: str | None = None
    """The segment of the visitor, if the experiment has some."""
    features: dict[str, int] = msgspec.field(default_factory=dict)
    """The encoded features of the visitor: numbers and booleans from -4096 to 4096, categories by
    the place of their value or their bucket, and -32768 for one that is missing."""
    metrics: dict[str, float] = msgspec.field(default_factory=dict)
    """The guardrails that came with the reward."""
    parts: int = 0
    """How many rewards were added up, where they are."""
