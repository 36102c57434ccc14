"""Progress on standard error: a bar on a terminal, a line per minute elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | None | Callable[[float], None]
"""Whether to show a bar; None for one on a terminal and for lines elsewhere; or a function that
takes the finished share."""

_SECONDS_THAT_TELL_THE_SPEED = 600.0
"""Cells differ much in length, so the remaining time is estimated from many of them."""
_SECONDS_BETWEEN_LINES = 60.0


@contextmanager
def progress_bar(
    title: str, shown: Progress, seconds_for_speed: float = 30.0
) -> Iterator[Callable[..., None]]:
    """Show progress on standard error.

    Args:
        title: the words in front of the bar.
        shown: whether to show a bar; None shows one on a terminal, and elsewhere, as in the log of
            a server, a line per minute. A function is used in place of a bar.
        seconds_for_speed: the time over which the speed is averaged, to estimate what is left.
    """
    if callable(shown):
        yield shown
        return
    if not _visible(shown):
        yield _make_lines(title) if shown is None else lambda share, words=title: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=seconds_for_speed,
    ) as bar:
        task = bar.add_task(title, total=1.0)

        def report(share: float, words: str = title) -> None:
            bar.update(task, completed=share, description=words)

        yield report


@contextmanager
def cell_bar(shown: bool | None) -> Iterator[Callable[[float, int], None]]:
    """Show a progress bar; yield a function of the number of finished cells and of all cells."""
    with progress_bar("cells", shown, _SECONDS_THAT_TELL_THE_SPEED) as report:
        yield lambda done, total: report(done / max(total, 1), f"{int(done)} of {total} cells")


@contextmanager
def compiling_told(what: str, seconds: float, shown: bool | None) -> Iterator[None]:
    """Say that ``what`` is being compiled, which takes about ``seconds``, and when it is done."""
    if shown is not False:
        _print(f"compiling {what}, once; about {seconds:.0f} s.")
    started = time.monotonic()
    yield
    if shown is not False:
        _print(f"compiled in {time.monotonic() - started:.0f} s.")


def _make_lines(title: str) -> Callable[..., None]:
    """Return a function that prints a line if a minute has passed since the last one."""
    last = time.monotonic()

    def report(share: float, words: str = title) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            _print(f"{words}, {share:.0%}")

    return report


def _print(words: str) -> None:
    """Print a line on standard error, unless it was closed.

    It is then None, for which ``print`` would take the standard output.
    """
    if sys.stderr is not None:
        print(f"armrace: {words}", file=sys.stderr, flush=True)


def _visible(shown: bool | None) -> bool:
    if shown is not None:
        return shown
    return sys.stderr is not None and sys.stderr.isatty()  # None where it was closed
