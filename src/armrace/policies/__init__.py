"""The algorithms. ``POLICIES`` is the catalogue that tests, docs and command line read."""

from typing import Any

from armrace.catalogue import Catalogue
from armrace.policies.base import ArmView, Policy

POLICIES: Catalogue[Policy] = Catalogue.of_package(__name__, Policy, "armrace.policies")

RECOMMENDED = "optimistic-log-barrier"
"""The policy to use when nothing is known about the corruption; docs/arena.md has the reasons."""

__all__ = ["POLICIES", "RECOMMENDED", "ArmView", "Policy"]
__all__.extend(POLICIES.class_names())


def __getattr__(name: str) -> Any:
    """Give the classes of the modules, as in ``from armrace.policies import ...``."""
    return POLICIES.class_named(name, __name__)
