"""What a replay returns: estimates of every policy, as data and in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import msgspec
import polars as pl

from armrace.errors import DamagedFile, UnknownName
from armrace.evaluation.estimates import ESTIMATORS, Estimate
from armrace.files import as_path, check_new, write_text
from armrace.formatting import count, figure, percent, span
from armrace.logs import RowReport
from armrace.reports import Presentation

__all__ = ["AttackOnLog", "Gain", "PolicyReplay", "Replay", "Verdict"]

Verdict = Literal["better", "worse", "undecided", "not enough data"]
_VERDICTS: dict[Verdict, str] = {
    "better": "earns more than the log",
    "worse": "earns less than the log",
    "undecided": "cannot be told apart from the log",
    "not enough data": "not enough data to conclude anything",
}
AS_LOGGED = "as logged"


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """How much more a policy earns a round than the system that made the log."""

    value: float
    low: float
    high: float


class AttackOnLog(msgspec.Struct, frozen=True, kw_only=True):
    """An attack that was injected into the rewards that a policy learned."""

    specification: dict[str, Any]
    budget: float
    spent: float
    """The mean over runs of what was charged: the sum over rounds of the largest change."""
    seen: float
    """The mean over runs of the changes to rewards that the policy learned."""
    found_by: str = ""
    """The effort of the search that found the attack, if one did."""


class PolicyReplay(msgspec.Struct, frozen=True, kw_only=True):
    """One policy on one form of the log."""

    policy: str
    specification: dict[str, Any]
    form: str
    """``as logged``, ``under`` an attack, or ``without`` a source."""
    rows: int
    logged_mean: float
    """The mean reward of the rows of this form, as the logging system chose the arms."""
    rounds: float
    """Accepted rows, the mean over runs."""
    acceptance: float
    """The share of the rows that was accepted."""
    horizon: int
    """The number of decisions that the policy planned for."""
    estimates: list[Estimate]
    lowest: float | None
    """The smallest mean reward of a run."""
    highest: float | None
    shares: list[float]
    """The share of the rounds of each arm."""
    gain: Gain | None
    verdict: Verdict
    attack: AttackOnLog | None = None
    curve: list[tuple[float, float, float]] = []
    """Along the log: rows, rounds, and the mean reward of the rounds so far; means over runs."""

    def estimate(self, estimator: str) -> Estimate:
        """Return the estimate by the short name of its estimator.

        Args:
            estimator: the short name, such as ``dr``.
        """
        known = {each.estimator: each for each in self.estimates}
        if estimator not in known:
            raise UnknownName.among("estimator", estimator, known)
        return known[estimator]

    @property
    def words(self) -> str:
        """The verdict in one sentence."""
        name = self.policy if self.form == AS_LOGGED else f"{self.policy} {self.form}"
        best = self.estimates[-1]
        if self.verdict == "not enough data":
            return f"{name}: {best.warning or _VERDICTS[self.verdict]}."
        if self.gain is None:
            return (
                f"{name}: a mean of {figure(best.value or 0.0)} ({span(best.low, best.high)}) "
                "a round; all estimators are needed to compare it with the log."
            )
        return (
            f"{name}: {_VERDICTS[self.verdict]}; the difference a round is "
            f"{figure(self.gain.value)} ({span(self.gain.low, self.gain.high)})."
        )


class Replay(msgspec.Struct, Presentation, frozen=True, kw_only=True):
    """What policies would have earned on a log."""

    log: str
    columns: dict[str, str]
    rewards: tuple[float, float]
    row_report: RowReport
    arms: list[str]
    rows: int
    logged_mean: float
    arm_rows: list[int]
    arm_means: list[float]
    floor: float
    """Matching rows are accepted with probability floor / propensity."""
    level: float
    replications: int
    seed: int
    policies: list[PolicyReplay]
    warnings: list[str]
    settings: dict[str, Any] = {}
    """The other arguments of the replay, as plain data; what was not given is left out."""

    @property
    def table(self) -> pl.DataFrame:
        """A row for each policy, form of the log and estimator."""
        rows = [
            {
                "policy": each.policy,
                "form": each.form,
                "rounds": each.rounds,
                "acceptance": each.acceptance,
                "estimator": estimate.estimator,
                "value": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "method": estimate.method,
                "effective_rows": estimate.rows,
                "effective_rewards": estimate.rewards,
                "enough": estimate.is_enough,
            }
            for each in self.policies
            for estimate in each.estimates
        ]
        return pl.DataFrame(rows, infer_schema_length=None)

    def find(self, policy: str, form: str = AS_LOGGED) -> PolicyReplay:
        """Return the figures of one policy on one form of the log.

        Args:
            policy: the name of the policy.
            form: the form of the log: as it was logged, under an attack, or without a source.
        """
        return next(each for each in self.policies if (each.policy, each.form) == (policy, form))

    def sentences(self) -> list[str]:
        """Say what became of the rows, what the log cannot show, and the verdicts."""
        return [
            *self.row_report.sentences(),
            self.setting(),
            *self.warnings,
            *(each.words for each in self.policies),
        ]

    def setting(self) -> str:
        """Describe the log and the acceptance of its rows."""
        rounds = count(round(self.rows * self.floor))
        runs = "1 run" if self.replications == 1 else f"{count(self.replications)} runs"
        return (
            f"{len(self.arms)} arms, {count(self.rows)} rows with a mean reward of "
            f"{figure(self.logged_mean)}; a row is accepted with a probability of "
            f"{percent(self.floor)}, so that a run has about {rounds} "
            f"rounds; {runs} of each policy."
        )

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        for plain, each in zip(data["policies"], self.policies, strict=True):
            plain["words"] = each.words
        return {**data, "estimators": ESTIMATORS, "words": self.sentences()}

    def save(self, path: Path | str, *, overwrite: bool = False) -> None:
        """Write everything into a file, as JSON.

        Args:
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        check_new(as_path(path), overwrite=overwrite)
        text = msgspec.json.format(msgspec.json.encode(self.to_builtins()), indent=2).decode()
        write_text(as_path(path), text + "\n")

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote; see :func:`armrace.load`.

        Args:
            path: the file.
        """
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise DamagedFile(f"{path} is not a replay of armrace: {error}.") from None

    def __str__(self) -> str:
        """Return the sentences, one a line."""
        return "\n".join(self.sentences())
