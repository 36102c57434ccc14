"""The searched family of attacks, on visitors who differ."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Setting
from armrace.adversaries.two_phase import TwoPhase, TwoPhaseState
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, Scene, corrupt, looks, observe, replacing
from armrace.kernels.streams import Stream
from armrace.limits import Limits

Where = Literal["everywhere", "best", "not-best", "close", "spread", "coordinate"]
_PLACES: tuple[Where, ...] = ("everywhere", "best", "not-best", "close", "spread", "coordinate")
_EVERYWHERE, _BEST, _NOT_BEST, _CLOSE, _SPREAD, _COORDINATE = range(len(_PLACES))
_ABOUT_ONE: tuple[Where, ...] = ("best", "not-best", "coordinate")
_ABOUT_MEANS: tuple[Where, ...] = ("close", "spread")
_COUNTED_AROUND = 31
"""The largest number of an arm or coordinate; numbers beyond the last one begin again."""

VisitorDecoy = Literal["runner-up", "worst", "likeliest", "all", "arm"]
_RUNNER_UP, _WORST, _ANY = range(3)
"""Which arm of the visitor's is the decoy; ``_ANY``: the one that the family itself finds."""
_NO_ARM = -1


class ByVisitorState(NamedTuple):
    """An attack of the family, and where it strikes whom."""

    member: TwoPhaseState
    where: int
    where_arm: int
    where_value: float
    aim: int
    decoy_arm: int
    shares: Floats
    """Of the visitors for whom each arm is best (rows): how often arms were played lately."""
    latest: npt.NDArray[np.int64]
    """The best arm of the latest visitor."""


class TwoPhaseByVisitor(TwoPhase, frozen=True, tag="two-phase-by-visitor"):
    """As ``two-phase``, where the best arm and the decoy are those of each round's visitor.

    ``where`` limits it to some visitors: those for whom ``where_arm`` is the best arm (``best``) or
    is not (``not-best``), whose best two arms differ by less than ``where_value`` (``close``),
    whose best and worst arm differ by more (``spread``), or whose coordinate number ``where_arm``
    is positive (``coordinate``). Arms and coordinates are counted around: of three arms, number 3
    is number 0 again. Where visitors are alike it is ``two-phase``.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> TwoPhaseByVisitor(first="free-ride").change_rewards(setting, [1, 0])
    [0.0, 1.0]
    """

    reference: ClassVar[str] = (
        "the adaptive adversary of section 2 of Lykouris, Mirrokni and Paes Leme (2018), with "
        "contexts"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "The family that is searched where visitors differ."

    where: Annotated[Where, "which visitors it strikes"] = "everywhere"
    where_arm: Annotated[
        int, Limits("the arm or the coordinate that where is about", 0, _COUNTED_AROUND)
    ] = 0
    where_value: Annotated[float, Limits("the difference that where is about", 0, 1)] = 0.1
    decoy: Annotated[
        VisitorDecoy,
        "the arm that is praised or swapped with; arm: decoy_arm for all visitors",
    ] = "runner-up"  # type: ignore[assignment]
    decoy_arm: Annotated[int, Limits("the decoy for all visitors", 0, _COUNTED_AROUND)] = 0

    def start(self, setting: Setting) -> ByVisitorState:  # type: ignore[override]
        aims = {"worst": _WORST, "likeliest": _ANY}
        return ByVisitorState(
            member=super().start(setting),
            where=_PLACES.index(self.where),
            where_arm=self.where_arm,
            where_value=float(self.where_value),
            aim=aims.get(self.decoy, _RUNNER_UP),
            decoy_arm=self.decoy_arm % setting.arms if self.decoy == "arm" else _NO_ARM,
            shares=np.full((setting.arms, setting.arms), 1.0 / setting.arms),
            latest=np.zeros(1, dtype=np.int64),
        )

    def canonical(self) -> TwoPhaseByVisitor:
        plain, idle = super().canonical(), set[str]()
        if self.decoy != "arm":
            idle |= {"decoy_arm"}
        if self.where not in _ABOUT_ONE:
            idle |= {"where_arm"}
        if self.where not in _ABOUT_MEANS:
            idle |= {"where_value"}
        fields = msgspec.structs.fields(type(self))
        usual: Any = {each.name: each.default for each in fields if each.name in idle}
        return msgspec.structs.replace(plain, **usual)  # type: ignore[return-value]

    def windows(self, state: ByVisitorState, horizon: int) -> list[tuple[int, int]]:  # type: ignore[override]
        return super().windows(state.member, horizon)


class BlindTwoPhaseByVisitor(TwoPhaseByVisitor, frozen=True, tag="blind-two-phase-by-visitor"):
    """As ``two-phase-by-visitor``, without a look at the learner's distribution.

    How often each arm was played in the last 50 rounds or so stands for its probability, counted
    apart for the visitors for whom each arm is the best.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> BlindTwoPhaseByVisitor(first="free-ride").change_rewards(setting, [1, 0])
    [0.0, 1.0]
    """

    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = (
        "The family that is searched where visitors differ, for attackers who do not see the "
        "distribution."
    )

    sees_weights: ClassVar[bool] = False


_aimed_at = replacing(TwoPhaseState, "best", "decoy", "shares")


@inlined
def _first_but(means: Floats, left_out: int, sign: float) -> int:
    """The arm of the largest mean, or with a negative sign the smallest, other than one."""
    found = -1
    for arm in range(means.size):
        if arm != left_out and (found < 0 or sign * means[arm] > sign * means[found]):
            found = arm
    return found


@inlined
def _aim(state: ByVisitorState, means: Floats) -> TwoPhaseState:
    """The attack with the best arm and the decoy of one visitor."""
    best = _first_but(means, -1, 1.0)
    decoy = state.member.decoy
    if state.decoy_arm >= 0 and state.decoy_arm != best:
        decoy = state.decoy_arm
    elif state.aim == _RUNNER_UP or state.decoy_arm >= 0:
        decoy = _first_but(means, best, 1.0)
    elif state.aim == _WORST:
        decoy = _first_but(means, best, -1.0)
    return _aimed_at(state.member, best, decoy, state.shares[best])


@inlined
def _strikes(state: ByVisitorState, scene: Scene) -> bool:
    """Whether the attack is about this visitor."""
    means, where = scene.means, state.where
    if where == _EVERYWHERE:
        return True
    if where == _COORDINATE:
        return scene.vector[state.where_arm % scene.vector.size] > 0.0
    best = _first_but(means, -1, 1.0)
    if where == _BEST:
        return best == state.where_arm % means.size
    if where == _NOT_BEST:
        return best != state.where_arm % means.size
    if where == _CLOSE:
        return means[best] - means[_first_but(means, best, 1.0)] < state.where_value
    return means[best] - means[_first_but(means, best, -1.0)] > state.where_value


@implement(corrupt, ByVisitorState)
def strike_visitor(
    state: ByVisitorState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
    scene: Scene | None = None,
) -> None:
    if scene is None:
        corrupt(state.member, round, weights, rewards, left, stream, None)
        return
    aimed = _aim(state, scene.means)
    state.latest[0] = aimed.best
    if _strikes(state, scene):
        corrupt(aimed, round, weights, rewards, left, stream, None)


@implement(looks, ByVisitorState)
def looks_at_visitor(
    state: ByVisitorState, round: int, rewards: Floats, left: float, scene: Scene | None = None
) -> bool:
    if scene is None:
        return looks(state.member, round, rewards, left, None)
    return _strikes(state, scene) and looks(_aim(state, scene.means), round, rewards, left, None)


@implement(observe, ByVisitorState)
def remember_visit(state: ByVisitorState, round: int, arm: int, reward: float) -> None:
    shares = state.shares[state.latest[0]]
    member = _aimed_at(state.member, state.member.best, state.member.decoy, shares)
    observe(member, round, arm, reward)


WORST_KNOWN: tuple[TwoPhaseByVisitor, ...] = (
    TwoPhaseByVisitor(first="double-impact", decoy="worst", first_low=0.3),
    TwoPhaseByVisitor(
        first="spoil-and-praise", second="zero", split=0.5, decoy="worst", second_low=0.2
    ),
    TwoPhaseByVisitor(first="double-impact", decoy="likeliest"),
    TwoPhaseByVisitor(first="free-ride", first_low=0.2, where="best", where_arm=0),
    TwoPhaseByVisitor(first="spoil", second="double-impact", split=0.4, decoy="worst"),
    TwoPhaseByVisitor(first="free-ride", first_pays=0.5, first_low=0.15),
)
"""Attacks that a search always tries first; the last is ``strip``."""


def at_visitors(attack: TwoPhase, family: type[TwoPhaseByVisitor]) -> TwoPhaseByVisitor:
    """Return a member of the family that does the same to the best arm of each visitor."""
    own = {name: getattr(attack, name) for name in attack.__struct_fields__}
    return family(**own)
