"""Mistakes that begin at a late round: in races, a guard, leaders and the engine itself."""

import importlib.util
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt

from armrace.kernels import engine
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.fingerprints import SCRIPT
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Context,
    Eligible,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    forwards,
    learn,
    make_ticket,
    stamped,
    unwrap_ticket,
)
from armrace.kernels.streams import Stream, uniform
from armrace.policies import (
    Exp3,
    ExpertBarrier,
    Guarded,
    LbInf,
    LeafBarrier,
    MultiLayerRace,
    OptimisticLogBarrier,
    Policy,
    SharpRace,
    TsallisInf,
)
from armrace.policies.guarded import GuardState
from armrace.policies.races import RacePolicy
from armrace.verification.guarantees import DELTA
from verification.broken import broken

Mistake = tuple[int, Callable[[Any], Any]]
"""The decision from which on a mistake is made, and the state with it from that at the start."""

_FROZEN, _SCALED, _NEXT_LAYER, _CERTAIN, _FORGOTTEN, _AT_RANDOM, _NEXT_LEAF = range(7)
_UNLABELLED, _OTHER_ARM = range(2)


class Late(NamedTuple):
    """A state that makes a mistake from some decision on; before, it is the state within."""

    inner: Any
    mistake: int
    since: int
    made: npt.NDArray[np.int64]
    """The number of decisions."""
    array: Any
    """An array of the inner state that stays as it is from then on, or is scaled then.

    Where rewards go to another leaf, it has an entry for each leaf.
    """
    kept: Any
    factor: float

    @property
    def leader(self) -> Any:
        return self.inner

    guard = race = inspected = leader


@implement(distribution, Late)
def late_distribution(state: Late, out: npt.NDArray[np.float64], context: Visitor = None) -> None:
    distribution(state.inner, out, context)


@implement(choose, Late)
def late_choose(
    state: Late, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    ticket = choose(state.inner, stream, eligible, context)
    if state.mistake == _AT_RANDOM and state.made[0] >= state.since and uniform(stream) < 0.2:
        return make_ticket(int(uniform(stream) * 2), ticket.layer, ticket.probability)
    return ticket


@implement(assign, Late)
def late_assign(state: Late, ticket: Ticket, context: Visitor = None) -> Ticket:
    state.made[0] += 1
    if state.mistake == _SCALED and state.made[0] == state.since:
        for i in range(state.array.size):
            state.array[i] *= state.factor
    completed = assign(state.inner, ticket, context)
    _keep(state)
    return completed


@implement(learn, Late)
def late_learn(state: Late, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    used, visitor = ticket, context
    if state.made[0] > state.since:
        if state.mistake == _FORGOTTEN:
            return
        if state.mistake == _CERTAIN:
            plain = make_ticket(ticket.arm, ticket.layer, 1.0)
            used = stamped(plain, ticket.phase, ticket.memo)
        if state.mistake == _NEXT_LAYER and ticket.layer != NO_LAYER:
            other = ticket.layer - 1 if ticket.layer > 0 else 1
            used = make_ticket(ticket.arm, other, ticket.probability)
        if state.mistake == _NEXT_LEAF and context is not None:
            visitor = Context(context.vector, (context.leaf + 1) % state.array.size)
    learn(state.inner, used, reward, visitor)
    _keep(state)


@inlined
def _keep(state: Late) -> None:
    if state.mistake == _FROZEN:
        for i in range(state.array.size):
            if state.made[0] > state.since:
                state.array[i] = state.kept[i]
            else:
                state.kept[i] = state.array[i]


@forwards(distribution, choose, assign)
class LateGuard(NamedTuple):
    """A guard that hands on rewards wrongly from some decision on."""

    guard: GuardState
    mistake: int
    since: int

    @property
    def inspected(self) -> GuardState:
        return self.guard


@implement(learn, LateGuard)
def late_guard_learn(state: LateGuard, ticket: Ticket, reward: float) -> None:
    guard, late = state.guard, state.guard.race.rounds[0] > state.since
    if late and state.mistake == _UNLABELLED and ticket.layer == NO_LAYER:
        learn(guard.race, make_ticket(ticket.arm, 0), reward)
    if late and state.mistake == _OTHER_ARM and ticket.inner_arm != NO_ARM:
        if ticket.layer != NO_LAYER:
            learn(guard.race, make_ticket(ticket.arm, ticket.layer), reward)
        inner = unwrap_ticket(ticket, 1)
        other = make_ticket((inner.arm + 1) % guard.scratch.allowed.size, 0, inner.probability)
        learn(guard.base, stamped(other, inner.phase, inner.memo), reward)
    else:
        learn(guard, ticket, reward)


def _mistaken(since: int, mistake: int) -> Mistake:
    """Return a mistake that changes no array."""
    return _tampered(since, mistake, lambda state: np.zeros(1))


def _tampered(since: int, mistake: int, find: Callable[[Any], Any], factor: float = 1.0) -> Mistake:
    """Return a mistake about an array of the state."""

    def mutate(state: Any) -> Late:
        made, array = np.zeros(1, dtype=np.int64), find(state)
        return Late(state, mistake, since, made, array, array.copy(), factor)

    return since, mutate


def _in_guard(since: int, mistake: int) -> Mistake:
    return since, lambda state: LateGuard(state, mistake, since)


LATE_MISTAKES: dict[type[Policy], dict[str, Mistake]] = {
    MultiLayerRace: {
        "rewards to another layer": _mistaken(5_000, _NEXT_LAYER),
        "log terms 1/2": _tampered(10_000, _SCALED, lambda state: state.rule.log_lower, 0.5),
    },
    SharpRace: {
        "allowances 1/4": _tampered(15_000, _SCALED, lambda state: state.rule.allowance, 0.25),
        "rewards not learned": _mistaken(25_000, _FORGOTTEN),
    },
    Guarded: {
        "labels drawn too often": _tampered(20_000, _SCALED, lambda state: state.race.tail, 1.25),
        "unlabelled rounds recorded": _in_guard(4_000, _UNLABELLED),
        "the base told another arm's reward": _in_guard(6_000, _OTHER_ARM),
        "the base's counts not kept": _tampered(
            12_000, _FROZEN, lambda state: state.base.counts.assigned
        ),
    },
    OptimisticLogBarrier: {
        "losses not divided by the probability": _mistaken(2_000, _CERTAIN),
        "optimism that stays as it is": _tampered(10_000, _FROZEN, lambda state: state.variances),
        "scales that stay as they are": _tampered(20_000, _FROZEN, lambda state: state.variations),
    },
    LbInf: {
        "scales that stay as they are": _tampered(15_000, _FROZEN, lambda state: state.scales),
    },
    TsallisInf: {
        "a learning rate that stays as it is": _tampered(
            1_500, _FROZEN, lambda state: state.counts.rounds
        ),
    },
    Exp3: {
        "learning rates x2": _tampered(25_000, _SCALED, lambda state: state.learning_rate, 2.0),
        "every fifth arm drawn at random": _mistaken(18_000, _AT_RANDOM),
    },
    LeafBarrier: {
        "rewards to another leaf": _tampered(
            1_500, _NEXT_LEAF, lambda state: np.zeros(state.leaf_count)
        ),
        "scales that stay as they are": _tampered(
            2_500, _FROZEN, lambda state: state.stack.variations.reshape(-1)
        ),
    },
    ExpertBarrier: {
        "losses not divided by the probability": _mistaken(2_000, _CERTAIN),
        "optimism that stays as it is": _tampered(
            1_500, _FROZEN, lambda state: state.mixture.variances
        ),
        "scales that stay as they are": _tampered(
            2_500, _FROZEN, lambda state: state.mixture.variations
        ),
        "models that stay as they are": _tampered(
            3_000, _FROZEN, lambda state: state.ridge.weights.reshape(-1)
        ),
        "rewards to another leaf": _tampered(
            1_000, _NEXT_LEAF, lambda state: np.zeros(state.leaves.leaf_count)
        ),
        "every fifth arm drawn at random": _mistaken(1_000, _AT_RANDOM),
    },
}
"""For each policy, what goes wrong late."""


def late_mutants() -> Iterator[tuple[str, str, Policy]]:
    """Return each policy with each late mistake."""
    for kind, mistakes in LATE_MISTAKES.items():
        made = broken(kind, {name: mutate for name, (_, mutate) in mistakes.items()}, "late")
        parameters: dict[str, Any] = {"delta": DELTA} if issubclass(kind, RacePolicy) else {}
        if kind is Guarded:
            parameters["base"] = "ucb1"
        for name, (since, _) in mistakes.items():
            yield kind.tag(), f"{name}, from round {since:,}", made(mutation=name, **parameters)


# --- the engine -----------------------------------------------------------------------------

ENGINE_MISTAKES: dict[str, tuple[tuple[str, str], ...]] = {
    "the attack charged the sum of its changes": (
        (
            "cost = max(cost, abs(proposal[arm] - clean[arm]))",
            "cost += abs(proposal[arm] - clean[arm])",
        ),
    ),
    "the attack shown the arm that is drawn": (
        (
            "_corrupt_round(policy, attack, ledger, workspace, start + column, column, crowd)",
            "pass",
        ),
        (
            "# Unsigned, so that",
            "drawn, number = ticket.arm, start + column\n            "
            "_corrupt_round(policy, attack, ledger, workspace, number, column, crowd, drawn)  #",
        ),
        ("    crowd: Any,\n) -> None:", "    crowd: Any,\n    drawn: int,\n) -> None:"),
        (
            "        distribution("
            "policy, workspace.weights, _context_at(crowd, workspace, column))\n",
            "        workspace.weights[:] = 0.0\n        workspace.weights[drawn] = 1.0\n",
        ),
    ),
    "changes beyond the budget, from round 9,000": (
        (
            "if ledger.charged[0] + cost > ledger.charged[1]:",
            "if ledger.pulls.sum() < 9_000 and ledger.charged[0] + cost > ledger.charged[1]:",
        ),
    ),
    "rewards drawn a second time, from round 20,480": (
        (
            "call_at(rewards.fill, rewards.state, (chunk, column, end))",
            "call_at(rewards.fill, rewards.state, (chunk % 80, column, end))",
        ),
    ),
    "changes left out of the regret, from round 16,000": (
        (
            "ledger.shifts[arm] += change",
            "ledger.shifts[arm] += change if ledger.corruption[0] < 1_000.0 else 0.0",
        ),
    ),
    "honest rewards learned, from round 12,000": (
        (
            "learn(policy, ticket, reward, context)\n            if crowd",
            "learn(policy, ticket, reward if start < 12_000 else clean, context)\n"
            "            if crowd",
        ),
    ),
}
"""What goes wrong in the compiled loop or in its ledger: pieces of their code, and others."""


@contextmanager
def mistaken_engine(mistake: str) -> Iterator[None]:
    """Let the simulator play by an engine with a mistake, which is compiled and not stored.

    Args:
        mistake: one of :data:`ENGINE_MISTAKES`.
    """
    source = Path(engine.__file__).read_text()
    for old, new in ENGINE_MISTAKES[mistake]:
        assert source.count(old) == 1
        source = source.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        loop = _load(Path(folder) / "mistaken_engine.py", source)

        def make_runner(code: str, *options: Any) -> Any:
            return loop.make_runner(SCRIPT + code, *options)

        with mock.patch.object(engine, "make_runner", make_runner):
            yield


def _load(file: Path, source: str) -> Any:
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
