"""``armrace attacks``."""

from __future__ import annotations

from armrace.cli.catalogue import show
from armrace.cli.options import Force, Json

__all__ = ["attacks"]


def attacks(json: Json = None, force: Force = False) -> None:
    """The attacks, their parameters and where they come from."""
    from armrace.adversaries import ADVERSARIES

    show(ADVERSARIES.values(), "--attack-set", json, force=force)
