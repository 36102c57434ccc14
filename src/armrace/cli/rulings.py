"""``armrace void``, ``retract``, ``hold`` and ``release``: verdicts from files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from armrace.cli import options
from armrace.cli.options import expanded
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_targets,
    explained_interrupt,
    say,
    write_json,
)
from armrace.errors import InvalidParameter
from armrace.formatting import count, number_of
from armrace.service.keyring import DEFAULT_TENANT

if TYPE_CHECKING:
    from armrace_client.answers import RulingAnswer
    from armrace_client.calls import Calls

_OVERHEAD = 4096
"""What a request has besides identifiers, in bytes."""
_SECONDS_FOR_SPEED = 120.0

Experiment = Annotated[str, options.argument("EXPERIMENT", "The experiment.", show_default=False)]
File = Annotated[
    str,
    options.argument(
        "FILE",
        "CSV, NDJSON (plain or gzip), Parquet, or plain text with a name in each line; - for "
        "standard input.",
        show_default=False,
    ),
]


By = Annotated[
    str,
    options.option(
        "--by KIND",
        "What the file names: decision, request, unit, source or label:NAME.",
        show_default=False,
    ),
]

DEFAULT_SERVER = "http://127.0.0.1:8380"
Server = Annotated[
    str | None,
    options.option(
        "--server URL", f"The service; by default {DEFAULT_SERVER}.", envvar="ARMRACE_SERVER"
    ),
]
Key = Annotated[str | None, options.option("--key KEY", "An admin key; by default ARMRACE_KEY.")]


class RulingOptions(NamedTuple):
    """The options of all four commands."""

    column: Annotated[
        str | None,
        options.columns_option(
            "--column COLUMN", "Where the names are; by default the column called as the kind."
        ),
    ] = None
    reason_column: Annotated[
        str | None,
        options.columns_option("--reason-column COLUMN", "Why, for the log, row by row."),
    ] = None
    reason: Annotated[str, options.option("--reason TEXT", "Why, for the log.")] = ""
    since: Annotated[
        str | None,
        options.option(
            "--since TIME", "Only visits decided at this time in UTC or later, as 2026-03-01T14:00."
        ),
    ] = None
    until: Annotated[
        str | None, options.option("--until TIME", "Only visits decided before this time.")
    ] = None
    preview: Annotated[
        bool, options.option("--preview", "Change nothing, and say what would change.")
    ] = False
    server: Server = None
    key: Key = None
    store: Annotated[
        str | None,
        options.option("--store PLACE", "Work on a store that no server uses, in place of one."),
    ] = None
    keys: options.KeysFile = None
    tenant: Annotated[
        str, options.option("--tenant NAME", "Whose experiment it is, in a store.")
    ] = DEFAULT_TENANT
    report: Annotated[
        Path | None,
        options.output_path(
            "--report FILE", "Write names that are unknown or were ruled already to this CSV file."
        ),
    ] = None
    json: options.Json = None
    force: options.Force = False


EPILOGS = {
    verdict: options.examples(*lines)
    for verdict, lines in {
        "void": (
            "armrace void shop bots.csv --by unit --reason-column rule --preview",
            "armrace void shop fraud.parquet --by label:click --column click_id --report left.csv",
        ),
        "retract": ("armrace retract shop disputed.ndjson --by decision",),
        "hold": ("armrace hold shop suspects.txt --by source --reason 'new network'",),
        "release": ("zcat cleared.csv.gz | armrace release shop - --by unit",),
    }.items()
}


@expanded
def void(*, experiment: Experiment, file: File, by: By, given: RulingOptions) -> None:
    """Take the visits that a file names back, rewarded or not, as if they had never been made.

    The log is replayed without them. Running the same command again changes nothing, so that one
    that was interrupted is simply repeated. Rows that cannot be used are counted by their reason.
    """
    _rule("void", experiment, file, by, given)


@expanded
def retract(*, experiment: Experiment, file: File, by: By, given: RulingOptions) -> None:
    """Take the rewards of the visits that a file names back: they count as missing."""
    _rule("retract", experiment, file, by, given)


@expanded
def hold(*, experiment: Experiment, file: File, by: By, given: RulingOptions) -> None:
    """Hold the rewards of the visits that a file names, until they are released."""
    _rule("hold", experiment, file, by, given)


@expanded
def release(*, experiment: Experiment, file: File, by: By, given: RulingOptions) -> None:
    """Let the visits that a file names count that were voided, retracted or held."""
    _rule("release", experiment, file, by, given)


class _Sum:
    """What rulings have changed together."""

    def __init__(self, verdict: str, experiment: str, *, preview: bool) -> None:
        self.verdict, self.preview = verdict, preview
        self.data: dict[str, Any] = {"experiment": experiment, "verdict": verdict}
        self.data |= {"preview": preview, "names": 0, "unknown": 0, "unchanged": 0}
        self.data |= {"visits": 0, "rewarded": 0, "changed": 0}
        self.listed: list[tuple[str, str]] = []
        self.last: RulingAnswer | None = None

    def add(self, names: int, answer: RulingAnswer) -> None:
        self.data["names"] += names
        for field in ("unknown", "unchanged", "visits", "rewarded", "changed"):
            self.data[field] += getattr(answer, field)
        self.listed += [(str(each), "unknown") for each in answer.unknown_listed]
        self.listed += [(str(each), "already ruled") for each in answer.unchanged_listed]
        self.last = answer

    def sentences(self) -> list[str]:
        done = {"void": "voided", "retract": "retracted", "hold": "held", "release": "released"}
        found, word = self.data, done[self.verdict]
        were = "would be" if self.preview else "was" if found["changed"] == 1 else "were"
        what = "visit" if self.verdict in ("void", "release") else "reward"
        unknown, same = found["unknown"], found["unchanged"]
        return [
            f"{number_of(found['changed'], what)} {were} {word}, of "
            f"{number_of(found['visits'], 'visit')} that {number_of(found['names'], 'name')} "
            f"{'selects' if found['names'] == 1 else 'select'}.",
            f"{number_of(unknown, 'name')} {'is' if unknown == 1 else 'are'} unknown, and "
            f"{count(same)} {'has' if same == 1 else 'have'} nothing that is not {word} already.",
            *(self.last.notes if self.last is not None else ()),
        ]


def _rule(verdict: str, experiment: str, file: str, by: str, given: RulingOptions) -> None:
    from armrace.limits import read_moment
    from armrace.offline.identifiers import IdentifierFile, selector_of
    from armrace.simulation.progress import progress_bar
    from armrace_client.operations import LARGEST_RULING

    selected = selector_of(by)
    check_targets(given.json, given.report, force=given.force)
    texts = {name: getattr(given, name) for name in ("since", "until")}
    times = {
        name: None if text is None else read_moment(name, text) for name, text in texts.items()
    }
    with _readable(file) as path:
        read = IdentifierFile(path, by, given.column, given.reason_column)
        for sentence in read.report.sentences():
            say(sentence)
        found = _Sum(verdict, experiment, preview=given.preview)
        again = "; what was ruled stays, and the same command does the rest."
        with (
            _service(given) as service,
            explained_interrupt(again),
            progress_bar("names", None, _SECONDS_FOR_SPEED) as bar,
        ):
            rule: Callable[..., RulingAnswer] = getattr(service, verdict)
            for part in read.parts(LARGEST_RULING - _OVERHEAD):
                names = part.identifiers
                why = {"reason": given.reason, "reasons": part.reasons}
                listed = len(names) if given.report is not None else 0
                more = {
                    **selected(names),
                    **why,
                    **times,
                    "preview": given.preview,
                    "listed": listed,
                }
                found.add(len(names), rule(experiment, **more))
                bar(found.data["names"] / read.report.used)
    _tell(found, given)


def _tell(found: _Sum, given: RulingOptions) -> None:
    if given.report is not None:
        from armrace.files import write_text
        from armrace.files.spreadsheets import csv_text

        write_text(given.report, csv_text([("name", "status"), *found.listed]))
    if given.json is not None:
        write_json(given.json, found.data)
    if given.json != STANDARD_OUTPUT:
        for sentence in found.sentences():
            typer.echo(sentence)


@contextmanager
def _readable(file: str) -> Iterator[Path]:
    """Yield the path of a file; what comes from standard input is written to one first."""
    if file != "-":
        if not Path(file).is_file():
            raise InvalidParameter(f"file must be a file that exists; got {file!r:.100}.")
        yield Path(file)
        return
    with NamedTemporaryFile(prefix="armrace-names-") as kept:
        copyfileobj(sys.stdin.buffer, kept)
        kept.flush()
        try:
            yield Path(kept.name)
        except InvalidParameter as error:
            raise InvalidParameter(str(error).replace(kept.name, "standard input")) from None


@contextmanager
def _service(given: RulingOptions) -> Iterator[Calls]:
    """Yield the service, over HTTP or in this process."""
    if given.store is None:
        from armrace_client import Client

        with Client(given.server or DEFAULT_SERVER, given.key) as client:
            yield client
        return
    from armrace.service.service import is_database, open_service

    if given.server is not None:
        raise InvalidParameter("give a server or a store, not both.")
    if not is_database(given.store) and not Path(given.store).is_file():
        raise InvalidParameter(f"there is no store {given.store}.")
    with open_service(given.store, given.tenant, given.keys) as service:
        yield service
