"""The files that a command writes: checked before a long run, written atomically after it.

One rule holds for all commands. A file that is named must not hold anything yet, unless
``--force`` allows to replace it; a page that is not named gets the next free name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import typer

from armrace.errors import InvalidParameter, UnwritableOutput

if TYPE_CHECKING:
    import polars as pl

    from armrace.reports.charts import Plot
    from armrace.simulation import Result


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
