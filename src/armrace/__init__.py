"""Multi-armed bandits whose feedback may be partly corrupted.

The public names are loaded when first used, so that ``import armrace`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

FIGURES = 4
"""Which figures a seed gives: raised whenever a specification and a seed give others."""

_HOMES = {
    "armrace.adversaries": ("ADVERSARIES", "Adversary"),
    "armrace.catalogue": ("register",),
    "armrace.compilation": ("warm_up",),
    "armrace.environments": ("ENVIRONMENTS", "Environment"),
    "armrace.errors": ("ArmraceError",),
    "armrace.policies": ("POLICIES", "Policy"),
    "armrace.red_team": ("Verdict", "redteam"),
    "armrace.offline": ("Replay", "open_log", "replay"),
    "armrace_client": ("AsyncClient", "Client"),
    "armrace.service.service": ("open",),
    "armrace.loading": ("load",),
    "armrace.simulation": ("Comparison", "Result", "compare", "identify", "simulate"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

if TYPE_CHECKING:
    from armrace.adversaries import ADVERSARIES, Adversary
    from armrace.catalogue import register
    from armrace.compilation import warm_up
    from armrace.environments import ENVIRONMENTS, Environment
    from armrace.errors import ArmraceError
    from armrace.offline import Replay, open_log, replay
    from armrace.policies import POLICIES, Policy
    from armrace.red_team import Verdict, redteam
    from armrace.service.service import open  # noqa: A004  as gzip.open and others do
    from armrace.simulation import Comparison, Result
    from armrace.simulation.identification import identify
    from armrace.simulation.simulate import compare, simulate
    from armrace_client import AsyncClient, Client

__all__ = [
    "ADVERSARIES",
    "ENVIRONMENTS",
    "FIGURES",
    "POLICIES",
    "Adversary",
    "ArmraceError",
    "AsyncClient",
    "Client",
    "Comparison",
    "Environment",
    "Policy",
    "Replay",
    "Result",
    "Verdict",
    "compare",
    "identify",
    "load",
    "open",
    "open_log",
    "redteam",
    "register",
    "replay",
    "simulate",
    "warm_up",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module 'armrace' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
