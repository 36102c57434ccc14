"""Small pictures of curves in the terminal, one character for each part of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console

from armrace.simulation import Result

__all__ = ["can_draw", "loss_over_time", "sparkline"]

_BLOCKS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
_PARTS = 6


def can_draw(console: Console) -> bool:
    """Whether the output is a terminal that has block characters; what is piped stays plain."""
    return console.is_terminal and console.encoding.startswith("utf")


def sparkline(values: Sequence[float]) -> str:
    """Draw numbers as blocks between 0 and the largest of them.

    >>> sparkline([8, 4, 2, 1, 0]) == "\u2588\u2585\u2583\u2582\u2581"
    True
    """
    largest = max(values)
    if largest <= 0:
        return _BLOCKS[0] * len(values)
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[round(top * max(0.0, value) / largest)] for value in values)


def loss_over_time(result: Result, measure: str) -> str:
    """Draw the mean loss in each sixth of the run: it falls for a policy that learns."""
    curve = result.curves.group_by("round").mean().sort("round")
    rounds = [0.0, *curve["round"].to_list()]
    losses = [0.0, *curve[measure].to_list()]
    edges = np.linspace(0, result.horizon, _PARTS + 1)
    return sparkline(np.diff(np.interp(edges, rounds, losses)).tolist())
