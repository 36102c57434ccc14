"""What a search has found, as data and in words."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries import Adversary
from armrace.adversaries.by_visitor import TwoPhaseByVisitor
from armrace.adversaries.two_phase import CONDITIONS, NamedTwoPhase, TwoPhase
from armrace.environments import Bernoulli
from armrace.errors import ArmraceError
from armrace.formatting import count, figure, percent
from armrace.red_team.target import Ratings, Target
from armrace.reports import Presentation
from armrace.simulation.experiment import Experiment
from armrace.specification import Specification
from armrace.statistics import mean_interval, summarise

_LONGEST_WORD = 100_000
"""Linux takes no word of a command that is longer than 128 KiB."""

_DECOYS = {
    "runner-up": "the second best arm",
    "worst": "the worst arm",
    "likeliest": "the likeliest other arm",
    "all": "all others",
}
_ACTIONS = {
    "zero": "shows 0 on the best arm",
    "swap": "swaps the rewards of the best arm and {decoy}",
    "double-impact": "shows 0 on the best arm and 1 on {decoy}, when both are large changes",
    "free-ride": "shows 0 on the best arm and 1 on all others",
    "spoil": "shows 0 on all arms",
    "spoil-and-praise": "shows 0 on all arms except {decoy}, which shows 1",
}
_ACTIONS_ON_ALL = {
    "swap": "shows the best arm's reward on all others, and the second best arm's on the best",
    "double-impact": "shows 0 on the best arm and 1 on all others, when all are large changes",
    "spoil-and-praise": "shows 0 on the best arm and 1 on all others",
}
"""What actions do where all arms but the best are decoys, if that takes other words."""
_VISITORS = {
    "best": "for whom arm {arm} is the best",
    "not-best": "for whom arm {arm} is not the best",
    "close": "whose best two arms differ by less than {value:g}",
    "spread": "whose best and worst arm differ by more than {value:g}",
    "coordinate": "whose coordinate {arm} is positive",
}


def describe(attack: Adversary) -> str:
    """Say in plain words what an attack does.

    >>> describe(TwoPhase(first="double-impact", first_low=0.5))
    'It shows 0 on the best arm and 1 on the second best arm, when both are large changes, while \
the best arm has a probability of at least 0.5.'
    """
    if isinstance(attack, NamedTwoPhase):
        return describe(attack.member)
    if not isinstance(attack, TwoPhase):
        return _summary(attack)
    shares = attack.phases()
    opening = ["It"]
    if len(shares) > 1:
        spans = [percent(share) for share in shares.values()]
        later = [f"With the next {span} it" for span in spans[1:-1]]
        opening = [f"With the first {spans[0]} of the budget it", *later, "With the rest it"]
    sentences = [
        f"{begin} {_phase(attack, name)}." for begin, name in zip(opening, shares, strict=True)
    ]
    return " ".join([*sentences, *_schedule(attack)])


def _phase(attack: TwoPhase, name: str) -> str:
    """Say what a phase does, and when it strikes."""
    low, high, visible, margin, pays, strength = (
        getattr(attack, f"{name}_{part}") for part in CONDITIONS
    )
    decoy = _decoy(attack)
    conditions = []
    if pays > 0.0:
        conditions.append(f"the best arm would pay {pays:g} or more")
    arm = "the best arm has a probability"
    if not attack.sees_weights:
        arm = "the best arm has a share of the recent plays"
    if low > 0.0 and high < 1.0:
        conditions.append(f"{arm} of {low:g} to {high:g}")
    elif low > 0.0:
        conditions.append(f"{arm} of at least {low:g}")
    elif high < 1.0:
        conditions.append(f"{arm} of at most {high:g}")
    if visible > 0.0:
        conditions.append(f"the expected change of the reward that is seen is at least {visible:g}")
    if margin > -1.0:
        rival = _DECOYS["runner-up"] if attack.decoy == "all" else decoy
        lead = f"leads {rival} by at least {margin:g}"
        if margin <= 0.0:
            lead = f"trails {rival} by at most {-margin:g}"
        conditions.append(f"the observed mean of the best arm {lead}")
    action = _action(getattr(attack, name), attack.decoy, decoy)
    if strength < 1.0:
        action += f", each reward moved by {percent(strength)} of the way"
    return action + (f", while {' and '.join(conditions)}" if conditions else "")


def _decoy(attack: TwoPhase) -> str:
    """Name the decoy."""
    if isinstance(attack, TwoPhaseByVisitor) and attack.decoy == "arm":
        return f"arm {attack.decoy_arm}"
    return _DECOYS[attack.decoy]


def _action(action: str, decoy: str, words: str) -> str:
    """Say what an action shows."""
    if decoy == "all" and action in _ACTIONS_ON_ALL:
        return _ACTIONS_ON_ALL[action]
    return _ACTIONS[action].format(decoy=words)


def _schedule(attack: TwoPhase) -> list[str]:
    sentences = []
    if isinstance(attack, TwoPhaseByVisitor):
        sentences.append("Which arm is the best depends on the visitor.")
        if attack.where != "everywhere":
            who = _VISITORS[attack.where].format(arm=attack.where_arm, value=attack.where_value)
            sentences.append(f"It strikes only visitors {who}.")
    if attack.start_at > 0.0:
        sentences.append(f"It waits for the first {percent(attack.start_at)} of the rounds.")
    if attack.wake_at > attack.start_at and attack.split < 1.0:
        sentences.append(
            f"The second phase does not begin before {percent(attack.wake_at)} of the rounds."
        )
    if attack.pace < 1.0:
        sentences.append(f"It spends at most {attack.pace:g} for each round since its start.")
    lows = [getattr(attack, f"{name}_low") for name in attack.phases()]
    if attack.hysteresis > 0.0 and max(lows) > 0.0:
        sentences.append(
            f"Once it strikes, it goes on until the probability is {attack.hysteresis:g} lower."
        )
    return sentences


def _summary(attack: Adversary) -> str:
    """Return the first sentence of a class's description, and parameters that are not default."""
    first = " ".join((type(attack).__doc__ or attack.tag()).split()).split(". ")[0].rstrip(".")
    changed = changed_parameters(attack)
    given = ", ".join(f"{name} = {value}" for name, value in changed.items())
    return f"{first}{f' ({given})' if given else ''}."


def changed_parameters(specification: Specification) -> dict[str, Any]:
    """Return the parameters that do not have their default value, as plain data."""
    data = specification.to_builtins()
    fields = msgspec.structs.fields(type(specification))
    return {f.name: data[f.name] for f in fields if data[f.name] != _usual(specification, f)}


def _usual(specification: Specification, field: msgspec.structs.FieldInfo) -> Any:
    """Return the default value of a parameter as plain data.

    A specification may turn what it is given into something else, such as a name into a policy,
    so the default is read from one that was given it.
    """
    try:
        given = msgspec.structs.replace(specification, **{field.name: field.default})
        return given.to_builtins()[field.name]
    except (ArmraceError, TypeError):  # there is no default, or it does not fit the others
        return msgspec.NODEFAULT


def replay_command(experiment: Experiment) -> str:
    """Return the command that runs an experiment again.

    It is empty if a parameter, such as a table of rewards, is too long for a command line.
    """
    words = ["armrace", "simulate", *subject_words(experiment)]
    words += ["--attack", experiment.adversary.identifier()]
    words += _settings("--attack-set", changed_parameters(experiment.adversary))
    words += ["--budget", plain_number(experiment.budget)]
    words += ["--horizon", str(experiment.horizon)]
    words += ["--replications", str(experiment.replications), "--seed", str(experiment.seed)]
    if experiment.account != "largest":
        words += ["--account", experiment.account]
    if experiment.refresh > 0.0:
        words += ["--refresh", f"{experiment.refresh!r}"]
    return shlex.join(words) if max(map(len, words)) < _LONGEST_WORD else ""


def plain_number(number: float) -> str:
    """Return a number in the digits that the command line reads back to the same number.

    >>> plain_number(30.0), plain_number(1234.5678)
    ('30', '1234.5678')
    """
    return repr(number).removesuffix(".0")


def subject_words(experiment: Experiment, without: Collection[str] = ()) -> list[str]:
    """Return the words of a command that name policy and environment."""
    changed = changed_parameters(experiment.policy)
    given = {name: value for name, value in changed.items() if name not in without}
    words = [experiment.policy.identifier(), *_settings("--set", given)]
    environment = experiment.environment
    if isinstance(environment, Bernoulli):
        return [*words, "--means", ",".join(f"{mean!r}" for mean in environment.means)]
    words += ["--environment", environment.identifier()]
    return words + _settings("--environment-set", changed_parameters(environment))


def _settings(option: str, values: Mapping[str, Any]) -> list[str]:
    """Return parameters as words that the command line reads: text as it is, the rest as JSON."""
    words = []
    for name, value in values.items():
        given = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        words += [option, f"{name}={given}"]
    return words


CAUTION = "worst found: a lower bound on the worst case"


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """What a frozen attack achieved on held-out seeds."""

    mean: float
    stderr: float
    low: float
    high: float
    """Student's 95% interval of the mean."""
    p95: float
    max: float
    spent: float
    """The mean corruption, as the paper counts it."""
    seen: float
    """The mean corruption of the rewards that the learner saw."""
    replications: int
    seed: int
    sample: tuple[float, ...]
    """The measure of every replication."""

    def to_builtins(self) -> dict[str, Any]:
        """As plain data, without the sample."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        del data["sample"]
        return data


def held_out(ratings: Ratings, attack: Adversary) -> HeldOut:
    """Summarise the confirming replications of an attack."""
    sample: npt.NDArray[np.float64] = ratings.sample(attack)
    summary, (low, high) = summarise(sample), mean_interval(sample)
    return HeldOut(
        mean=summary.mean,
        stderr=summary.stderr,
        low=low,
        high=high,
        p95=summary.p95,
        max=summary.max,
        spent=float(ratings.sample(attack, "corruption").mean()),
        seen=float(ratings.sample(attack, "seen_corruption").mean()),
        replications=sample.size,
        seed=ratings.seed,
        sample=tuple(sample.tolist()),
    )


class SearchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How a search went."""

    effort: str
    seed: int
    families: tuple[str, ...]
    """The classes that were named to be searched; empty for those searched by default."""
    attacks: tuple[dict[str, Any], ...]
    """The attacks that were named to be tried, as plain data."""
    candidates: int
    """Different attacks that were tried."""
    replications: int
    """All replications: of searching, selecting and confirming."""
    searched: float
    """What the winner achieved while it was searched."""
    selected: float
    """What it achieved on the seeds on which it was selected among the finalists."""
    seconds: float


class Verdict(msgspec.Struct, Presentation, frozen=True, kw_only=True):
    """The worst attack that a search found, and the best built-in one, on the same seeds."""

    target: Target
    attack: Adversary
    search: SearchRecord
    held_out: HeldOut
    builtin: Adversary
    builtin_held_out: HeldOut

    @property
    def value(self) -> float:
        """What the attack achieved on held-out seeds: the mean or the quantile searched for."""
        return self.target.value(np.array(self.held_out.sample))

    @property
    def factor(self) -> float:
        """How much more the attack achieved than the best built-in one."""
        own = self.target.value(np.array(self.builtin_held_out.sample))
        return self.value / own if own > 0 else float("inf") if self.value > 0 else 1.0

    @property
    def selection(self) -> float:
        """What the search saw of the attack, relative to the held-out figure."""
        return self.search.searched / self.value if self.value > 0 else 1.0

    @property
    def description(self) -> str:
        """The attack in plain words."""
        return describe(self.attack)

    @property
    def command(self) -> str:
        """The command that plays the held-out replications again."""
        confirmed = self.held_out
        return replay_command(
            self.target.experiment(self.attack, confirmed.replications, confirmed.seed)
        )

    @property
    def charged(self) -> float:
        """What the attack was charged on average, of its budget."""
        return self.held_out.seen if self.target.sees_arm else self.held_out.spent

    def sentence(self) -> str:
        """The verdict in one sentence."""
        target, found = self.target, self.held_out
        measure = target.measure.replace("pseudo_regret", "pseudo-regret").replace("_", " ")
        # Only the pseudo-regret has a largest value that is known in advance.
        is_bounded = target.measure == "pseudo_regret"
        limit = f" of at most {figure(target.all_lost())}" if is_bounded else ""
        tail = f", 95th percentile {figure(found.p95)}" if target.objective == "p95" else ""
        model = f", {target.model()}" if target.sees_arm else ""
        return (
            f"{target.policy.tag()}: mean {measure} {figure(found.mean)} ({figure(found.low)} to "
            f"{figure(found.high)}){limit}{tail}, with a budget of {figure(target.budget)} in "
            f"{count(target.horizon)} rounds{model} ({CAUTION})."
        )

    def to_builtins(self) -> dict[str, Any]:
        """Return the object that ``armrace redteam --json`` prints."""
        return {
            **self.target.to_builtins(),
            "verdict": CAUTION,
            "attack": self.attack.to_builtins(),
            "description": self.description,
            "command": self.command,
            "held_out": self.held_out.to_builtins(),
            "best_builtin": {
                "attack": self.builtin.to_builtins(),
                "held_out": self.builtin_held_out.to_builtins(),
            },
            "factor": self.factor,
            "selection": self.selection,
            "all_lost": self.target.all_lost(),
            "search": msgspec.to_builtins(self.search),
        }

    def __str__(self) -> str:
        return self.sentence()
