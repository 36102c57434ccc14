"""Which columns of a log hold arms, rewards and the rest."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from armrace.errors import InvalidParameter, UnknownName

__all__ = ["Columns", "make_columns", "read_columns"]


class Columns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The names of the columns of a log; those that are ``None`` are not read."""

    arm: str
    """What was shown."""
    reward: str
    """What it earned."""
    propensity: str | None = None
    """The probability with which the logging system chose the arm that it showed."""
    time: str | None = None
    """When it was shown: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970."""
    source: str | None = None
    """Where the feedback came from."""
    unit: str | None = None
    """The visitor, or what else the decision was made for."""

    def named(self) -> dict[str, str]:
        """Return the columns that are read, by their role."""
        given = msgspec.structs.asdict(self)
        return {role: name for role, name in given.items() if name is not None}

    def check(self, present: Iterable[str]) -> None:
        """Refuse a column that the log does not have, and suggest the nearest.

        Args:
            present: the columns of the log.
        """
        names = list(present)
        for role, name in self.named().items():
            if name not in names:
                raise _unknown(role, name, names)


_MOST_NAMED = 12


def _unknown(role: str, name: str, names: list[str]) -> UnknownName:
    """Suggest the nearest column, or name the first few."""
    alike = [each for each in names if each.lower() == name.lower()]
    near = alike or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]!r}?"
    else:
        shown = ", ".join(repr(each)[:60] for each in names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        hint = f"there are {shown}{more}."
    return UnknownName(f"the log has no column {name!r} for the {role}; {hint}")


ROLES = Columns.__struct_fields__


def read_columns(path: Path | str) -> dict[str, str]:
    """Read a mapping of columns from a TOML file, such as ``arm = "item_id"``.

    The names may stand at the top of the file or in a table ``[columns]``.

    Args:
        path: the TOML file.
    """
    try:
        data = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not a TOML file: {error}.") from None
    table = data.get("columns", data)
    if not isinstance(table, dict):
        raise InvalidParameter(f"columns of {path} must be a table; got {table!r}.")
    for role, name in table.items():
        if role not in ROLES:
            raise UnknownName.among(f"role of a column in {path}", role, ROLES)
        if not isinstance(name, str):
            raise InvalidParameter(f"{role} of {path} must be the name of a column; got {name!r}.")
    return dict(table)


def make_columns(
    columns: Columns | Mapping[str, str] | Path | str | None = None, **given: str | None
) -> Columns:
    """Combine a mapping of columns with single names, which have precedence.

    Args:
        columns: a mapping, or the TOML file of one.
        given: names of columns by role; ``None`` where the mapping decides.

    Returns:
        The columns.

    Raises:
        InvalidParameter: the column of the arms or of the rewards is not given.
    """
    known: dict[str, Any] = {}
    if isinstance(columns, Columns):
        known = columns.named()
    elif isinstance(columns, Mapping):
        known = dict(columns)
    elif columns is not None:
        known = read_columns(columns)
    known |= {role: name for role, name in given.items() if name is not None}
    for role in ("arm", "reward"):
        if role not in known:
            raise InvalidParameter(f"the column of the {role} is missing; give --{role} COLUMN.")
    if known["arm"] == known["reward"]:
        raise InvalidParameter(
            f"the arm and the reward must be different columns; both are {known['arm']!r}."
        )
    try:
        return msgspec.convert(known, Columns)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"columns must be names of columns: {error}.") from None
