"""The options of commands that read a log: the file and its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from armrace.cli.arguments import numbers, split
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.offline import Log


_PANEL = "Columns"

LogPlace = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="CSV, NDJSON (plain or gzip) or Parquet of any length; "
        "[bold]sample:open-bandit[/bold] is a small one to try.",
        show_default=False,
    ),
]
Arm = Annotated[
    str | None,
    typer.Option(
        "--arm", metavar="COLUMN", help="What was shown: the arm.", rich_help_panel=_PANEL
    ),
]
Reward = Annotated[
    str | None,
    typer.Option("--reward", metavar="COLUMN", help="What it earned.", rich_help_panel=_PANEL),
]
Propensity = Annotated[
    str | None,
    typer.Option(
        "--propensity",
        metavar="COLUMN",
        help="The probability with which the arm was chosen. Without it, all arms are taken to "
        "have been equally likely.",
        rich_help_panel=_PANEL,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="When: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970.",
        rich_help_panel=_PANEL,
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="COLUMN",
        help="Where the feedback came from, such as a network or a partner.",
        rich_help_panel=_PANEL,
    ),
]
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="COLUMN",
        help="The visitor that a row belongs to.",
        rich_help_panel=_PANEL,
    ),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="FILE",
        help='A TOML file with the columns, such as arm = "item_id"; options override it.',
        rich_help_panel=_PANEL,
    ),
]
Rewards = Annotated[
    str,
    typer.Option(
        "--rewards",
        metavar="LOW,HIGH",
        help="The smallest and the largest reward; rows outside are reported.",
        rich_help_panel=_PANEL,
    ),
]


class ColumnOptions(NamedTuple):
    """The options that say which columns of a log are read, and the range of its rewards."""

    arm: Arm = None
    reward: Reward = None
    propensity: Propensity = None
    time: Time = None
    source: Source = None
    unit: Unit = None
    columns: ColumnsFile = None
    rewards: Rewards = "0,1"

    @property
    def names_any(self) -> bool:
        """Whether any column is named, by an option or by a file."""
        return any(each is not None for each in self[:-1])

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :func:`armrace.offline.open_log` besides the log itself."""
        return {**self._asdict(), "rewards": reward_bounds(self.rewards)}


def read_log(place: str, columns: str | None, rewards: str = "0,1", **given: str | None) -> Log:
    """Survey a log whose columns are given by a file, by options, or by both."""
    from armrace.offline import open_log

    return open_log(place, columns, rewards=reward_bounds(rewards), **given)


def reward_bounds(text: str) -> tuple[float, float]:
    """Read the smallest and the largest reward.

    >>> reward_bounds("1,5")
    (1.0, 5.0)
    """
    parts: list[Any] = numbers("rewards", text) if len(split(text)) == 2 else []
    if len(parts) != 2 or not parts[0] < parts[1]:
        raise InvalidParameter(
            f"rewards must be the smallest and the largest reward, as 0,1; got {text!r}."
        )
    return parts[0], parts[1]
