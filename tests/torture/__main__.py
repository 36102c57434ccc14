"""``python -m torture --seeds 10000``: a campaign; a failing seed is printed and replays."""

from __future__ import annotations

import argparse
import time

from torture.checker import check
from torture.world import START, World


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the simulated service under faults.")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    asked = parser.parse_args()
    began, simulated, answers = time.perf_counter(), 0, 0
    for seed in range(asked.first, asked.first + asked.seeds):
        world = World(seed)
        try:
            world.run()
            simulated += world.now - START
            answers += len(world.history)
            check(world)
        except BaseException:
            print(f"seed {seed} fails: python -m torture --first {seed} --seeds 1", flush=True)
            raise
    seconds = time.perf_counter() - began
    print(
        f"{asked.seeds} seeds, {answers} answers checked, 0 contradictions; "
        f"{simulated / 1000 / seconds:.0f} times real time."
    )


if __name__ == "__main__":
    main()
