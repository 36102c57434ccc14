"""A family of attacks in two phases or three, wide enough to search for the worst member.

Every member is legal: it sees the past, the learner's distribution and the round's honest rewards,
and fixes an answer for every arm before one is drawn. The search of :mod:`armrace.red_team` varies
the parameters; a few members have names of their own in the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt, looks, observe
from armrace.kernels.streams import Stream
from armrace.limits import Limits

Action = Literal["zero", "swap", "double-impact", "free-ride", "spoil", "spoil-and-praise"]
ACTIONS: tuple[Action, ...] = (
    "zero",
    "swap",
    "double-impact",
    "free-ride",
    "spoil",
    "spoil-and-praise",
)
_ZERO, _SWAP, _DOUBLE_IMPACT, _FREE_RIDE, _SPOIL, _SPOIL_AND_PRAISE = range(len(ACTIONS))

Decoy = Literal["runner-up", "worst", "likeliest", "all"]
_LIKELIEST = -1
"""The decoy is the arm, other than the best, that is most likely to be played."""

CONDITIONS = ("low", "high", "visible", "margin", "pays", "strength")
"""What a phase has besides its action: parameters ``first_low``, ``second_low`` and so on."""

_STRIKING = 0
"""Position in ``TwoPhaseState.counts`` of a flag: whether the window is open."""

_RECENT = 0.02
"""Weight of the newest play in the shares that replace a distribution that the attack cannot see.
"""


class Phase(NamedTuple):
    """What is done in a phase, and when."""

    action: int
    low: float
    high: float
    visible: float
    margin: float
    pays: float
    strength: float
    always: bool
    """Whether the probabilities of the arms do not matter: all windows are open."""


class TwoPhaseState(NamedTuple):
    """The phases, their schedule, and what was seen of the past."""

    first: Phase
    second: Phase
    third: Phase
    best: int
    decoy: int
    crowd: bool
    """Whether all arms but the best are decoys; ``decoy`` is then the one that margins go by."""
    looks: bool
    handover: float
    """The second phase begins when no more than this is left of the budget."""
    last_handover: float
    """The third phase begins when no more than this is left."""
    budget: float
    start: float
    wake: float
    pace: float
    hysteresis: float
    counts: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    """Plays of each arm, and the sum of the rewards that they paid, corruption included."""
    shares: npt.NDArray[np.float64]
    """How often each arm was played in the last rounds: a mean with decaying weights."""
    scratch: npt.NDArray[np.float64]


class TwoPhase(Adversary, frozen=True, tag="two-phase"):
    """Strikes in two phases or three, each with an action and conditions on when to strike.

    The actions: ``zero`` the best arm; ``swap`` its reward with a decoy's; ``double-impact``: show
    0 on the best arm and 1 on the decoy, but only in rounds in which all changes are at least 1/2,
    so that one unit of budget moves the difference by up to 2; ``free-ride``: best arm to 0 and all
    others to 1, at the price of the largest change; ``spoil``: all arms to 0;
    ``spoil-and-praise``: all to 0 except the decoy, which pays 1. A strength below 1 moves each
    reward only a part of the way. There is no third phase unless ``second_split`` is below 1.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> attack = TwoPhase(first="double-impact", first_low=0.5)
    >>> [attack.change_rewards(setting, [1, 0], weights=w) for w in ([0.6, 0.4], [0.4, 0.6])]
    [[0.0, 1.0], [1.0, 0.0]]
    >>> attack.change_rewards(setting, [1, 1], weights=[0.6, 0.4])
    [1.0, 1.0]
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = (
        "the adaptive adversary of section 2 of Lykouris, Mirrokni and Paes Leme (2018), with "
        "parameters to search over"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "The family that the red team searches."
    scales: ClassVar[Mapping[str, str]] = {"start_at": "log", "wake_at": "log", "pace": "log"}

    first: Annotated[Action, "what the first phase does"] = "zero"
    second: Annotated[Action, "what the second phase does"] = "zero"
    split: Annotated[float, Limits("share of the budget for the first phase", 0, 1)] = 1.0
    first_low: Annotated[
        float, Limits("least probability of the best arm at which the first phase strikes", 0, 1)
    ] = 0.0
    first_high: Annotated[
        float, Limits("largest probability of the best arm at which it strikes", 0, 1)
    ] = 1.0
    first_visible: Annotated[
        float, Limits("least expected change of the reward that is seen", 0, 1)
    ] = 0.0
    first_margin: Annotated[
        float,
        Limits("least lead of the best arm's observed mean over the decoy's", -1, 1),
    ] = -1.0
    second_low: Annotated[float, Limits("as first_low, in the second phase", 0, 1)] = 0.0
    second_high: Annotated[float, Limits("as first_high, in the second phase", 0, 1)] = 1.0
    second_visible: Annotated[float, Limits("as first_visible, in the second phase", 0, 1)] = 0.0
    second_margin: Annotated[float, Limits("as first_margin, in the second phase", -1, 1)] = -1.0
    start_at: Annotated[
        float, Limits("share of the horizon that passes before the first phase", 0, 1)
    ] = 0.0
    wake_at: Annotated[
        float, Limits("share of the horizon that passes before the second phase", 0, 1)
    ] = 0.0
    pace: Annotated[
        float, Limits("most that is spent for each round since the start", 0, 1, low_open=True)
    ] = 1.0
    hysteresis: Annotated[
        float,
        Limits("how far below its least value the probability falls before striking ends", 0, 1),
    ] = 0.0
    decoy: Annotated[Decoy, "the arm that is praised or swapped with, or all but the best"] = (
        "runner-up"
    )
    first_pays: Annotated[
        float, Limits("least honest reward of the best arm in a round that is struck", 0, 1)
    ] = 0.0
    first_strength: Annotated[
        float, Limits("part of the way that the first phase moves a reward", 0, 1, low_open=True)
    ] = 1.0
    second_pays: Annotated[float, Limits("as first_pays, in the second phase", 0, 1)] = 0.0
    second_strength: Annotated[
        float, Limits("as first_strength, in the second phase", 0, 1, low_open=True)
    ] = 1.0
    second_split: Annotated[
        float, Limits("share of what the first phase leaves that the second may spend", 0, 1)
    ] = 1.0
    third: Annotated[Action, "what the third phase does"] = "zero"
    third_low: Annotated[float, Limits("as first_low, in the third phase", 0, 1)] = 0.0
    third_high: Annotated[float, Limits("as first_high, in the third phase", 0, 1)] = 1.0
    third_visible: Annotated[float, Limits("as first_visible, in the third phase", 0, 1)] = 0.0
    third_margin: Annotated[float, Limits("as first_margin, in the third phase", -1, 1)] = -1.0
    third_pays: Annotated[float, Limits("as first_pays, in the third phase", 0, 1)] = 0.0
    third_strength: Annotated[
        float, Limits("as first_strength, in the third phase", 0, 1, low_open=True)
    ] = 1.0

    def start(self, setting: Setting) -> TwoPhaseState:
        decoy = {"worst": int(np.argmin(setting.means)), "likeliest": _LIKELIEST}.get(
            self.decoy, setting.runner_up
        )
        handover = (1.0 - self.split) * setting.budget
        return TwoPhaseState(
            first=self._phase("first"),
            second=self._phase("second"),
            third=self._phase("third"),
            best=setting.best,
            decoy=setting.runner_up if decoy == setting.best else decoy,
            crowd=self.decoy == "all",
            looks=self.sees_weights,
            handover=handover,
            last_handover=(1.0 - self.second_split) * handover,
            budget=setting.budget,
            start=self.start_at * setting.horizon,
            wake=self.wake_at * setting.horizon,
            pace=float(self.pace),
            hysteresis=float(self.hysteresis),
            counts=np.zeros(1, dtype=np.int64),
            pulls=np.zeros(setting.arms, dtype=np.int64),
            sums=np.zeros(setting.arms),
            shares=np.full(setting.arms, 1.0 / setting.arms),
            scratch=np.zeros(setting.arms),
        )

    def _phase(self, name: str) -> Phase:
        """Return the phase whose parameters start with ``name``."""
        action = ACTIONS.index(getattr(self, name))
        low, high, visible, margin, pays, strength = (
            float(getattr(self, f"{name}_{part}")) for part in CONDITIONS
        )
        # Computed once: if the attack does not look, the distribution need not be computed.
        needs_decoy = action not in {_ZERO, _FREE_RIDE, _SPOIL} or margin > -1.0
        fixed = self.decoy != "likeliest" or not needs_decoy
        always = fixed and low == 0.0 and high == 1.0 and visible == 0.0
        return Phase(action, low, high, visible, margin, pays, strength, always)

    def phases(self) -> dict[str, float]:
        """The phases that take place, each with its share of the budget."""
        rest = 1.0 - self.split
        second, third = rest * self.second_split, rest * (1.0 - self.second_split)
        shares = {"first": self.split, "second": second, "third": third}
        return {name: share for name, share in shares.items() if share > 0.0}

    def canonical(self) -> TwoPhase:
        values = {field: getattr(self, field) for field in self.__struct_fields__}
        defaults = {field.name: field.default for field in msgspec.structs.fields(type(self))}
        for idle in {"first", "second", "third"} - set(self.phases()):
            own = [idle, *(f"{idle}_{part}" for part in CONDITIONS)]
            values |= {name: defaults[name] for name in own}
        if self.split == 1.0:
            values["second_split"] = defaults["second_split"]
        if self.split == 1.0 or self.wake_at <= self.start_at:
            values["wake_at"] = defaults["wake_at"]
        # Hysteresis acts at the lower end of a window, and without one there is nothing to leave.
        if max(values["first_low"], values["second_low"], values["third_low"]) == 0.0:
            values["hysteresis"] = defaults["hysteresis"]
        return type(self)(**values)

    def windows(self, state: TwoPhaseState, horizon: int) -> list[tuple[int, int]]:
        return [(min(int(state.start), horizon), horizon)]

    def smallest_cost(self, state: TwoPhaseState, setting: Setting) -> float:
        arms, possible = range(setting.arms), setting.support
        weakest = min(self.first_strength, self.second_strength, self.third_strength)
        if "swap" in {self.first, self.second, self.third}:
            # The rewards of two arms may differ by little, unless all of them are 0 or 1.
            alike = possible is None or not bool(np.isin(possible, (0.0, 1.0)).all())
            return 0.0 if alike else weakest
        to_zero = setting.smallest_change(np.zeros_like, *arms)
        return weakest * min(to_zero, setting.smallest_change(np.ones_like, *arms))


class BlindTwoPhase(TwoPhase, frozen=True, tag="blind-two-phase"):
    """As ``two-phase``, without a look at the learner's distribution.

    How often each arm was played in the last 50 rounds or so stands for its probability. For
    learners whose distribution is costly to compute.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> BlindTwoPhase(first="free-ride").change_rewards(setting, [1, 0])
    [0.0, 1.0]
    """

    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = (
        "The family that the red team searches, for attackers who do not see the distribution."
    )

    sees_weights: ClassVar[bool] = False


class NamedTwoPhase(Adversary, frozen=True):
    """A base for members of the family that have a name of their own."""

    family: ClassVar[str] = "searched"
    reference: ClassVar[str] = "found by ``armrace redteam``"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A member of the searched family, found by the red team and named."
    member: ClassVar[TwoPhase]

    def start(self, setting: Setting) -> TwoPhaseState:
        return self.member.start(setting)

    def smallest_cost(self, state: TwoPhaseState, setting: Setting) -> float:
        return self.member.smallest_cost(state, setting)


@implement(corrupt, TwoPhaseState)
def strike_in_two_phases(
    state: TwoPhaseState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if not _is_time(state, round, left):
        return
    phase = _phase_of(state, left)
    if phase.always:
        if rewards[state.best] >= phase.pays and _is_within_margin(state, phase, state.decoy):
            _act(state, phase, state.decoy, rewards)
        return
    if not _may_strike(state, phase, rewards):
        return
    if not _is_window_open(state, phase, _probability(state, weights, state.best)):
        return
    decoy = _decoy(state, weights)
    if not _is_within_margin(state, phase, decoy):
        return
    _act(state, phase, decoy, rewards)
    visible = 0.0
    for arm in range(rewards.size):
        visible += _probability(state, weights, arm) * abs(rewards[arm] - state.scratch[arm])
    if visible < phase.visible:
        for arm in range(rewards.size):
            rewards[arm] = state.scratch[arm]


@implement(looks, TwoPhaseState)
def looks_in_two_phases(state: TwoPhaseState, round: int, rewards: Floats, left: float) -> bool:
    if not _is_time(state, round, left):
        return False
    phase = _phase_of(state, left)
    return not phase.always and _may_strike(state, phase, rewards)


@implement(observe, TwoPhaseState)
def remember_play(state: TwoPhaseState, round: int, arm: int, reward: float) -> None:
    state.pulls[arm] += 1
    state.sums[arm] += reward
    # An attack that sees the distribution never reads the shares.
    if not state.looks:
        for other in range(state.shares.size):
            state.shares[other] *= 1.0 - _RECENT
        state.shares[arm] += _RECENT


@inlined
def _phase_of(state: TwoPhaseState, left: float) -> Phase:
    if left > state.handover:
        return state.first
    if left > state.last_handover:
        return state.second
    return state.third


@inlined
def _is_time(state: TwoPhaseState, round: int, left: float) -> bool:
    """Whether the phase has begun and the pace allows to spend."""
    begins = state.wake if left <= state.handover else state.start
    if round < state.start or round < begins:
        return False
    spent = state.budget - left
    return state.pace >= 1.0 or spent <= state.pace * (round + 1.0 - state.start)


@inlined
def _may_strike(state: TwoPhaseState, phase: Phase, rewards: Floats) -> bool:
    """Whether the action would change anything, and a fixed decoy is within the margin.

    These conditions come first, since they do not need the distribution.
    """
    if rewards[state.best] < phase.pays:
        return False
    if state.decoy != _LIKELIEST and not _is_within_margin(state, phase, state.decoy):
        return False
    best, action = state.best, phase.action
    if action == _ZERO:
        return rewards[best] > 0.0
    if action == _DOUBLE_IMPACT:
        return state.decoy == _LIKELIEST or _is_double(state, state.decoy, rewards)
    if action == _SWAP and state.decoy != _LIKELIEST and not state.crowd:
        return rewards[best] != rewards[state.decoy]
    return True


@inlined
def _is_window_open(state: TwoPhaseState, phase: Phase, probability: float) -> bool:
    """Whether the best arm's probability allows to strike, with hysteresis at the lower end."""
    if probability >= phase.low:
        state.counts[_STRIKING] = 1
    elif probability < phase.low - state.hysteresis:
        state.counts[_STRIKING] = 0
    return state.counts[_STRIKING] == 1 and probability <= phase.high


@inlined
def _probability(state: TwoPhaseState, weights: Floats, arm: int) -> float:
    """Return an arm's probability, or its share of recent plays if the attack does not see it."""
    return weights[arm] if state.looks else state.shares[arm]


@inlined
def _decoy(state: TwoPhaseState, weights: Floats) -> int:
    """Return the decoy; the likeliest arm other than the best if it is not fixed."""
    if state.decoy != _LIKELIEST:
        return state.decoy
    found = state.best
    largest = -1.0
    for arm in range(weights.size):
        probability = _probability(state, weights, arm)
        if arm != state.best and probability > largest:
            found, largest = arm, probability
    return found


@inlined
def _is_within_margin(state: TwoPhaseState, phase: Phase, decoy: int) -> bool:
    """Whether the best arm still looks as good, next to the decoy, as the margin says."""
    if phase.margin <= -1.0:
        return True
    if decoy == _LIKELIEST:
        return True
    # Each arm has one more play that paid 1/2: an unplayed arm then is neither good nor bad.
    best = (state.sums[state.best] + 0.5) / (state.pulls[state.best] + 1.0)
    other = (state.sums[decoy] + 0.5) / (state.pulls[decoy] + 1.0)
    return best - other >= phase.margin


@inlined
def _act(state: TwoPhaseState, phase: Phase, decoy: int, rewards: Floats) -> None:
    """Change the rewards of a round as the phase says; the honest ones are left in ``scratch``."""
    best, action = state.best, phase.action
    for arm in range(rewards.size):
        state.scratch[arm] = rewards[arm]
    if action == _ZERO:
        rewards[best] = 0.0
    elif action == _SWAP:
        _praise(state, decoy, rewards[best], rewards)
        rewards[best] = state.scratch[decoy]
    elif action == _DOUBLE_IMPACT:
        if _is_double(state, decoy, rewards):
            _praise(state, decoy, 1.0, rewards)
            rewards[best] = 0.0
    elif action == _FREE_RIDE:
        for arm in range(rewards.size):
            rewards[arm] = 1.0
        rewards[best] = 0.0
    else:
        for arm in range(rewards.size):
            rewards[arm] = 0.0
        if action == _SPOIL_AND_PRAISE:
            _praise(state, decoy, 1.0, rewards)
            rewards[best] = 0.0
    if phase.strength < 1.0:
        for arm in range(rewards.size):
            honest = state.scratch[arm]
            rewards[arm] = honest + phase.strength * (rewards[arm] - honest)


@inlined
def _is_double(state: TwoPhaseState, decoy: int, rewards: Floats) -> bool:
    """Whether the best arm and the decoy, or all others, would change by 1/2 or more."""
    rival = 0.0 if state.crowd else rewards[decoy]
    if state.crowd:
        for arm in range(rewards.size):
            if arm != state.best:
                rival = max(rival, rewards[arm])
    return rewards[state.best] >= 0.5 and rival <= 0.5


@inlined
def _praise(state: TwoPhaseState, decoy: int, reward: float, rewards: Floats) -> None:
    """Show a reward on the decoy, or on every arm if all are decoys."""
    if not state.crowd:
        rewards[decoy] = reward
        return
    for arm in range(rewards.size):
        rewards[arm] = reward
