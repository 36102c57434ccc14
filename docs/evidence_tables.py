"""Tables between markers of a page: bounds and headline tables.

``docs/generate.py`` writes the bounds on the page on choosing a policy. As a program,
``python docs/evidence_tables.py``, it plays the headline tables of that page and of README again,
which takes minutes, and writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from armrace.cli.compare import at_least_as_bad, under_own_worst
from armrace.cli.outputs import run_cells
from armrace.planning.plans import VACUOUS, proven_loss
from armrace.policies import POLICIES
from armrace.simulation import Comparison, Result, Scenario
from armrace.simulation.scenarios import find_scenario

_DOCS = Path(__file__).parent
_SHOWN = (
    "optimistic-log-barrier",
    "lb-inf",
    "tsallis-inf",
    "exp3",
)
"""Policies with a bound that says something at these sizes."""

ADS = (0.06, 0.05, 0.04, 0.03, 0.02), 200_000
_SETTINGS = {
    "ads": (*ADS, (0, 1000)),
    "clicks": ((0.05, *[0.03] * 9), 100_000, (0, 100)),
    "one-better": ((0.5, *[0.4] * 9), 100_000, (0, 100, 1000)),
    "two-arms": ((0.6, 0.4), 100_000, (0, 100, 1000)),
}
"""Means, rounds and corruptions for which the page says what is proven."""


def _proven() -> list[str]:
    """What each policy is proven to lose at most in each setting."""
    cells = [(name, c) for name, (_, _, each) in _SETTINGS.items() for c in each]
    head = ["proven to lose at most", *(f"{name}, C = {c:,}" for name, c in cells)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    most = [
        f"{(max(m) - min(m)) * rounds:,.0f}" for m, rounds, each in _SETTINGS.values() for _ in each
    ]
    lines.append(f"| *all that can be lost* | {' | '.join(most)} |")
    for tag in _SHOWN:
        policy, found = POLICIES.make(tag), []
        for name, c in cells:
            means, rounds, _ = _SETTINGS[name]
            found.append(proven_loss(policy, means, rounds, c).replace(VACUOUS, "-"))
        lines.append(f"| `{tag}` | {' | '.join(found)} |")
    return lines


def with_evidence(text: str) -> str:
    """The page with the table of bounds between its markers."""
    return with_block(text, "Proven figures", _proven())


def with_block(text: str, title: str, lines: Iterable[str]) -> str:
    """The page with a table between the markers of a title."""
    table = "\n".join(lines)
    pattern = rf"(<!-- {title}: .*? -->\n).*?(<!-- End of {title.lower()}\. -->)"
    text, found = re.subn(pattern, lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text, flags=re.DOTALL)
    if found != 1:
        raise ValueError(f"the page has no block named {title}.")
    return text


# --- the headline tables ------------------------------------------------------------------

_RUNS, _SEED = 200, 1
_NOTES = {
    "optimistic-log-barrier": "the default",
    "tsallis-inf": "needs no horizon",
    "lb-inf": "learns fastest where rates are near 0 or 1",
    "sharp-race": "decisions that you can inspect",
    "multi-layer-race": "the paper's algorithm; it is still exploring at this scale",
    "thompson": "the least without an attack; ruined by a few hundred forged ratings",
    "ucb1": "the textbook's choice; ruined as well",
}


def play_headlines() -> None:
    """Play the headline tables, and write them to their pages."""
    answers = find_scenario("helpful-answers")
    clicks = msgspec.structs.replace(
        answers,
        environment=type(answers.environment)(means=(0.02, 0.03, 0.04, 0.05, 0.06)),
        budget=1_000,
        horizon=200_000,
    )
    _write(
        _DOCS.parent / "README.md",
        "Answers lost",
        ["| | no attack | own worst attack | | proven |", "|---|---:|---:|---|---:|"],
        [
            [f"`{name}`", quiet, own, _NOTES[name], proven_in(answers, name)]
            for name, quiet, _, own in _played(answers)
        ],
    )
    _write(
        _DOCS / "guide" / "choose-a-policy.md",
        "Clicks lost",
        ["| clicks lost | no attack | `swap-best` | own worst attack |", "|---|---:|---:|---:|"],
        [[f"`{name}`", *cells] for name, *cells in _played(clicks)],
    )


def proven_in(scenario: Scenario, name: str) -> str:
    """What a policy is proven to lose at most: without an attack / with the scenario's budget."""
    means, policy = scenario.environment.to_builtins()["means"], POLICIES.make(name)
    said = [proven_loss(policy, means, scenario.horizon, c) for c in (0.0, scenario.budget)]
    return " / ".join(dict.fromkeys(said))


def _played(scenario: Scenario) -> list[tuple[str, str, str, str]]:
    """For each policy its means without an attack, under the shared one and under its own worst."""
    longer = msgspec.structs.replace(scenario, replications=_RUNS, policies=tuple(_NOTES))
    shared = longer.experiments(seed=_SEED)
    quiet = longer.experiments(budget=0.0, seed=_SEED)
    own = under_own_worst(shared, None, 1)
    calm, same, worst = map(Comparison, run_cells([quiet, shared, own], 1))
    worst = at_least_as_bad(worst, same)
    return [(name, *(_mean(each.results[name]) for each in (calm, same, worst))) for name in _NOTES]


def _mean(result: Result) -> str:
    """The mean pseudo-regret and its standard error."""
    found = result.figure("pseudo_regret")
    return f"{found.mean:,.0f} \u00b1 {found.stderr:,.0f}"


def _write(page: Path, title: str, head: list[str], rows: list[list[str]]) -> None:
    lines = [*head, *(f"| {' | '.join(cells)} |" for cells in rows)]
    print("\n".join(lines))
    text = page.read_text(encoding="utf-8")
    page.write_text(with_block(text, title, lines), encoding="utf-8")


if __name__ == "__main__":
    play_headlines()
