"""Progress bars on standard error, shown on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "cell_bar", "compiling_bar", "progress_bar"]

Progress = bool | None | Callable[[float], None]
"""Whether to show a bar, None for on a terminal only; or a function of the finished share."""

_SECONDS_THAT_TELL_THE_SPEED = 600.0
"""Cells differ much in length, so the remaining time is estimated from many of them."""


@contextmanager
def progress_bar(title: str, shown: Progress) -> Iterator[Callable[[float], None]]:
    """Yield a function of the finished share; ``shown=None`` shows it on a terminal only."""
    if callable(shown):
        yield shown
        return
    if not _visible(shown):
        yield lambda share: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda share: bar.update(task, completed=share)


@contextmanager
def cell_bar(shown: bool | None) -> Iterator[Callable[[float, int], None]]:
    """Yield a function that takes how many cells are done, fractions included, and of how many."""
    if not _visible(shown):
        yield lambda done, total: None
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        speed_estimate_period=_SECONDS_THAT_TELL_THE_SPEED,
    ) as bar:
        task = bar.add_task("cells")

        def report(done: float, total: int) -> None:
            words = f"{int(done)} of {total} cells"
            bar.update(task, completed=done, total=total, description=words)

        yield report


@contextmanager
def compiling_bar(
    what: str, seconds: float, shown: bool | None
) -> Iterator[Callable[[float, str], None]]:
    """Show that ``what`` is being compiled, which takes about ``seconds``.

    Yields a function that takes the finished share and what is being compiled now. On a terminal
    that is a bar; elsewhere one line at the start and one at the end tell why nothing happens.
    """
    if shown is False:
        yield lambda share, now: None
    elif not _visible(shown):
        started = time.monotonic()
        print(f"armrace: compiling {what}, once; about {seconds:.0f} s.", file=sys.stderr)
        yield lambda share, now: None
        print(f"armrace: compiled in {time.monotonic() - started:.0f} s.", file=sys.stderr)
    else:
        with _compiling_bar_on_a_terminal() as bar:
            yield bar


@contextmanager
def _compiling_bar_on_a_terminal() -> Iterator[Callable[[float, str], None]]:
    from rich import progress
    from rich.console import Console

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("compiling, once", total=1.0)

        def report(share: float, now: str) -> None:
            words = f"compiling {now}, once" if now else "compiling, once"
            bar.update(task, completed=share, description=words)

        yield report


def _visible(shown: bool | None) -> bool:
    return sys.stderr.isatty() if shown is None else shown
