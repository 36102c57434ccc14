"""The library of winners: the worst attacks that searches have found, for each policy.

A search begins with them, and a comparison can show each policy under its own. The library is
written by docs/library.py from the searches of ``armrace arena --worst``.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from armrace.adversaries import ADVERSARIES, Adversary, Setting

if TYPE_CHECKING:
    from armrace.red_team.target import Target

__all__ = ["KINDS", "Winner", "kind_of", "load_library", "winners_for"]

KINDS = ("two-arms", "several-arms", "low-rates", "many-arms", "graded")
"""Kinds of environments, for which attacks differ."""

_MANY, _LOW = 50, 0.15
_MOST_WINNERS = 24


class Winner(msgspec.Struct, frozen=True, kw_only=True):
    """An attack that won a search, where it did, and its figures on held-out seeds."""

    policy: str
    kind: str
    budget: float
    horizon: int
    attack: dict[str, Any]
    mean: float
    stderr: float

    def make(self) -> Adversary:
        """The attack."""
        return ADVERSARIES.make(self.attack)


@cache
def load_library() -> tuple[Winner, ...]:
    """Return all winners that come with the package."""
    text = files("armrace.red_team").joinpath("winners.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Winner, ...])


def kind_of(setting: Setting) -> str:
    """Return the kind of environment, one of ``KINDS``.

    >>> clicks = np.array([[0.0, 1.0]] * 2)
    >>> [kind_of(Setting(np.array(m), 9, 1.0, support=clicks)) for m in ([0.6, 0.4], [0.05, 0.03])]
    ['two-arms', 'low-rates']
    """
    if setting.support is None or not np.isin(setting.support, (0.0, 1.0)).all():
        return "graded"
    if setting.means.max() < _LOW:
        return "low-rates"
    if setting.arms >= _MANY:
        return "many-arms"
    return "two-arms" if setting.arms == 2 else "several-arms"


def winners_for(target: Target) -> list[Adversary]:
    """Return the winners that are most like ``target``: of the same policy, then of others."""
    policy, setting = target.policy.tag(), target.setting()
    kind = kind_of(setting)
    share = np.log(target.budget / target.horizon)

    def distance(winner: Winner) -> tuple[bool, bool, float]:
        gap = abs(float(np.log(winner.budget / winner.horizon) - share))
        return winner.policy != policy, winner.kind != kind, gap

    nearest = sorted(load_library(), key=distance)
    return list(dict.fromkeys(winner.make() for winner in nearest))[:_MOST_WINNERS]
