"""The decision service in this process."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from armrace.errors import ArmraceError, NotReady
from armrace.files import check_new
from armrace.forensics import Audit
from armrace.policies import RECOMMENDED
from armrace.service.answers import (
    ArmAnswer,
    Decision,
    DecisionRow,
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
    check_rewards,
)
from armrace.service.defaults import AUDIT_LEVEL, DEFAULT_TENANT
from armrace.service.exports import write_rows
from armrace.service.keyring import Keyring
from armrace.service.ledger import Ledger, Request
from armrace.service.listings import export_rows, list_quarantine
from armrace.service.log_parts import back_up_log, verify_log
from armrace.service.requests.arms import AddArm, ChangeArm
from armrace.service.requests.courses import ListSources, ReadHealth, ReadHistory
from armrace.service.requests.decisions import Decide
from armrace.service.requests.experiments import ChangePhase, Create, ListNames
from armrace.service.requests.inspection import AuditNow, CheckRatio
from armrace.service.requests.rewards import Reward
from armrace.service.requests.rulings import Rule, Selection
from armrace.service.rulings_aside import make_ruling
from armrace.service.seal import Seal
from armrace.service.settings import make_settings
from armrace.service.stores.base import Store
from armrace.service.views import Describe
from armrace.service.warming import warm_ahead

__all__ = ["Service"]

T = TypeVar("T")

_STATUSES: dict[str, Any] = {
    "reward-conflict": "conflict",
    "foreign-ticket": "unknown",
    "decision-expired": "expired",
}


class Service:
    """Experiments of one tenant, on a store.

    Every method that changes something returns when the change is durable. Methods are thread-safe;
    calls that wait for the store at the same time are served by one write.

    Args:
        store: where the log is kept.
        keyring: the secrets; by default fresh ones that are not kept.
        tenant: whose experiments these are.
        clock: returns the time in milliseconds since 1970; by default the system's, which is read
            once, and a monotonic clock from then on.
    """

    def __init__(
        self,
        store: Store,
        keyring: Keyring | None = None,
        tenant: str = DEFAULT_TENANT,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.keyring = keyring or Keyring()
        self.tenant = tenant
        self.ledger = Ledger(store, self.keyring.signing_keys, clock)
        self.ledger.seal = Seal.open(store, self.keyring)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Save a snapshot and close the store."""
        self.ledger.close()

    def _ask(self, request: Request[T]) -> T:
        return self._when_ready(lambda: self.ledger.ask(request))

    def _when_ready(self, call: Callable[[], T]) -> T:
        """Call until no policy of another process's experiment must be compiled for it.

        The threads of other calls go on meanwhile, and so do other processes.
        """
        while True:
            try:
                return call()
            except NotReady:
                self.ledger.wait_for_policies()

    def _submit(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Perform requests in one write; those that are not ready again, until they are."""
        outcomes = self.ledger.submit(requests)
        while unready := [n for n, each in enumerate(outcomes) if isinstance(each, NotReady)]:
            self.ledger.wait_for_policies()
            again = self.ledger.submit([requests[n] for n in unready])
            for number, outcome in zip(unready, again, strict=True):
                outcomes[number] = outcome
        return outcomes

    # --- experiments ----------------------------------------------------------------------

    def create(
        self,
        name: str,
        arms: Sequence[str],
        missing: float | Literal["drop"],
        *,
        policy: Any = RECOMMENDED,
        horizon: int | None = None,
        window: float = 3600.0,
        settle: Literal["window", "immediate"] = "window",
        rewards: tuple[float, float] = (0.0, 1.0),
        floors: dict[str, float] | None = None,
        quarantine: float | None = None,
        most_open: int = 1_000_000,
        seed: int | None = None,
    ) -> ExperimentView:
        """Create an experiment, or return the one that has this name and these settings.

        Args:
            name: the name of the experiment.
            arms: the names of its arms.
            missing: what a reward counts as that has not come when the window closes: a reward, or
                ``"drop"`` if the decision is to teach nothing. Dropping is sound only if whether
                a reward is missing does not depend on it; where silence means no click, give 0.
            policy: a policy, its name, or plain data with a ``name`` and parameters.
            horizon: the expected number of decisions. If it is ``None``, the policy starts with
                10,000, and starts afresh with twice as many whenever they are reached.
            window: for how many seconds a decision can be rewarded.
            settle: ``"window"`` learns a decision when its window has closed, in the order of
                decisions; ``"immediate"`` learns rewards as they come.
            rewards: the smallest and the largest reward.
            floors: the least share of decisions of some arms, for a control arm for instance.
            quarantine: rewards of a suspicion above this are kept and not learned until released.
            most_open: how many decisions may be open at once.
            seed: the seed of the decisions; by default a random one.

        Returns:
            The state of the experiment.

        Raises:
            AlreadyExists: there is an experiment of this name with other settings.
        """
        settings = make_settings(
            arms=arms,
            missing=missing,
            policy=policy,
            horizon=horizon,
            window=window,
            settle=settle,
            rewards=rewards,
            floors=floors,
            quarantine=quarantine,
            most_open=most_open,
            seed=secrets.randbits(63) if seed is None else seed,
        )
        warm_ahead(settings, self.ledger.is_shared)
        self._ask(Create(self.tenant, name, settings, seed_given=seed is not None))
        return self.describe(name)

    def names(self) -> list[str]:
        """Return the names of all experiments."""
        return self._ask(ListNames(self.tenant))

    def describe(self, name: str) -> ExperimentView:
        """Return the state of an experiment: arms, layers and what the policy knows.

        Args:
            name: the experiment.
        """
        return self._ask(Describe(self.tenant, name))

    def pause(self, name: str) -> None:
        """Stop making decisions until :meth:`resume`; rewards are still accepted.

        Args:
            name: the experiment.
        """
        self._ask(ChangePhase(self.tenant, name, "paused"))

    def resume(self, name: str) -> None:
        """Make decisions again.

        Args:
            name: the experiment.
        """
        self._ask(ChangePhase(self.tenant, name, "running"))

    def finish(self, name: str) -> None:
        """Stop making decisions for good; rewards are accepted until the windows close.

        Args:
            name: the experiment.
        """
        self._ask(ChangePhase(self.tenant, name, "finished"))

    # --- arms -----------------------------------------------------------------------------

    def add_arm(self, name: str, arm: str) -> ArmAnswer:
        """Add an arm; the answer says whether the policy starts afresh.

        Args:
            name: the experiment.
            arm: the name of the new arm.
        """
        return self._ask(AddArm(self.tenant, name, arm))

    def pause_arm(self, name: str, arm: str) -> ArmAnswer:
        """Stop choosing an arm until :meth:`resume_arm`.

        Args:
            name: the experiment.
            arm: the arm.
        """
        return self._ask(ChangeArm(self.tenant, name, arm, "paused"))

    def resume_arm(self, name: str, arm: str) -> ArmAnswer:
        """Choose a paused arm again.

        Args:
            name: the experiment.
            arm: the arm.
        """
        return self._ask(ChangeArm(self.tenant, name, arm, "active"))

    def retire_arm(self, name: str, arm: str) -> ArmAnswer:
        """Stop choosing an arm for good.

        Args:
            name: the experiment.
            arm: the arm.
        """
        return self._ask(ChangeArm(self.tenant, name, arm, "retired"))

    # --- decisions and rewards ------------------------------------------------------------

    def decide(
        self,
        name: str,
        eligible: Iterable[str] | None = None,
        unit: str | None = None,
        request: str | None = None,
    ) -> Decision:
        """Make a decision.

        Args:
            name: the experiment.
            eligible: the arms that may be chosen; by default all.
            unit: the visitor or user that the decision is made for. As long as a decision for the
                same unit is open, that one is returned: a unit sees one arm and brings one reward.
                A new decision is made if its arm is not active or not eligible any more.
            request: an identifier of this call. A call with the same one returns the same
                decision as long as it is open, so that a call can be repeated when no answer came.

        Returns:
            The decision.
        """
        return self._ask(self._decide(name, eligible, unit, request))

    def _decide(
        self,
        name: str,
        eligible: Iterable[str] | None = None,
        unit: str | None = None,
        request: str | None = None,
    ) -> Decide:
        listed = None if eligible is None else check_list("eligible", "arms", eligible)
        return Decide(self.tenant, name, listed, unit, request)

    def decide_many(self, name: str, count: int) -> list[Decision]:
        """Make a number of decisions in one write.

        Args:
            name: the experiment.
            count: how many decisions to make.

        Returns:
            The decisions; fewer than ``count`` if more would have been open than may be.

        Raises:
            ArmraceError: none was made.
        """
        outcomes = self._submit([self._decide(name)] * check_count(count))
        made = [each for each in outcomes if not isinstance(each, ArmraceError)]
        if outcomes and not made:
            raise outcomes[0]
        return made

    def reward(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> Literal["accepted", "duplicate"]:
        """Say what a decision earned.

        Args:
            decision: the decision, or its signed name.
            value: the reward.
            source: where the reward comes from, by which it can be retracted.
            suspicion: how suspicious it is, from 0 to 1.

        Returns:
            ``"accepted"``, or ``"duplicate"`` if the decision has had this reward.

        Raises:
            RewardConflict: the decision has had another reward.
            DecisionExpired: its window has closed.
            ForeignTicket: the service has not made it.
            InvalidParameter: the value lies outside the range of rewards.
        """
        return self._ask(self._reward(decision, value, source, suspicion))

    def _reward(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> Reward:
        token = decision.decision if isinstance(decision, Decision) else decision
        return Reward(self.tenant, token, value, source, suspicion)

    def reward_many(
        self,
        rewards: Iterable[tuple[Decision | str, float] | RewardItem],
        source: str | None = None,
        suspicion: float | None = None,
    ) -> list[RewardAnswer]:
        """Say what many decisions earned, in one write; each reward has its own answer.

        Args:
            rewards: pairs of a decision, or its signed name, and its reward; a
                :class:`armrace.service.client.RewardItem` may have a source and a suspicion of its
                own.
            source: where the other rewards come from, by which they can be retracted.
            suspicion: how suspicious they are, from 0 to 1.
        """
        requests = [self._reward(*item) for item in check_rewards(rewards, source, suspicion)]
        return [reward_answer(outcome) for outcome in self._submit(requests)]

    # --- rulings --------------------------------------------------------------------------

    def retract(
        self,
        name: str,
        decisions: Iterable[Decision | str | int] | Decision | str | int | None = None,
        *,
        source: str | None = None,
        since: int | None = None,
        until: int | None = None,
        reason: str = "",
        preview: bool = False,
    ) -> RulingAnswer:
        """Take rewards back: they count as if they had never come.

        Args:
            name: the experiment.
            decisions: decisions whose rewards to retract, or one.
            source: the source whose rewards to retract.
            since: only rewards that came at this time or later, in milliseconds since 1970.
            until: only rewards that came before this time.
            reason: why, for the log.
            preview: whether to change nothing and return the state before and after.

        Returns:
            How many rewards it concerns.
        """
        selection = _selection(decisions, source, since, until)
        rule = Rule(self.tenant, name, selection, False, reason, preview)
        return self._when_ready(lambda: make_ruling(self.ledger, rule))

    def release(
        self,
        name: str,
        decisions: Iterable[Decision | str | int] | Decision | str | int | None = None,
        *,
        source: str | None = None,
        since: int | None = None,
        until: int | None = None,
        reason: str = "",
        preview: bool = False,
    ) -> RulingAnswer:
        """Let rewards count that are in quarantine or were retracted; as :meth:`retract`.

        Args:
            name: the experiment.
            decisions: decisions whose rewards to release, or one.
            source: the source whose rewards to release.
            since: only rewards that came at this time or later, in milliseconds since 1970.
            until: only rewards that came before this time.
            reason: why, for the log.
            preview: whether to change nothing and return the state before and after.
        """
        selection = _selection(decisions, source, since, until)
        rule = Rule(self.tenant, name, selection, True, reason, preview)
        return self._when_ready(lambda: make_ruling(self.ledger, rule))

    def quarantine(self, name: str) -> list[QuarantinedReward]:
        """Return the rewards in quarantine.

        Args:
            name: the experiment.
        """
        return self._when_ready(lambda: list_quarantine(self.ledger, self.tenant, name))

    # --- inspection -----------------------------------------------------------------------

    def audit(self, name: str, level: float = AUDIT_LEVEL) -> Audit:
        """Look for traces of corruption in what was learned in the current generation.

        Args:
            name: the experiment.
            level: a bound on the probability that any statement of any audit is wrong.
        """
        return self._ask(AuditNow(self.tenant, name, level))

    def check_ratio(self, name: str) -> RatioCheck:
        """Compare how often arms were chosen with their published probabilities.

        Args:
            name: the experiment.
        """
        return self._ask(CheckRatio(self.tenant, name))

    def health(self) -> list[ExperimentHealth]:
        """Return all experiments at a glance, without those whose policy is still compiled here."""
        return self._ask(ReadHealth(self.tenant))

    def history(self, name: str) -> HistoryView:
        """Return the course of an experiment: traffic, rewards and certificates over time.

        Args:
            name: the experiment.
        """
        return self._ask(ReadHistory(self.tenant, name))

    def sources(self, name: str) -> list[SourceView]:
        """Return the rewards of each source by day, and how late they came.

        Args:
            name: the experiment.
        """
        return self._ask(ListSources(self.tenant, name))

    def rows(self, name: str) -> list[DecisionRow]:
        """Return all decisions of an experiment with their rewards.

        Args:
            name: the experiment.
        """
        return self._when_ready(lambda: list(export_rows(self.ledger, self.tenant, name)))

    def export(self, name: str, path: Path | str, *, overwrite: bool = False) -> None:
        """Write all decisions with their rewards into a file ending in .ndjson or .parquet.

        Args:
            name: the name of the experiment.
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        check_new(Path(path), overwrite=overwrite)
        self._when_ready(lambda: write_rows(export_rows(self.ledger, self.tenant, name), path))

    def back_up(self, path: Path | str) -> None:
        """Verify the log and write a copy into a new file, while the service is in use.

        Args:
            path: the file; open it with ``restored=True``. The file of secrets is copied apart.
        """
        back_up_log(self.ledger, path)

    def verify(self) -> int:
        """Check every record of the log against the digests that chain them.

        A short log is checked whenever it is opened; of a long one only what the latest snapshot
        does not cover. Others are served meanwhile.

        Returns:
            The number of records.

        Raises:
            DamagedFile: a record is missing or was changed.
        """
        return verify_log(self.ledger)


def reward_answer(outcome: Any) -> RewardAnswer:
    """Return what became of a reward, given the answer or the refusal of the ledger.

    Args:
        outcome: the answer or the refusal of the ledger.
    """
    if isinstance(outcome, ArmraceError):
        return RewardAnswer(_STATUSES.get(outcome.code, "invalid"), str(outcome))
    return RewardAnswer(outcome)


def _selection(
    decisions: Iterable[Decision | str | int] | Decision | str | int | None,
    source: str | None,
    since: int | None,
    until: int | None,
) -> Selection:
    return Selection(check_decisions(decisions), source, since, until)
