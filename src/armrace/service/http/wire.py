"""The bodies of requests, and how they become requests of the ledger."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from armrace.errors import InvalidParameter
from armrace.policies import RECOMMENDED
from armrace.service.answers import Decision, RewardAnswer
from armrace.service.requests.decisions import Decide
from armrace.service.requests.rewards import Reward
from armrace.service.requests.rulings import Rule, Selection
from armrace.service.settings import Settings, make_settings

__all__ = [
    "ArmBody",
    "CreateBody",
    "DecideBatch",
    "DecideBody",
    "DecisionList",
    "Names",
    "RefusedDecision",
    "RewardBatch",
    "RewardBody",
    "RewardList",
    "RewardStatusAnswer",
    "RuleBody",
]

MOST_IN_BATCH = 1000
Label = Annotated[str, Meta(min_length=1, max_length=200)]


class _Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class CreateBody(_Body, frozen=True):
    """The settings of a new experiment; see the guide for each."""

    name: Label
    arms: Annotated[list[Label], Meta(min_length=2)]
    missing: float | Literal["drop"]
    policy: str | dict[str, Any] = RECOMMENDED
    horizon: int | None = None
    window: float = 3600.0
    settle: Literal["window", "immediate"] = "window"
    rewards: tuple[float, float] = (0.0, 1.0)
    floors: dict[str, float] | None = None
    quarantine: float | None = None
    most_open: int = 1_000_000
    seed: int | None = None

    def settings(self) -> Settings:
        """Check the settings and return them."""
        _refuse_paths(self.policy)
        values = msgspec.structs.asdict(self)
        del values["name"]
        seed = secrets.randbits(63) if self.seed is None else self.seed
        return make_settings(**{**values, "seed": seed})


def _refuse_paths(policy: str | dict[str, Any]) -> None:
    """Refuse ``module:Class`` at any depth, which would import a module of the sender's choice."""
    parts: list[Any] = [policy]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and ":" in part:
            raise InvalidParameter(f"policy must be a name of the catalogue; got {part!r:.100}.")


class DecideBody(_Body, frozen=True):
    """How to decide; all of it is optional."""

    eligible: list[Label] | None = None
    unit: Label | None = None
    request: Label | None = None

    def ask(self, tenant: str, name: str) -> Decide:
        """Return the request of the ledger."""
        return Decide(tenant, name, self.eligible, self.unit, self.request)

    @property
    def cost(self) -> int:
        """How many plain decisions it counts as: one more for each hundred arms that it names."""
        return 1 + len(self.eligible or ()) // 100


class DecideBatch(_Body, frozen=True):
    """Several decisions in one write."""

    decisions: Annotated[list[DecideBody], Meta(max_length=MOST_IN_BATCH)]


class RefusedDecision(msgspec.Struct, frozen=True):
    """Why a decision of a batch was not made."""

    member: int
    """Its place in the batch, from 0."""
    code: str
    message: str


class DecisionList(msgspec.Struct, frozen=True):
    """Decisions in the order of the batch; each was made, and is durable, or was refused."""

    decisions: list[Decision | None]
    """For each member its decision; null if it was refused."""
    refusals: list[RefusedDecision]
    """Members that were refused, and why."""


class RewardBody(_Body, frozen=True):
    """What a decision earned."""

    decision: str
    value: float
    source: Label | None = None
    suspicion: Annotated[float, Meta(ge=0, le=1)] | None = None

    def ask(self, tenant: str) -> Reward:
        """Return the request of the ledger."""
        return Reward(tenant, self.decision, self.value, self.source, self.suspicion)


class RewardBatch(_Body, frozen=True):
    """Several rewards in one write."""

    rewards: Annotated[list[RewardBody], Meta(max_length=MOST_IN_BATCH)]


class RewardStatusAnswer(msgspec.Struct, frozen=True):
    """What became of a reward."""

    status: Literal["accepted", "duplicate"]


class RewardList(msgspec.Struct, frozen=True):
    """What became of each reward, in the order of the batch."""

    rewards: list[RewardAnswer]


class RuleBody(_Body, frozen=True):
    """Which rewards to retract or release; something must be given."""

    decisions: list[str | int] | None = None
    source: Label | None = None
    since: int | None = None
    until: int | None = None
    reason: Annotated[str, Meta(max_length=1000)] = ""

    def ask(self, tenant: str, name: str, counts: bool, preview: bool) -> Rule:
        """Return the request of the ledger."""
        selection = Selection(self.decisions, self.source, self.since, self.until)
        return Rule(tenant, name, selection, counts, self.reason, preview)


class ArmBody(_Body, frozen=True):
    """A new arm."""

    arm: Label


class Names(msgspec.Struct, frozen=True):
    """The names of experiments."""

    experiments: list[str]
