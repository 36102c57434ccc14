"""Environments, the sources of rewards; ``ENVIRONMENTS`` is their catalogue."""

from typing import Any

from armrace.catalogue import Catalogue
from armrace.environments.base import Environment

ENVIRONMENTS: Catalogue[Environment] = Catalogue.of_package(
    __name__, Environment, "armrace.environments"
)

__all__ = ["ENVIRONMENTS", "Environment"]
__all__.extend(ENVIRONMENTS.class_names())


def __getattr__(name: str) -> Any:
    """Give the classes of the modules, as in ``from armrace.environments import ...``."""
    return ENVIRONMENTS.class_named(name, __name__)
