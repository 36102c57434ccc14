"""Which policies of a plot have a colour: all of a few, the telling ones of many."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["COLOURS", "GREY", "inks"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C6D00", "#3A9BD9", "#333333")
"""After Okabe and Ito, told apart also by the colour-blind; the light ones darkened for text."""

GREY = "#b8b8b8"
"""For all that are there for comparison only."""

_FAMILIAR = ("multi-layer-race", "ucb1", "exp3", "tsallis-inf")
"""One of each kind, looked for first: robust, stochastic, adversarial, best of both."""


def inks(labels: Sequence[str], best_first: Sequence[str]) -> dict[str, str]:
    """The colour of each label: the familiar ones and the best have their own, others are grey.

    >>> inks(["exp3", "ucb1"], best_first=["ucb1", "exp3"])
    {'exp3': '#0072B2', 'ucb1': '#D55E00'}
    >>> many = [f"policy-{i}" for i in range(9)] + ["ucb1"]
    >>> found = inks(many, best_first=many)
    >>> [label for label, ink in found.items() if ink == GREY]
    ['policy-6', 'policy-7', 'policy-8']
    """
    chosen = list(labels)
    if len(labels) > len(COLOURS):
        familiar = [label for label in labels if label.split(" ")[0] in _FAMILIAR]
        chosen = list(dict.fromkeys([*familiar, *best_first]))[: len(COLOURS)]
    ranked = sorted(chosen, key=list(labels).index)
    colours = dict(zip(ranked, COLOURS, strict=False))
    return {label: colours.get(label, GREY) for label in labels}
