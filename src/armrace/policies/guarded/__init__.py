"""A guard around any policy: the race's guarantee at a small part of its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

import msgspec

from armrace.errors import InvalidParameter
from armrace.kernels.generics import SAME_ARM, Ticket, decide, is_restrictable, learn
from armrace.limits import Limits
from armrace.policies.base import ArmView, Guarantee, Policy
from armrace.policies.guarded.guard import GuardState, make_guard
from armrace.policies.races.race_policy import RacePolicy
from armrace.policies.races.sharp_rule import make_pooled_race
from armrace.randomness import Purpose, stream_for
from armrace.specification import Confidence
from armrace.theory import SharpLayer, guard_layers, guarded_regret

__all__ = ["Guarded"]

_ARMS, _ROUNDS = 2, 64
"""The size of the run that shows whether a base can serve."""

_ACCEPTED: set[tuple[type[Policy], str]] = set()
"""Bases that have been found fit."""


class Guarded(RacePolicy, frozen=True, tag="guarded"):
    """Lets a base policy play, and takes arms from it that a small race has shown to be bad.

    A part ``2^-share`` of the rounds is labelled: layer ``l`` of the guard, counted from 1, has
    the label with probability ``2^-(share + l)``, and the first layer gets what remains. A layer
    learns from its labelled rounds and from those of all slower layers, and from no other, by a
    coin that no adversary sees. It is designed for a corruption of ``first 2^(share + l - 1)``,
    deletes arms by the intervals of ``sharp-race``, and deletes them from all faster layers too. Of
    its rounds every ``1 + lead``-th is a turn, in which it plays its active arms one after the
    other. The base plays all other rounds, among the arms that are active in the fastest layer that
    has any. It learns from the rounds that it plays.

    **With any base and against any adaptive adversary**, with probability ``1 - delta`` and for all
    corruptions ``C`` at once, the pseudo-regret is of the order of
    ``K (ln T + (1 + lead) max(2^share, C/first)) ln(KT/delta) / gap``; ``armrace.theory`` has it
    with constants as ``guarded_regret``. **Without corruption** the expected pseudo-regret is at
    most that of the base plus ``guard_overhead``, if the base can lose arms without harm, as UCB1,
    KL-UCB, EXP3 and Tsallis-INF can. Up to ``C = first 2^share`` the base keeps what it promises
    itself. Above that, **the guard can hurt a robust base**: a fooled layer takes the best arm from
    it until a slower layer has deleted the arms that remain. That the overhead has a second
    logarithm is no weakness of this guard: no policy with such a bound can do without. All of this
    is proved in this library's theory page (Theorem C, Proposition L), tried by ``armrace
    verify``, and compared with a second implementation in plain Python.

    A base that draws arms by weights is told that an arm that it has lost pays 0: whenever it draws
    one, another is drawn by the same weights among the others and played instead. Indices and
    posteriors simply choose among the arms that are left. A base may be given by name or, with
    parameters, as ``{"name": "tsallis-inf", "estimator": "iw"}``; on the command line as
    ``--set base=thompson`` or ``--set 'base={"name": ...}'``. Races, which are their own guards,
    and policies whose choices cannot be restricted are refused. If the base's distribution is
    costly to compute, so is the guard's, and an adversary sees it as it was last computed.

    A larger ``share`` costs less without corruption and tolerates more before the guard can be
    fooled, but the bound grows with ``2^share``. With ``share`` 4 and ``first`` 1 the fastest layer
    tolerates 16 at a small allowance, and a turn costs one round in 32.

    >>> policy = Guarded(base="thompson")
    >>> policy.layer_count(arms=10, horizon=10**6)
    17
    >>> policy.start(arms=2, horizon=100).race.share
    array([0.03515625, 0.015625  , 0.0078125 , 0.00390625])
    """

    family: ClassVar[str] = "robust"
    learns_from_others: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "Lykouris, Mirrokni and Paes Leme (2018), Algorithm 2, as a guard around another policy; "
        "proved in this library's theory page"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "Theorem C of the theory page; `check_guarantee` tries it against all known attacks."
    )

    base: Annotated[Any, "policy that plays most rounds: a name, or its parameters with a name"] = (
        "tsallis-inf"
    )
    share: Annotated[int, Limits("a part of 2^-share of the rounds is labelled", 0, 30)] = 4
    lead: Annotated[int, Limits("rounds of the base before each turn of a layer", 0, 1000)] = 1
    first: Annotated[
        float,
        Limits(
            "corruption that layers expect to meet; the first tolerates 2^share of it",
            0,
            1e9,
            low_open=True,
        ),
    ] = 1.0
    delta: Confidence = 0.05

    def validate(self) -> None:
        if not isinstance(self.base, (str, Mapping, Policy)):
            raise InvalidParameter(
                "base must be a policy, its name, or its parameters with a name; "
                f"got {self.base!r}."
            )
        base = self.catalogue.make(self.base)
        if isinstance(base, RacePolicy):
            raise InvalidParameter(
                f"base must not be a race or contain one; got {base.tag()}, which deletes arms "
                "itself."
            )
        if not is_restrictable(base.start(_ARMS, _ROUNDS)):
            raise InvalidParameter(
                "base must be a policy whose choices can be restricted to some arms; "
                f"got {base.tag()}."
            )
        # From here on ``base`` is a policy, however it was given; the specification itself is
        # frozen.
        msgspec.structs.force_setattr(self, "base", base)

    @property
    def exact_tickets(self) -> bool:  # type: ignore[override]
        """Whether tickets carry the probability of their arm, as those of the base do."""
        return bool(self.base.exact_tickets)

    def layer_count(self, arms: int, horizon: int) -> int:
        return len(self._layers(arms, horizon))

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        bound = guarded_regret(
            gaps, horizon, self.delta, corruption, self.share, self.lead, self.first
        )
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> GuardState:
        # Known only now: the number of layers may depend on arms and horizon.
        if self.base.layer_count(arms, horizon) != 1:
            raise InvalidParameter(
                f"base must be a policy with a single layer; got {self.base.tag()}."
            )
        _require_base(self.base)
        return make_guard(
            base=self.base.start(arms, horizon),
            race=make_pooled_race(arms, self._layers(arms, horizon), self.lead),
            weighted=bool(self.base.draws_by_weights),
            exact=self.exact_tickets,
            stream=stream_for(0, Purpose.LEARNER, 0),
        )

    def inspect(self, state: GuardState) -> Sequence[ArmView]:  # type: ignore[override]
        return super().inspect(state.race)

    def _layers(self, arms: int, horizon: int) -> list[SharpLayer]:
        return guard_layers(arms, horizon, self.delta, self.share, self.first)


def _require_base(base: Policy) -> None:
    """Refuse a policy that cannot serve as a base; one that was accepted is not asked again.

    A base may have parameters that cannot be hashed, so it is known by its text.
    """
    key = type(base), repr(base)
    if key not in _ACCEPTED:
        _play_short_run(base)
        _ACCEPTED.add(key)


def _play_short_run(base: Policy) -> None:
    """Play a short run, and refuse a base whose tickets are not what it declares."""
    state = base.start(_ARMS, _ROUNDS)
    stream = stream_for(0, Purpose.LEARNER, 0)
    for number in range(_ROUNDS):
        ticket = decide(state, stream)
        _require_plain(base, ticket)
        if ticket.probability < 1.0 and not base.draws_by_weights:
            raise InvalidParameter(
                f"base must declare that it draws_by_weights, as its tickets say; got {base.tag()}."
            )
        # Both rewards occur, so that tickets are seen before and after estimates move.
        learn(state, ticket, float(number % 2))


def _require_plain(base: Policy, ticket: Ticket) -> None:
    """Refuse a base whose tickets use the fields in which the guard keeps those of the base."""
    if ticket.inner_layer != 0 or ticket.inner_probability != 1.0 or ticket.inner_arm != SAME_ARM:
        raise InvalidParameter(
            f"base must not be composed of other policies; got {base.tag()}, whose tickets carry "
            "an inner layer, probability or arm."
        )
