"""Races with a mistake that a check must find."""

from armrace.policies import EnlargedArmElimination, FastSlowRace
from armrace.policies.races.race import Race


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


class HastySlowLayer(FastSlowRace, frozen=True, tag="hasty-slow-layer"):
    """A Fast-Slow race whose slow layer gets half of the rounds, whatever it was told."""

    def start(self, arms, horizon):
        return FastSlowRace(corruption=2.0, delta=self.delta).start(arms, horizon)


class EagerElimination(EnlargedArmElimination, frozen=True, tag="eager-elimination"):
    """Enlarged arm elimination that leaves no room for the corruption it was told."""

    def start(self, arms, horizon):
        return EnlargedArmElimination(corruption=0.0, delta=self.delta).start(arms, horizon)
