"""Campaigns: numbered runs, in one or several processes, with the number of a run that fails.

A campaign can be split over machines or terminals: ``--first`` says with which number to begin.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path

MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files cost no wait for a real disk, on systems that have it; else the usual folder."""
_PROGRESS_SECONDS = 20


class Campaign:
    """The arguments of a campaign, and its runs."""

    def __init__(self, module: str, unit: str, usual: int, description: str) -> None:
        self.module = module
        self.unit = unit
        self.parser = argparse.ArgumentParser(description=description)
        self.parser.add_argument("--first", type=int, default=0, help="the number to begin with")
        self.parser.add_argument(f"--{unit}", type=int, default=usual, dest="count")
        self.parser.add_argument("--processes", type=int, default=1)

    def read_arguments(self) -> argparse.Namespace:
        """Read the arguments of the program."""
        self.asked = self.parser.parse_args()
        return self.asked

    def carry_out(self, run: Callable[[range], Counter[str]], together: int) -> Counter[str]:
        """Perform all runs and return what they counted."""
        first, count = self.asked.first, self.asked.count
        parts = [
            range(start, min(start + together, first + count))
            for start in range(first, first + count, together)
        ]
        began = shown = time.monotonic()
        total: Counter[str] = Counter()
        done = 0
        for numbers, found in self._results(run, parts):
            total.update(found)
            done += len(numbers)
            if time.monotonic() - shown > _PROGRESS_SECONDS:
                shown = time.monotonic()
                print(f"  {done} of {count}, {done / (shown - began):.2f} a second", flush=True)
        seconds = time.monotonic() - began
        print(f"{self.module}: {count} {self.unit} from {first} on in {seconds:.0f} s.", flush=True)
        return total

    def _results(
        self, run: Callable[[range], Counter[str]], parts: list[range]
    ) -> Iterator[tuple[range, Counter[str]]]:
        perform = partial(_perform, run, self.module, self.unit)
        if self.asked.processes == 1:
            yield from ((part, perform(part)) for part in parts)
            return
        with ProcessPoolExecutor(self.asked.processes, get_context("spawn")) as pool:
            waiting = {pool.submit(perform, part): part for part in parts}
            try:
                for finished in as_completed(waiting):
                    yield waiting[finished], finished.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def _perform(
    run: Callable[[range], Counter[str]], module: str, unit: str, numbers: range
) -> Counter[str]:
    try:
        return run(numbers)
    except BaseException:
        again = f"python -m {module} --first {numbers.start} --{unit} {len(numbers)}"
        print(f"a run of {numbers.start} to {numbers[-1]} fails: {again}", flush=True)
        raise
