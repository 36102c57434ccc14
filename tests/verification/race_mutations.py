"""Mistakes in the running state of a race, for the mutants of races and of guards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armrace.kernels.generics import Floats
from armrace.policies.races.race import Race

__all__ = ["lead_by_50", "scale_rule", "with_shares"]


def scale_rule(log_terms: float, allowances: float) -> Callable[[Race], Race]:
    """Return a mistake that multiplies log terms and allowances of all intervals.

    Args:
        log_terms: the factor of the log terms.
        allowances: the factor of the allowances.
    """

    def mutate(race: Race) -> Race:
        rule = race.rule._replace(
            log_lower=race.rule.log_lower * log_terms,
            log_upper=race.rule.log_upper * log_terms,
            allowance=race.rule.allowance * allowances,
        )
        return race._replace(rule=rule)

    return mutate


def lead_by_50(race: Race) -> Race:
    """Put 50 other plays between two turns of a layer.

    Args:
        race: the state of a race.
    """
    return race._replace(leading=np.array([50], dtype=np.int64))


def with_shares(race: Race, share: Floats) -> Race:
    """Draw the layers with other probabilities.

    Args:
        race: the state of a race.
        share: the probabilities, fastest layer first.
    """
    tail = np.append(np.cumsum(share[::-1])[::-1], 0.0)
    return race._replace(share=share, tail=tail)
