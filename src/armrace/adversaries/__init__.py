"""The attacks. ``ADVERSARIES`` is the catalogue that tests, docs and command line read."""

from typing import Any

from armrace.adversaries.base import Adversary, Setting
from armrace.catalogue import Catalogue

ADVERSARIES: Catalogue[Adversary] = Catalogue.of_package(__name__, Adversary, "armrace.attacks")

__all__ = ["ADVERSARIES", "Adversary", "Setting"]
__all__.extend(ADVERSARIES.class_names())


def __getattr__(name: str) -> Any:
    """Give the classes of the modules, as in ``from armrace.adversaries import ...``."""
    return ADVERSARIES.class_named(name, __name__)
