"""What is kept of a run to judge claims: totals, the records of layers, and missed intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.dispatch import implement
from armrace.kernels.engine import CheckpointRecord, make_record
from armrace.kernels.generics import NO_LAYER, Ticket, assign, choose, distribution, forwards, learn
from armrace.policies import ArmView
from armrace.policies.guarded import GuardState
from armrace.policies.races.intervals import PAPER
from armrace.policies.races.race import Race, cell_of, evidence, interval
from armrace.randomness import reward_place
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import Parts, make_parts, play_out


@forwards(distribution, choose, assign)
class Witnessed(NamedTuple):
    """A race or a guard, the true means, and which layers' intervals have missed them.

    It plays exactly like the state within it. After every reward it also records in which layers
    the interval of an active arm misses the true mean of the arm.
    """

    inner: Any
    race: Race
    """The race itself, or that of the guard."""
    means: npt.NDArray[np.float64]
    missed: npt.NDArray[np.bool_]
    """Whether a layer ever had an interval that missed its mean."""


@implement(learn, Witnessed)
def witnessed_learn(state: Witnessed, ticket: Ticket, reward: float) -> None:
    learn(state.inner, ticket, reward)
    if ticket.layer == NO_LAYER:
        return
    race, means = state.race, state.means
    arm, mean = ticket.arm, means[ticket.arm]
    fastest = 0 if race.pooled[0] else ticket.layer
    for layer in range(fastest, ticket.layer + 1):
        cell = cell_of(race, layer, arm)
        if cell.active:
            low, high = cell.lower, cell.upper
            if race.rule.kind[0] == PAPER:  # a patient race has not recomputed these ends
                low, high = interval(race, layer, *evidence(race, layer, arm))
            if low > mean or high < mean:
                state.missed[layer] = True


Floats = npt.NDArray[np.float64]

_ELSEWHERE = 2**31
"""Added to the number of a replication, it gives rewards that no other one has."""


class Books(NamedTuple):
    """The layers' records of the arms at the end; rows are layers, columns are arms."""

    share: Floats
    """The probability with which each layer gets a round; one number per layer."""
    assigned: Floats
    """Plays of a layer's own, whether their reward has come or not."""
    pulls: Floats
    sums: Floats
    lower: Floats
    """Ends of the intervals; infinite where there is none."""
    upper: Floats
    active: npt.NDArray[np.bool_]


class Runs(NamedTuple):
    """All replications of an experiment; the first axis is the replication."""

    regret: Floats
    regret_to_arms: Floats
    """The regret against each arm alone; the largest is ``regret``."""
    pseudo_regret: Floats
    clean_regret: Floats
    corruption: Floats
    pulls: Floats
    layer_corruption: Floats
    missed: npt.NDArray[np.bool_]
    """Whether a layer's interval ever missed a mean; known for plain races and guards."""
    books: Books | None
    """None if the policy cannot be inspected."""

    @property
    def layers(self) -> Books:
        """The records of a race or a guard, which can be inspected."""
        assert self.books is not None
        return self.books


def examine(
    experiment: Experiment, replication: int, control: npt.NDArray[np.int64] | None = None
) -> Runs:
    """Play one replication and extract what claims need."""
    parts = make_parts(experiment, replication, control)
    state = parts.policy
    parts = _with_witness(parts)
    play_out(parts)
    ledger = parts.ledger
    view = experiment.policy.inspect(state)
    paid = ledger.clean_totals + ledger.shifts
    return Runs(
        regret=paid.max() - ledger.collected[0],
        regret_to_arms=paid - ledger.collected[0],
        pseudo_regret=ledger.pulls @ (parts.means.max() - parts.means),
        clean_regret=ledger.clean_totals.max() - ledger.collected[1],
        corruption=ledger.corruption[0],
        pulls=ledger.pulls.astype(np.float64),
        layer_corruption=ledger.layer_corruption.copy(),
        missed=getattr(parts.policy, "missed", np.zeros(0, dtype=np.bool_)),
        books=_books(state, view, ledger.pulls.size) if view else None,
    )


def witnessed_parts(experiment: Experiment, replication: int = 0) -> Parts:
    """Make the parts that :func:`examine` plays."""
    return _with_witness(make_parts(experiment, replication))


def play_rounds(parts: Parts, rounds: int) -> CheckpointRecord:
    """Let the engine play some rounds, with rewards from the first on, and return its record."""
    shape = parts.ledger.pulls.size, parts.ledger.layer_corruption.size
    record = make_record(np.array([rounds]), *shape)
    play_out(parts._replace(record=record))
    return record


class Met(NamedTuple):
    """What the layers met in a window of a run: rows are layers, columns are arms."""

    pulls: Floats
    sums: Floats
    corruption: Floats
    """One number per layer, by the ledger."""


def examine_window(experiment: Experiment, replication: int, before: int, rounds: int) -> Met:
    """Play rounds without an attack, then a window with it, and return what layers met then."""
    parts = make_parts(experiment, replication)
    state = parts.policy
    parts = _with_witness(parts)
    met = []
    for budget, length in ((0.0, before), (experiment.budget, rounds)):
        parts.ledger.charged[1] = budget
        play_rounds(parts, length)
        views = experiment.policy.inspect(state)
        books = _books(state, views, parts.ledger.pulls.size)
        met.append(Met(books.pulls, books.sums, parts.ledger.layer_corruption.copy()))
        # Rewards that the layers have not met before.
        parts.law.place[:] = reward_place(experiment.seed, replication + _ELSEWHERE)
    return Met(*(after - earlier for after, earlier in zip(met[1], met[0], strict=True)))


def _with_witness(parts: Parts) -> Parts:
    """Wrap a race or a guard so that its intervals are compared with the true means."""
    inner = parts.policy
    if isinstance(inner, GuardState):
        race = inner.race
    elif isinstance(inner, Race) and parts.leap is None:
        race = inner
    else:
        return parts
    missed = np.zeros(race.share.size, dtype=np.bool_)
    return parts._replace(policy=Witnessed(inner, race, parts.means.copy(), missed))


def gather(runs: Sequence[Runs]) -> Runs:
    """Combine single replications into one object."""
    columns = {name: [getattr(run, name) for run in runs] for name in Runs._fields}
    books = columns.pop("books")
    together = None if books[0] is None else Books(*map(np.array, zip(*books, strict=True)))
    return Runs(**{name: np.array(column) for name, column in columns.items()}, books=together)


def _books(state: Any, view: Sequence[ArmView], arms: int) -> Books:
    def table(values: list[Any], kind: Any = np.float64) -> npt.NDArray[Any]:
        return np.array(values, dtype=kind).reshape(-1, arms)

    layers = len(view) // arms
    return Books(
        share=np.array(getattr(state, "share", np.ones(layers) / layers)),
        assigned=table([cell.assigned for cell in view]),
        pulls=table([cell.pulls for cell in view]),
        sums=table([(cell.mean or 0.0) * cell.pulls for cell in view]),
        lower=table([-np.inf if cell.lower is None else cell.lower for cell in view]),
        upper=table([np.inf if cell.upper is None else cell.upper for cell in view]),
        active=table([cell.active for cell in view], np.bool_),
    )
