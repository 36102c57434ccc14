"""How time grows with the horizon when a race leaps: ``python -m benchmarks.leaping``.

Prints a table and draws ``docs/leaping.svg``. Times come with their ratio to a million rounds of
the same race played one by one, measured beside them.
"""

from __future__ import annotations

import time
from pathlib import Path

from armrace.reports.charts import Chart, Line, Panel, log_axis
from armrace.reports.figures import draw_figure, own_style, save_figure
from armrace.reports.theme import SERIES
from armrace.simulation import make_experiment
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import run_replication
from benchmarks.figures import Figure
from benchmarks.problem import HARD

__all__ = ["leaps"]

RACES = ("multi-layer-race", "sharp-race", "fast-slow-race", "active-arm-elimination")
HORIZONS = tuple(10**power for power in range(6, 16))
PLAIN = 10**6
TARGETS = {10**9: 20.0, 10**12: 100.0}
"""At most so many times a million rounds played one by one."""
_TURNS = 3
_PICTURE = Path(__file__).parent.parent / "docs" / "leaping.svg"


def _experiment(race: str, horizon: int, engine: str) -> Experiment:
    return make_experiment(
        policy=race,
        environment=HARD.means,
        horizon=horizon,
        replications=_TURNS,
        seed=1,
        engine=engine,
    )


def _seconds(race: str, horizon: int, engine: str) -> float:
    """Processor time of the best of a few replications."""
    experiment = _experiment(race, horizon, engine)
    compile_experiments([experiment], progress=False)
    best = float("inf")
    for number in range(_TURNS):
        started = time.thread_time()
        run_replication(experiment, number)
        best = min(best, time.thread_time() - started)
    return best


def leaps(race: str, horizons: tuple[int, ...] = HORIZONS) -> list[Figure]:
    """The time of each horizon beside a million rounds played one by one."""
    plain = _seconds(race, PLAIN, "plain")
    figures = []
    for horizon in horizons:
        leapt = _seconds(race, horizon, "leap")
        figures.append(
            Figure(
                f"{race}, T = {horizon:.0e}",
                leapt,
                "s",
                against=f"10^6 rounds played: {plain:.3f} s",
                ratio=leapt / plain,
                target=TARGETS.get(horizon) if race == RACES[0] else None,
            )
        )
    return figures


def draw(found: dict[str, list[Figure]]) -> None:
    """Seconds against rounds, both on logarithmic axes, and what playing would take."""
    lines = [
        Line(race, ink, HORIZONS, [figure.value or 0.0 for figure in figures], marker="o")
        for ink, (race, figures) in zip(SERIES, found.items(), strict=False)
    ]
    plain = _seconds(RACES[0], PLAIN, "plain")
    played = [plain * horizon / PLAIN for horizon in HORIZONS[:4]]
    lines.append(Line("round by round", "muted", HORIZONS[:4], played, dashes=(6, 3), width=1.0))
    heights = [height for line in lines for _, height in line.points]
    seconds = log_axis("seconds a replication", 0.8 * min(heights), 1.2 * max(heights))
    panel = Panel(log_axis("rounds", HORIZONS[0], HORIZONS[-1]), seconds, lines)
    with own_style():
        save_figure(draw_figure(Chart([panel]), 8.0), _PICTURE)


def main() -> None:
    """Measure, print and draw."""
    found = {race: leaps(race) for race in RACES}
    print("| rounds | " + " | ".join(f"`{race}`" for race in RACES) + " |")
    print("|---|" + "---:|" * len(RACES))
    for index, horizon in enumerate(HORIZONS):
        cells = [found[race][index] for race in RACES]
        times = " | ".join(f"{cell.value:.3f} s, {cell.ratio:.1f}" for cell in cells)
        print(f"| {horizon:.0e} | {times} |")
    draw(found)


if __name__ == "__main__":
    main()
