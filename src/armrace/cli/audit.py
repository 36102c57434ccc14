"""``armrace audit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from armrace.cli import log_options, options
from armrace.cli.arguments import share
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, write_json
from armrace.errors import ArmraceError, InvalidParameter

EPILOG = """\
[bold]Examples[/bold]

armrace audit sample:open-bandit --arm item_id --reward click

armrace audit clicks.parquet --arm ad --reward click --source network --json -

armrace audit learner.json
"""

Place = Annotated[
    str,
    typer.Argument(
        metavar="LOG|SNAPSHOT",
        help="A log, with its columns; or the snapshot of a learner, without any.",
        show_default=False,
    ),
]
Level = Annotated[
    str,
    typer.Option(
        "--level",
        metavar="NUMBER",
        help="The probability with which anything that the audit says may be wrong.",
    ),
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="The secret that the snapshot was sealed with, if any.",
    ),
]


def audit(
    log: Place,
    arm: log_options.Arm = None,
    reward: log_options.Reward = None,
    time: log_options.Time = None,
    source: log_options.Source = None,
    columns: log_options.ColumnsFile = None,
    rewards: log_options.Rewards = "0,1",
    level: Level = "0.05",
    key_file: KeyFile = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Look for traces of forged feedback in a log of any system, or in a learner's snapshot.

    Of a log, each arm's rewards are taken in the order of the rows: an alarm says that they changed
    over time, came in waves, or that a source pays differently from the others. A snapshot also
    has what the learner kept of its layers.

    No alarm does not prove a log honest: forging that was the same all along leaves no trace.
    """
    bound = share("level", level)
    check_targets(json, force=force)
    found: Any
    if arm is None and reward is None and columns is None:
        found = _audit_snapshot(log, key_file, bound)
    else:
        from armrace.forensics.log_audit import audit_log

        if key_file is not None:
            raise InvalidParameter("key-file is for a snapshot; a log has none.")
        opened = log_options.read_log(
            log, columns, rewards, arm=arm, reward=reward, time=time, source=source
        )
        found = audit_log(opened, bound)
    if json is not None:
        write_json(json, found.to_builtins())
    if json != STANDARD_OUTPUT:
        typer.echo(str(found))


def _audit_snapshot(place: str, key_file: Path | None, level: float) -> Any:
    from armrace.online import Learner

    try:
        data = Path(place).read_bytes()
        key = None if key_file is None else key_file.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"cannot read {error.filename}: {error.strerror}.") from None
    except ValueError:
        raise InvalidParameter(f"cannot read {place!r}: its name is not valid.") from None
    if not data.lstrip()[:1] == b"{" and data[:1] < b"\x80":
        raise InvalidParameter(
            f"{place} is not a snapshot of a learner; for a log, give --arm and --reward."
        )
    try:
        learner = Learner.restore(data, key=key, log=False)
    except ArmraceError as error:
        raise type(error)(f"{place}: {error}") from None
    return learner.audit(level)
