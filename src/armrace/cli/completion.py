"""Names for the shell to complete, such as those of policies and attacks.

Every function imports what it needs itself: a shell calls it after each press of the tab key.
"""

from __future__ import annotations

from collections.abc import Iterable


def _complete(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that continue the last one of a list between commas.

    >>> _complete("ucb1,ex", ["exp3", "exp3p", "ucb1"])
    ['ucb1,exp3', 'ucb1,exp3p']
    """
    done, comma, last = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in names if name.startswith(last)]


def complete_policies(incomplete: str) -> list[str]:
    """Policies that begin with these letters."""
    from armrace.policies import POLICIES

    return _complete(incomplete, POLICIES)


def complete_attacks(incomplete: str) -> list[str]:
    """Attacks that begin with these letters."""
    from armrace.adversaries import ADVERSARIES

    return _complete(incomplete, ADVERSARIES)


def complete_environments(incomplete: str) -> list[str]:
    """Environments that begin with these letters."""
    from armrace.environments import ENVIRONMENTS

    return _complete(incomplete, ENVIRONMENTS)


def complete_scenarios(incomplete: str) -> list[str]:
    """Scenarios that begin with these letters."""
    from armrace.simulation import SCENARIOS

    return _complete(incomplete, SCENARIOS)


def complete_measures(incomplete: str) -> list[str]:
    """Measures that begin with these letters."""
    from armrace.simulation.results import MEASURES

    return _complete(incomplete, MEASURES)


def complete_efforts(incomplete: str) -> list[str]:
    """Efforts of a search that begin with these letters."""
    from armrace.red_team.target import EFFORTS

    return _complete(incomplete, EFFORTS)


def complete_objectives(incomplete: str) -> list[str]:
    """Objectives of a search that begin with these letters."""
    from armrace.red_team.target import OBJECTIVES

    return _complete(incomplete, OBJECTIVES)


def complete_executors(incomplete: str) -> list[str]:
    """Executors that begin with these letters."""
    from armrace.simulation.executors import EXECUTORS

    return _complete(incomplete, EXECUTORS)
