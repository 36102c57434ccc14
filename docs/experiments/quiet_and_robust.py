"""A search for a policy that is as good as Thompson sampling in quiet times, and robust.

Wanted: a quiet regret of at most 1.1 times Thompson sampling's and, under every attack found, at
most 2C + O(ln T), taken here as 2C plus twice Thompson sampling's quiet regret.
``python docs/experiments/quiet_and_robust.py`` tries candidates that switch, corral or start afresh
in two settings, judges those that lie on the frontier there in two others, and attacks the best
with smaller budgets.
``--quick`` tries one candidate in short runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

import armrace
from armrace.extending import (
    Limits,
    Policy,
    Ticket,
    assign,
    choose,
    distribution,
    implement,
    kl,
    learn,
    make_ticket,
    stamped,
    unwrap_ticket,
    wrap_ticket,
)
from armrace.kernels.copying import copy_state
from armrace.policies.common.blocks import SMALLEST_BLOCK, end_blocks, make_blocks
from armrace.policies.common.counts import count_play, make_counts, record

FIGURES = Path(__file__).with_suffix(".json")
SEARCHING, PLAYING, RUNS = 1, 2, 200
QUIET, ATTACKED = 1.1, 2.0
"""What is wanted: multiples of Thompson sampling's quiet regret, and of the budget."""


class Setting(NamedTuple):
    """Where candidates play."""

    means: tuple[float, ...]
    rounds: int
    budget: float


CHOOSING = {
    "two arms": Setting((0.6, 0.4), 5_000, 30.0),
    "four arms": Setting((0.7, 0.5, 0.4, 0.3), 5_000, 40.0),
}
JUDGING = {
    "rare clicks": Setting((0.2, 0.1, 0.05), 10_000, 40.0),
    "longer": Setting((0.6, 0.4), 20_000, 100.0),
}
SMALLER = {
    f"{place}, C = {budget:g}": where[place]._replace(budget=budget)
    for where, place, budgets in (
        (CHOOSING, "two arms", (10.0, 20.0)),
        (JUDGING, "longer", (50.0, 25.0, 10.0)),
        (CHOOSING, "four arms", (20.0,)),
    )
    for budget in budgets
}
"""Whoever may spend more may also stop early, which a test for changes does not notice as soon."""

BEST = "thompson, then optimistic-log-barrier at a contradiction of 4"

# --- Switching at an alarm ------------------------------------------------------------------------


class Switching(Policy, frozen=True, tag="switching"):
    """Plays the first policy until an alarm of the audit's test, and then the second for good."""

    first: Any = "thompson"
    second: Any = "optimistic-log-barrier"
    level: Annotated[float, Limits("chance of a false alarm", 0, 1, low_open=True)] = 0.05

    exact_tickets = False

    def validate(self) -> None:
        for name in ("first", "second"):
            msgspec.structs.force_setattr(self, name, armrace.POLICIES.make(getattr(self, name)))

    def start(self, arms: int, horizon: int) -> SwitchingState:
        blocks = make_blocks(arms, horizon)
        return SwitchingState(
            self.first.start(arms, horizon),
            self.second.start(arms, horizon),
            make_counts(arms),
            blocks,
            np.array([np.log(arms * blocks.sums.shape[1] / self.level)]),
            np.zeros(1, dtype=np.int64),
        )


class SwitchingState(NamedTuple):
    """Both policies, what the test counts, its threshold, and whether there was an alarm."""

    first: Any
    second: Any
    counts: Any
    blocks: Any
    threshold: Any
    switched: Any


@implement(distribution, SwitchingState)
def _switching_distribution(state: SwitchingState, out: np.ndarray) -> None:
    if state.switched[0]:
        distribution(state.second, out)
    else:
        distribution(state.first, out)


@implement(choose, SwitchingState)
def _switching_choose(state: SwitchingState, stream: Any) -> Ticket:
    if state.switched[0]:
        return choose(state.second, stream)
    return choose(state.first, stream)


@implement(assign, SwitchingState)
def _switching_assign(state: SwitchingState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    if state.switched[0]:
        return assign(state.second, ticket)
    return assign(state.first, ticket)


@implement(learn, SwitchingState)
def _switching_learn(state: SwitchingState, ticket: Ticket, reward: float) -> None:
    if state.switched[0]:
        learn(state.second, ticket, reward)
        return
    learn(state.first, ticket, reward)
    arm = ticket.arm
    record(state.counts, arm, reward)
    pulls, total = state.counts.pulls[arm], state.counts.sums[arm]
    if pulls % SMALLEST_BLOCK == 0:
        end_blocks(state.blocks, arm, pulls, total, 0, state.counts.rounds[0])
        if state.blocks.evidence[arm].max() > state.threshold[0]:
            state.switched[0] = 1


# --- Switching when the latest rewards of an arm contradict those before --------------------------

_WIDTHS = np.array([1, 2, 4, 8, 16, 32])
_ROOM = 33


class Vigilant(Policy, frozen=True, tag="vigilant"):
    """As ``switching``, by a test that needs few rewards, and so notices what is seldom played.

    The alarm is raised when the likelihood ratio of the latest 1, 2, 4, ... 32 rewards of an arm
    against its ``n`` rewards before exceeds ``threshold + ln(1 + n)``. With ``again``, the first
    policy starts afresh in place of the second, each time.
    """

    first: Any = "thompson"
    second: Any = "optimistic-log-barrier"
    threshold: Annotated[float, Limits("evidence that raises the alarm", 0, 100)] = 3.0
    again: bool = False

    exact_tickets = False

    def validate(self) -> None:
        for name in ("first", "second"):
            msgspec.structs.force_setattr(self, name, armrace.POLICIES.make(getattr(self, name)))

    def start(self, arms: int, horizon: int) -> VigilantState:
        def memory() -> VigilantMemory:
            sums = np.zeros((arms, _ROOM))
            return VigilantMemory(self.first.start(arms, horizon), make_counts(arms), sums)

        return VigilantState(
            memory(),
            self.second.start(arms, horizon),
            np.array([self.threshold]),
            np.array([0, int(self.again)]),
            memory(),
        )


class VigilantMemory(NamedTuple):
    """The first policy, and each arm's sums after its latest rewards."""

    first: Any
    counts: Any
    sums: Any


class VigilantState(NamedTuple):
    """Both policies, the threshold, whether there was an alarm, and what is known at the start."""

    memory: Any
    second: Any
    threshold: Any
    switched: Any
    scratch: Any


@implement(distribution, VigilantState)
def _vigilant_distribution(state: VigilantState, out: np.ndarray) -> None:
    if state.switched[0]:
        distribution(state.second, out)
    else:
        distribution(state.memory.first, out)


@implement(choose, VigilantState)
def _vigilant_choose(state: VigilantState, stream: Any) -> Ticket:
    if state.switched[0]:
        return choose(state.second, stream)
    return choose(state.memory.first, stream)


@implement(assign, VigilantState)
def _vigilant_assign(state: VigilantState, ticket: Ticket) -> Ticket:
    if state.switched[0]:
        return assign(state.second, ticket)
    return assign(state.memory.first, ticket)


@implement(learn, VigilantState)
def _vigilant_learn(state: VigilantState, ticket: Ticket, reward: float) -> None:
    if state.switched[0]:
        learn(state.second, ticket, reward)
        return
    memory, arm = state.memory, ticket.arm
    learn(memory.first, ticket, reward)
    record(memory.counts, arm, reward)
    pulls, total = memory.counts.pulls[arm], memory.counts.sums[arm]
    memory.sums[arm, pulls % _ROOM] = total
    for width in _WIDTHS:
        before = pulls - width
        if before < 4:
            break
        earlier = memory.sums[arm, before % _ROOM]
        common = total / pulls
        if 0.0 < common < 1.0:
            ratio = before * kl(earlier / before, common)
            ratio += width * kl(min(1.0, max(0.0, (total - earlier) / width)), common)
            if ratio > state.threshold[0] + np.log(1.0 + before):
                if state.switched[1]:
                    copy_state(state.memory, state.scratch)
                else:
                    state.switched[0] = 1
                return


# --- Corralling -----------------------------------------------------------------------------------


class Corralling(Policy, frozen=True, tag="corralling"):
    """Lets a regularised leader choose in each round which of two policies plays, and learns.

    As in Agarwal et al. (2017), the leader's arms are the policies; a policy learns from the rounds
    in which it was chosen. Rewards must come at once.
    """

    first: Any = "thompson"
    second: Any = "optimistic-log-barrier"
    master: Any = "log-barrier"

    exact_tickets = False

    def validate(self) -> None:
        for name in ("first", "second", "master"):
            msgspec.structs.force_setattr(self, name, armrace.POLICIES.make(getattr(self, name)))

    def start(self, arms: int, horizon: int) -> CorrallingState:
        return CorrallingState(
            self.first.start(arms, horizon),
            self.second.start(arms, horizon),
            self.master.start(2, horizon),
            np.zeros(2),
            np.zeros(2),
            np.zeros(arms),
        )


class CorrallingState(NamedTuple):
    """The two policies, the leader, its ticket of this round, and space for two laws."""

    first: Any
    second: Any
    master: Any
    drawn: Any
    law: Any
    scratch: Any


@implement(distribution, CorrallingState)
def _corralling_distribution(state: CorrallingState, out: np.ndarray) -> None:
    distribution(state.master, state.law)
    distribution(state.first, out)
    distribution(state.second, state.scratch)
    for arm in range(out.size):
        out[arm] = state.law[0] * out[arm] + state.law[1] * state.scratch[arm]


@implement(choose, CorrallingState)
def _corralling_choose(state: CorrallingState, stream: Any) -> Ticket:
    drawn = choose(state.master, stream)
    state.drawn[0], state.drawn[1] = drawn.arm, drawn.probability
    inner = choose(state.first, stream) if drawn.arm == 0 else choose(state.second, stream)
    # The ticket of the policy that plays; that of the leader stays here until the reward comes.
    return wrap_ticket(inner, inner.arm, inner.layer, np.nan)


@implement(assign, CorrallingState)
def _corralling_assign(state: CorrallingState, ticket: Ticket) -> Ticket:
    own = assign(state.master, make_ticket(int(state.drawn[0]), 0, state.drawn[1]))
    state.law[0], state.law[1] = own.phase, own.memo
    inner = unwrap_ticket(ticket, 1)
    first = state.drawn[0] == 0
    inner = assign(state.first, inner) if first else assign(state.second, inner)
    return stamped(ticket, inner.phase, inner.memo)


@implement(learn, CorrallingState)
def _corralling_learn(state: CorrallingState, ticket: Ticket, reward: float) -> None:
    own = make_ticket(int(state.drawn[0]), 0, state.drawn[1])
    learn(state.master, stamped(own, int(state.law[0]), state.law[1]), reward)
    if state.drawn[0] == 0:
        learn(state.first, unwrap_ticket(ticket, 1), reward)
    else:
        learn(state.second, unwrap_ticket(ticket, 1), reward)


# --- The search -----------------------------------------------------------------------------------


def candidates() -> dict[str, Any]:
    """What is there already, and what was not tried before."""
    thrifty = {"name": "optimistic-log-barrier", "optimism": 0.1}
    afresh = {"name": "restarting", "base": "thompson"}
    return {
        "thompson": "thompson",
        "optimistic-log-barrier": "optimistic-log-barrier",
        "optimistic-log-barrier, optimism 0.1": thrifty,
        "lb-inf": "lb-inf",
        "guarded thompson": {"name": "guarded", "base": "thompson"},
        "thompson, afresh at an alarm": afresh,
        "thompson, afresh at an alarm of level 0.9": {**afresh, "level": 0.9},
        "thompson, afresh in doubling periods": {**afresh, "when": "doubling"},
        "thompson, afresh every 1,000 rounds": {**afresh, "when": "period"},
        "thompson, then optimistic-log-barrier at an alarm": Switching(),
        "thompson, then optimistic-log-barrier at an alarm of level 0.9": Switching(level=0.9),
        "kl-ucb, then optimistic-log-barrier at an alarm of level 0.9": Switching(
            first="kl-ucb", level=0.9
        ),
        "thompson, then optimistic-log-barrier at a contradiction of 1": Vigilant(threshold=1.0),
        "thompson, then optimistic-log-barrier at a contradiction of 2": Vigilant(threshold=2.0),
        "thompson, then optimistic-log-barrier at a contradiction of 4": Vigilant(threshold=4.0),
        "thompson, afresh at a contradiction of 2": Vigilant(threshold=2.0, again=True),
        "thompson and optimistic-log-barrier, corralled": Corralling(),
        "kl-ucb and optimistic-log-barrier, corralled": Corralling(first="kl-ucb"),
    }


def losses(policy: Any, setting: Setting, runs: int, effort: str) -> dict[str, Any]:
    """What a candidate loses in quiet times, and under the worst attack that a search finds."""
    told = {"horizon": setting.rounds, "replications": runs, "seed": PLAYING, "progress": False}
    means = list(setting.means)
    verdict = armrace.redteam(
        policy,
        means,
        setting.budget,
        setting.rounds,
        effort=effort,
        seed=SEARCHING,
        progress=False,
    )
    quiet = armrace.simulate(policy, means, **told).figure("pseudo_regret")
    attacked = armrace.simulate(policy, means, verdict.attack, setting.budget, **told)
    lost = attacked.figure("pseudo_regret")
    return {
        "quiet": [quiet.mean, quiet.stderr],
        "attacked": [lost.mean, lost.stderr],
        "words": verdict.description,
    }


def measured(names: list[str], settings: dict[str, Setting]) -> dict[str, dict[str, Any]]:
    """The losses of candidates in settings; those that the file has are not played again."""
    known = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    for place, setting in settings.items():
        for name in names:
            if name not in known.setdefault(place, {}):
                known[place][name] = losses(candidates()[name], setting, RUNS, "quick")
                FIGURES.write_text(json.dumps(known, indent=1) + "\n")
                print(place, name, file=sys.stderr, flush=True)
    return known


Row = tuple[float, float]


def standing(found: dict[str, dict[str, Any]], place: str, setting: Setting, name: str) -> Row:
    """Quiet regret over Thompson's, and what is lost over what is wanted under attack."""
    thompson = found[place]["thompson"]["quiet"][0]
    mine = found[place][name]
    wanted = ATTACKED * setting.budget + 2 * thompson
    return mine["quiet"][0] / thompson, mine["attacked"][0] / wanted


def print_tables(
    found: dict[str, dict[str, Any]], names: list[str], settings: dict[str, Setting]
) -> None:
    """For each candidate and setting: quiet and attacked, and both in units of what is wanted."""
    headings = [f"{place}: quiet | attacked" for place in settings]
    print(f"| candidate | {' | '.join(headings)} | worst quiet ratio | worst attacked ratio |")
    print(f"|---|{'---:|' * (2 * len(settings) + 2)}")
    for name in names:
        cells, rows = [], []
        for place, setting in settings.items():
            for measure in ("quiet", "attacked"):
                mean, error = found[place][name][measure]
                cells.append(f"{mean:,.0f} ± {error:,.0f}")
            rows.append(standing(found, place, setting, name))
        quiet, attacked = (max(column) for column in zip(*rows, strict=True))
        print(f"| {name} | {' | '.join(cells)} | {quiet:.2f} | {attacked:.2f} |")


def frontier(found: dict[str, dict[str, Any]], settings: dict[str, Setting]) -> list[str]:
    """The candidates that no other one beats in both ratios, where they were chosen."""
    points = {}
    for name in candidates():
        rows = [standing(found, place, setting, name) for place, setting in settings.items()]
        points[name] = tuple(max(column) for column in zip(*rows, strict=True))
    return [
        name
        for name, (quiet, attacked) in points.items()
        if not any(
            q <= quiet and a <= attacked and (q, a) != (quiet, attacked) for q, a in points.values()
        )
    ]


def main() -> None:
    """Choose on two settings, and judge on two others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one candidate and short runs")
    if parser.parse_args().quick:
        short = Setting((0.6, 0.4), 2000, 20.0)
        print(losses(Corralling(), short, 3, "few")["quiet"])
        return
    found = measured(list(candidates()), CHOOSING)
    print_tables(found, list(candidates()), CHOOSING)
    chosen = frontier(found, CHOOSING)
    judged = list(dict.fromkeys(["thompson", "optimistic-log-barrier", *chosen]))
    found = measured(judged, JUDGING)
    print(f"\nOn the frontier: {', '.join(chosen)}.\n")
    print_tables(found, judged, JUDGING)
    found = measured([BEST], SMALLER)
    for place in SMALLER:
        mean, error = found[place][BEST]["attacked"]
        print(f"| {place} | {mean:,.0f} ± {error:,.0f} |")


if __name__ == "__main__":
    main()
