"""Policies with a mistake that a check must find."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from armrace.policies import EnlargedArmElimination
from armrace.policies.races.race import Race


def broken(kind: Any, mistakes: Mapping[str, Callable[[Any], Any]], prefix: str = "broken") -> Any:
    """Return the class of policies that are of a kind, with a mistake in their running state.

    It has the guarantee of the class from which it derives.
    """

    class Broken(kind, frozen=True, tag=f"{prefix}-{kind.tag()}"):
        """A policy with a mistake."""

        mutation: Annotated[str, "the mistake"] = next(iter(mistakes))

        def start(self, arms: int, horizon: int, *shape: Any) -> Any:
            return mistakes[self.mutation](super().start(arms, horizon, *shape))

        def inspect(self, state: Any) -> Any:
            return super().inspect(getattr(state, "inspected", state))

    return Broken


def scaled(policy: EnlargedArmElimination, arms: int, horizon: int, factor: float) -> Race:
    """Enlarged arm elimination with its widths times a factor.

    Both parts grow by it if the corruption does and the logarithmic term by its square, which
    is that of another horizon.
    """
    argument = (2 * arms * horizon / policy.delta) ** (factor**2)
    other = EnlargedArmElimination(corruption=policy.corruption * factor, delta=policy.delta)
    return other.start(arms, argument * policy.delta / (2 * arms))


class HalvedWidths(EnlargedArmElimination, frozen=True, tag="halved-widths"):
    def start(self, arms, horizon):
        return scaled(self, arms, horizon, 0.5)


class TripledWidths(EnlargedArmElimination, frozen=True, tag="tripled-widths"):
    def start(self, arms, horizon):
        return scaled(self, arms, horizon, 3.0)


class EagerElimination(EnlargedArmElimination, frozen=True, tag="eager-elimination"):
    """Enlarged arm elimination that leaves no room for the corruption it was told."""

    def start(self, arms, horizon):
        return EnlargedArmElimination(corruption=0.0, delta=self.delta).start(arms, horizon)
