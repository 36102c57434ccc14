"""Read back whatever has a ``save``: a result, a comparison or a replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from armrace.errors import DamagedFile
from armrace.simulation.storage import load as load_result
from armrace.simulation.storage import load_comparison


def load(path: str | Path) -> Any:
    """Read a file that ``save`` of a result, a comparison or a replay wrote.

    What a file holds is checked before anything is made of it.

    Args:
        path: the file.

    Returns:
        The :class:`~armrace.simulation.Result`, :class:`~armrace.simulation.Comparison` or
        :class:`~armrace.offline.Replay`.

    Raises:
        DamagedFile: the file is missing, damaged, or nothing that armrace saved.
        UnknownName: the file has no means, and the class of its environment is not known here.
    """
    start = b""
    if isinstance(path, (str, Path)) and Path(path).is_file():
        try:
            with Path(path).open("rb") as file:
                start = file.read(2)
        except OSError as error:
            raise DamagedFile(f"cannot read {path}: {error.strerror}.") from error
    if start == b"PK":  # a ZIP archive
        return load_comparison(path)
    if start[:1] == b"{":
        from armrace.offline.results import Replay

        return Replay.load(Path(path))
    return load_result(path)
