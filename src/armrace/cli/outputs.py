"""What a command shows and writes, and the loop of experiments with progress and interrupts.

One rule holds for all files. A file that is named must not hold anything yet, unless ``--force``
allows to replace it; a page that is not named gets the next free name. Files are checked before a
long run, and written atomically after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import typer

from armrace.errors import InvalidParameter, UnwritableOutput

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from armrace.reports.charts import Plot
    from armrace.simulation import Experiment, Result

STANDARD_OUTPUT = Path("-")


def say(sentence: str) -> None:
    """Print a message on standard error; standard output is reserved for results."""
    typer.echo(sentence, err=True)


def check_targets(
    json: Path | None, *others: Path | None, figures: Path | None = None, force: bool = False
) -> None:
    """Refuse files that cannot or must not be written, before anything is computed."""
    from armrace.files import check_writable

    if STANDARD_OUTPUT in others:
        raise InvalidParameter("only --json takes - for standard output; give the name of a file.")
    targets = (json, *others)
    files = [target for target in targets if target is not None and target != STANDARD_OUTPUT]
    for target in files:
        check_writable(target)
        if not force and _holds_something(target):
            raise UnwritableOutput(f"{target} exists; give another name, or --force to replace it.")
    if figures is not None:
        _check_folder(figures, force=force)
    resolved = [target.resolve() for target in files]
    if len(set(resolved)) < len(resolved):
        raise InvalidParameter("each output must be a file of its own; got one of them twice.")


def _check_folder(folder: Path, *, force: bool) -> None:
    """Refuse a folder that cannot be made, or that holds figures already."""
    from armrace.files import check_writable, make_folder
    from armrace.reports import require_matplotlib

    require_matplotlib()
    make_folder(folder)
    check_writable(folder / "figure.svg")
    if not force and any(folder.iterdir()):
        raise UnwritableOutput(
            f"the folder {folder} is not empty; give another name, or --force to replace figures."
        )


def _holds_something(target: Path) -> bool:
    """Whether there is a file that is not empty; one made by ``mktemp`` may be filled."""
    return target.exists() and target.stat().st_size > 0


def page_place(given: Path | None, usual: str) -> Path:
    """Return the path of a page: the given file, or the usual name, numbered if it is taken."""
    if given is not None:
        return given
    first = Path(usual)
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in count(2))
    return first if not first.exists() else next(each for each in numbered if not each.exists())


def write_page(target: Path, text: str) -> None:
    """Write a page, and say where it is."""
    from armrace.files import write_text

    write_text(target, text)
    say(f"The report is in {target}.")


def write_figures(folder: Path, plots: Sequence[Plot]) -> None:
    """Write figures for a paper, and say where they are; the folder was checked before."""
    from armrace.reports.figures import write_plots

    written = write_plots(plots, folder, overwrite=True)
    counted = f"{len(plots)} figures are" if len(plots) != 1 else "1 figure is"
    say(f"{counted} in {folder}, {len(written)} files.")


class Outputs(NamedTuple):
    """What a command writes besides its tables: JSON, a page, and figures for a paper."""

    json: Path | None
    page: Path | None = None
    figures: Path | None = None
    force: bool = False

    def check(self) -> None:
        """Refuse files that cannot or must not be written, before anything is computed."""
        check_targets(self.json, self.page, figures=self.figures, force=self.force)

    def write(
        self,
        data: Callable[[], Any],
        show: Callable[[], None],
        page: Callable[[], str] | None = None,
        plots: Callable[[], Sequence[Plot]] | None = None,
    ) -> None:
        """Write what was asked for; tables are left out where JSON is printed."""
        if self.json is not None:
            write_json(self.json, data())
        if self.json != STANDARD_OUTPUT:
            show()
        if self.page is not None and page is not None:
            write_page(self.page, page())
        if self.figures is not None and plots is not None:
            write_figures(self.figures, plots())


def write_json(target: Path, data: Any) -> None:
    """Write plain data to a file or to standard output."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    if target == STANDARD_OUTPUT:
        typer.echo(text)
        return
    from armrace.files import write_text

    write_text(target, text + "\n")
    say(f"The figures are in {target}.")


_WRITERS: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".csv": lambda rows, path: _flat(rows).write_csv(path),
    ".json": lambda rows, path: rows.write_json(path),
    ".ndjson": lambda rows, path: rows.write_ndjson(path),
}
"""How the rows of a result are written, by the ending of the file; Parquet has all of it."""


def check_ending(target: Path | None) -> None:
    """Refuse a file for a result whose ending names no known format."""
    endings = (".parquet", *_WRITERS)
    if target is not None and target != STANDARD_OUTPUT and target.suffix.lower() not in endings:
        raise InvalidParameter(
            f"output must end in {', '.join(endings[:-1])} or {endings[-1]}; got {str(target)!r}."
        )


def write_result(target: Path, result: Result) -> None:
    """Write a result in the format that the ending of the file names."""
    from armrace.files import atomic_path

    ending = target.suffix.lower()
    if ending in _WRITERS:
        with atomic_path(target) as path:
            _WRITERS[ending](result.rows, path)
    else:
        result.save(target, overwrite=True)  # refused before, unless --force was given
    say(f"The result is in {target}.")


def _flat(rows: pl.DataFrame) -> pl.DataFrame:
    """A column for each member of a list, such as ``pulls_0`` and ``pulls_1``: CSV has no lists."""
    import polars as pl

    columns: list[pl.Expr] = []
    for name, kind in rows.schema.items():
        if isinstance(kind, (pl.List, pl.Array)):
            column = rows[name].cast(pl.List(kind.inner))
            width = int(column.list.len().max() or 0)  # type: ignore[arg-type]
            as_list = pl.col(name).cast(pl.List(kind.inner))
            columns += [as_list.list.get(at).alias(f"{name}_{at}") for at in range(width)]
        else:
            columns.append(pl.col(name))
    return rows.select(columns)


INTERRUPTED = 130
"""The exit code after Ctrl-C: that of shells, 128 plus the number of SIGINT."""


def run(
    experiments: Sequence[Experiment], workers: int | None, executor: Executor | None = None
) -> list[Result]:
    """Run experiments of equally many replications, with a progress bar on a terminal."""
    from armrace.simulation.simulate import run_experiments

    try:
        return run_experiments(experiments, executor, workers)
    except KeyboardInterrupt:
        total = experiments[0].replications
        say(f"armrace: interrupted after 0 of {total} replications.")
        raise typer.Exit(INTERRUPTED) from None


def run_cells(
    cells: Sequence[Sequence[Experiment]],
    workers: int | None,
    executor: Executor | None = None,
    folder: Path | None = None,
) -> list[list[Result]]:
    """Run cells, each a list of experiments, and return the results of each cell.

    With a folder, cells run one after the other and are stored there; else all run at once.
    """
    if folder is not None:
        return _run_in_folder(cells, workers, executor, folder)
    experiments = [experiment for cell in cells for experiment in cell]
    results = iter(run(experiments, workers, executor))
    return [[next(results) for _ in cell] for cell in cells]


def _run_in_folder(
    cells: Sequence[Sequence[Experiment]],
    workers: int | None,
    executor: Executor | None,
    folder: Path,
) -> list[list[Result]]:
    """Run cells one after the other, and store each in a folder; stored cells are not run again."""
    from armrace.files import make_folder
    from armrace.simulation.compilation import compile_experiments
    from armrace.simulation.progress import cell_bar
    from armrace.simulation.sweeps import run_sweep

    make_folder(folder)  # refused before anything is compiled
    with say_how_to_go_on(folder):
        compile_experiments([experiment for cell in cells for experiment in cell], executor)
        with cell_bar(None) as bar:
            return run_sweep(cells, folder, executor, workers, bar)


@contextmanager
def explained_interrupt(sentence: str) -> Iterator[None]:
    """Turn Ctrl-C into a sentence and an exit code."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"armrace: interrupted{sentence}")
        raise typer.Exit(INTERRUPTED) from None


def say_how_to_go_on(folder: Path) -> AbstractContextManager[None]:
    """Explain an interruption after which the finished results are kept."""
    return explained_interrupt(
        f"; finished results are in {folder}; run the same command to continue."
    )


def end(result: Result) -> None:
    """Leave with the exit code of an interruption if there was one."""
    if result.interrupted:
        asked = result.spec["replications"]
        say(f"armrace: interrupted after {result.replications} of {asked} replications.")
        raise typer.Exit(INTERRUPTED)
