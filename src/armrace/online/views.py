"""The state of a learner as its policy shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from armrace.policies import ArmView
from armrace.reports import NotebookView


class ArmViews(list[ArmView], NotebookView):
    """Each layer's view of each arm, which a notebook shows as a table or a matrix."""

    def __init__(self, views: Iterable[ArmView], arms: Sequence[str | int]) -> None:
        super().__init__(views)
        self.names = [str(arm) for arm in arms]
        """The arms' names, in the order of their numbers."""
