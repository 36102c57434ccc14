"""``armrace environments``."""

from __future__ import annotations

from armrace.cli.catalogue import show
from armrace.cli.options import Force, Json

__all__ = ["environments"]


def environments(json: Json = None, force: Force = False) -> None:
    """The reward laws that arms may have, and their parameters."""
    from armrace.environments import ENVIRONMENTS

    show(ENVIRONMENTS.values(), "--environment-set", json, force=force)
