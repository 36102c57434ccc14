"""Lists of experts for ``expert-barrier``, each under the worst attack that was found for it.

``python -m docs.experiments.visitor_experts`` searches the cells that ``visitor_experts.ndjson``
does not hold yet, with the effort of ``visitors.py`` for each, and prints the tables of the page;
``--tables`` only prints them.

A list is chosen on ``mid`` and ``segments``; the other environments judge the choice. What was
found for one list in a cell is tried on the other lists as well, and on nothing else.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from docs.experiments.visitors import (
    EFFORT,
    HORIZON,
    QUICK_EFFORT,
    QUICK_HORIZON,
    Cell,
    Key,
    asked,
    key_of,
    play_missing,
    read,
    words_of,
)

from armrace.extending import (
    Eligible,
    Stream,
    Ticket,
    assign,
    choose,
    choose_by_weights,
    distribution,
    implement,
    inlined,
    learn,
)
from armrace.kernels.generics import NO_FEATURES, ContextShape, Floats, Visitor, vector_of
from armrace.kernels.leaves import Leaves, make_leaves, state_in
from armrace.policies import POLICIES, Policy
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.expert_barrier import (
    Advice,
    Mixture,
    charge_experts,
    learn_spread,
    make_advice,
    make_mixture,
    mix,
    teach_expert,
)
from armrace.policies.leaders.barrier import barrier_weights
from armrace.policies.linear.models import Ridge, fit, make_ridge, predicted, squared_width
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier

LINEAR, OPTIMISTIC, WEIGHTED_GREEDY, LEAF, WEIGHTED, CONSTANTS = range(6)
KINDS = ("linear", "linear-ucb", "weighted-greedy", "leaf", "weighted", "constants")
CHOOSING, JUDGING = ("segments", "mid"), ("wide", "main", "clicks", "forged")
BUDGETS = (0.0, 1_000.0, 100.0)
FILE = Path(__file__).with_suffix(".ndjson")
_FIRST_SCALE, _HEAVIEST = 5.0, 1e4


class Weighted(NamedTuple):
    """Ridge models that weigh a reward by the inverse of the recent probability of its arm."""

    ridge: Ridge
    recent: Floats
    error: Floats
    losses: Floats
    scales: Floats
    normaliser: Floats


class ListState(NamedTuple):
    """As ``expert-barrier``'s, with a place for each kind of expert, or -1."""

    counts: Counts
    mixture: Mixture
    ridge: Ridge
    weighted: Weighted
    leaves: Leaves
    scratch: Advice
    places: np.ndarray
    said: Floats
    """The probability with which each expert would have drawn the arm that was played."""


class ExpertList(Policy, frozen=True):
    """``expert-barrier`` with another list of experts, for rewards that come at once."""

    family: ClassVar[str] = "contextual"
    takes_contexts: ClassVar[bool] = True
    draws_by_weights: ClassVar[bool] = True

    members: Annotated[str, "kinds of experts"] = "linear linear-ucb leaf constants"

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> ListState:
        """A state in which all experts have lost nothing."""
        places, count = np.full(len(KINDS), -1), 0
        for kind in self.members.split():
            if kind != "leaf" or shape.leaves > 1:
                places[KINDS.index(kind)] = count
                count += arms if kind == "constants" else 1
        weighted = Weighted(
            make_ridge(arms, shape.dimension), np.full(arms, 1.0 / arms), np.zeros(1),
            np.zeros(arms), np.zeros(arms), np.zeros(1),
        )  # fmt: skip
        return ListState(
            counts=make_counts(arms),
            mixture=make_mixture(count, horizon, 2.0, 0.25, 0.5),
            ridge=make_ridge(arms, shape.dimension),
            weighted=weighted,
            leaves=make_leaves(OptimisticLogBarrier().start(arms, horizon), shape.leaves),
            scratch=make_advice(count, arms, shape.dimension),
            places=places,
            said=np.zeros(count),
        )


@inlined
def advise(state: ListState, context: Visitor) -> Advice:
    """Ask all experts; before the round's draw, the answer of a moment ago still holds."""
    advice, vector, places = state.scratch, vector_of(context), state.places
    if advice.up_to_date[0]:
        return advice
    advice.up_to_date[0] = True
    arms = advice.predictions.size
    advice.choices[:] = 0.0
    best = hoped = heavy = 0
    radius = math.sqrt(state.mixture.spread[0])
    largest = highest = heaviest = -np.inf
    for arm in range(arms):
        reward = predicted(state.ridge, arm, vector)
        advice.predictions[arm] = min(max(1.0 - reward, 0.0), 1.0)
        if reward > largest:
            best, largest = arm, reward
        if places[OPTIMISTIC] >= 0:
            bound = reward + radius * math.sqrt(squared_width(state.ridge, arm, vector))
            if bound > highest:
                hoped, highest = arm, bound
        if places[WEIGHTED] >= 0:
            reward = predicted(state.weighted.ridge, arm, vector)
            if reward > heaviest:
                heavy, heaviest = arm, reward
            state.weighted.losses[arm] = -(state.counts.rounds[0] + 1.0) * reward
            growth = state.mixture.growth * state.weighted.error[0]
            state.weighted.scales[arm] = _FIRST_SCALE + math.sqrt(growth)
    if places[LINEAR] >= 0:
        advice.choices[places[LINEAR], best] = 1.0
    if places[OPTIMISTIC] >= 0:
        advice.choices[places[OPTIMISTIC], hoped] = 1.0
    if places[WEIGHTED_GREEDY] >= 0:
        advice.choices[places[WEIGHTED_GREEDY], heavy] = 1.0
    if places[LEAF] >= 0:
        distribution(state_in(state.leaves, context), advice.choices[places[LEAF]])
    if places[WEIGHTED] >= 0:
        weighted = state.weighted
        row = advice.choices[places[WEIGHTED]]
        weighted.normaliser[0] = barrier_weights(
            weighted.losses, weighted.scales, weighted.normaliser[0], row
        )
    if places[CONSTANTS] >= 0:
        for arm in range(arms):
            advice.choices[places[CONSTANTS] + arm, arm] = 1.0
    mix(state.mixture, advice)
    return advice


@implement(distribution, ListState)
def list_distribution(state: ListState, out: Floats, context: Visitor = None) -> None:
    """The mixture's."""
    probabilities = advise(state, context).probabilities
    for arm in range(out.size):
        out[arm] = probabilities[arm]


@implement(choose, ListState)
def list_choose(
    state: ListState, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    """Draw from the mixture."""
    return choose_by_weights(advise(state, context).probabilities, 1.0, stream, eligible)


@implement(assign, ListState)
def list_assign(state: ListState, ticket: Ticket, context: Visitor = None) -> Ticket:
    """Charge the experts, and note what they would have done."""
    advice, arm = advise(state, context), ticket.arm
    for expert in range(state.said.size):
        state.said[expert] = advice.choices[expert, arm]
    if state.places[LEAF] >= 0:
        ticket = assign(state_in(state.leaves, context), ticket)
    charge_experts(state.mixture, advice)
    recent = state.weighted.recent
    rate = max(0.01, 1.0 / (state.counts.rounds[0] + 2.0))
    for other in range(recent.size):
        recent[other] += rate * (advice.probabilities[other] - recent[other])
    count_play(state.counts, arm)
    return ticket


@implement(learn, ListState)
def list_learn(state: ListState, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    """Teach mixture and experts; in a simulation no decision lies between."""
    arm, chance, vector = ticket.arm, ticket.probability, vector_of(context)
    error = 1.0 - reward - state.scratch.predictions[arm]
    record(state.counts, arm, reward)
    for expert in range(state.said.size):
        teach_expert(state.mixture, expert, state.said[expert], chance, error)
    if state.places[LEAF] >= 0:
        learn(state_in(state.leaves, context), ticket, reward)
    learn_spread(state.mixture, error)
    fit(state.ridge, arm, vector, reward, 1.0)
    if state.places[WEIGHTED] >= 0:
        weighted = state.weighted
        weight = min(1.0 / weighted.recent[arm], _HEAVIEST) / weighted.recent.size
        fit(weighted.ridge, arm, vector, reward, weight)
        known = min(max(predicted(weighted.ridge, arm, vector), 0.0), 1.0)
        weighted.error[0] += ((reward - known) * (1.0 - chance)) ** 2
    state.scratch.up_to_date[0] = False


@POLICIES.register
class ListA(ExpertList, frozen=True, tag="list-a"):
    """With ridge regressions that weigh rewards by how seldom their arm was played of late."""

    members: str = "linear weighted-greedy leaf weighted constants"


@POLICIES.register
class ListB(ExpertList, frozen=True, tag="list-b"):
    """Without the choice of ``linear-ucb``."""

    members: str = "linear leaf constants"


@POLICIES.register
class ListC(ExpertList, frozen=True, tag="list-c"):
    """Without leaves as well."""

    members: str = "linear constants"


@POLICIES.register
class ListF(ExpertList, frozen=True, tag="list-f"):
    """As ``expert-barrier``."""


LISTS = ("list-a", "list-b", "list-c", "list-f")


def table(known: dict[Key, Cell]) -> str:
    """A row for each environment and list, a column for each budget."""
    budgets = sorted(BUDGETS)
    columns = [f"C = {budget:,.0f}" for budget in budgets]
    lines = [f"| environment | list | {' | '.join(columns)} |"]
    lines.append(f"|---|---|{'---:|' * len(budgets)}")
    for place in (*CHOOSING, *JUDGING):
        for each in LISTS:
            cells = [words_of(known.get((place, budget, each))) for budget in budgets]
            if any(cells):
                lines.append(f"| `{place}` | {each[-1]} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", summary(known)])


def summary(known: dict[Key, Cell]) -> str:
    """The geometric mean of what each list loses, divided by that of f, on the judging cells."""
    budgets = sorted(BUDGETS)
    lines = [f"| list | {' | '.join(f'C = {budget:,.0f}' for budget in budgets)} |"]
    lines.append(f"|---|{'---:|' * len(budgets)}")
    for each in LISTS:
        cells = []
        for budget in budgets:
            places = [
                place for place in JUDGING if all((place, budget, one) in known for one in LISTS)
            ]
            ratios = [
                known[place, budget, each]["mean"] / known[place, budget, "list-f"]["mean"]
                for place in places
            ]
            words = f"{np.exp(np.mean(np.log(ratios))):.2f} ({len(places)})" if ratios else ""
            cells.append(words)
        lines.append(f"| {each[-1]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Search what is missing, and print the tables."""
    given = asked(__doc__)
    known = {} if given.quick else read(FILE)
    if given.quick:
        list(play_missing(known, ["segments"], (0.0, 100.0), QUICK_HORIZON, QUICK_EFFORT, LISTS))
    elif not given.tables:
        for places in (CHOOSING, JUDGING):
            for cell in play_missing(known, places, BUDGETS, HORIZON, EFFORT, LISTS):
                with FILE.open("a") as file:
                    file.write(json.dumps(cell) + "\n")
                print(*key_of(cell), words_of(cell), file=sys.stderr, flush=True)
    print(table(known))


if __name__ == "__main__":
    main()
