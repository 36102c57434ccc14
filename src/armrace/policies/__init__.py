"""The algorithms. ``POLICIES`` is the catalogue that tests, docs and command line read."""

from typing import Any

from armrace.catalogue import Catalogue
from armrace.policies.base import ArmView, Policy

POLICIES: Catalogue[Policy] = Catalogue.of_package(__name__, Policy, "armrace.policies")

RECOMMENDED = "optimistic-log-barrier"
"""The policy to use when nothing is known about the corruption; docs/arena.md has the reasons."""

_MANY_ARMS, _LITTLE_OPTIMISM = 30, 0.1

__all__ = ["POLICIES", "RECOMMENDED", "ArmView", "Policy", "in_the_arena", "recommended"]
__all__.extend(POLICIES.class_names())


def in_the_arena() -> tuple[str, ...]:
    """Return the names of the policies that the arena judges.

    Policies for visitors who differ are not among them, nor those that only published experiments
    need.
    """
    return tuple(
        name
        for name, policy in POLICIES.items()
        if not policy.takes_contexts and policy.family != "published"
    )


def recommended(arms: int) -> dict[str, Any]:
    """Return the policy to use for a number of arms when nothing is known about the corruption.

    It is :data:`RECOMMENDED`. Its optimism is paid for with each arm, so where arms are many a
    tenth costs less than the default, with and without attacks: docs/arena.md has the figures.

    Args:
        arms: the number of arms.

    >>> recommended(10), recommended(30)
    ({'name': 'optimistic-log-barrier'}, {'name': 'optimistic-log-barrier', 'optimism': 0.1})
    """
    usual: dict[str, Any] = {"name": RECOMMENDED}
    return {**usual, "optimism": _LITTLE_OPTIMISM} if arms >= _MANY_ARMS else usual


def __getattr__(name: str) -> Any:
    """Give the classes of the modules, as in ``from armrace.policies import ...``."""
    return POLICIES.class_named(name, __name__)
