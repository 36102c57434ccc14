"""``armrace policies``."""

from __future__ import annotations

from armrace.cli.catalogue import show
from armrace.cli.options import Force, Json

__all__ = ["policies"]


def policies(json: Json = None, force: Force = False) -> None:
    """The algorithms, their parameters and where they come from."""
    from armrace.policies import POLICIES

    show(POLICIES.values(), "--set", json, force=force)
