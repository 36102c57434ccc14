"""Who uses the simulated service: clients that decide and reward, and an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torture.world import World

__all__ = ["Administrator", "Client"]

_SOURCES, _UNITS = 3, 6
_CHANGES = ["add_arm", "pause_arm", "pause_arm", "resume_arm", "retire_arm"]
_NAMES = ["a", "b", "c", "d", "e"]


class Client:
    """Decides, and says what came of it: once, twice, late, or with another value."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = world.rng.choice([3, 6, 12])
        self.refusals = 0

    def visit(self) -> None:
        """Ask for a decision, sometimes for a unit that others ask for too."""
        rng = self.world.rng
        self.left -= 1
        if self.left >= 0:
            request = f"request {rng.getrandbits(60)}"
            unit = f"unit {rng.randrange(_UNITS)}" if rng.random() < 0.3 else None
            for _ in range(rng.choice([1, 1, 1, 2])):
                self.world.call("decide", (request, unit), self.decided)

    def decided(self, decision: Any) -> None:
        """Reward a decision, and visit again."""
        world, rng = self.world, self.world.rng
        if isinstance(decision, str):  # a refusal, which the checker judges
            self.refusals += 1
            if self.refusals < 5:
                world.later(rng.randint(100, 300_000), self.visit)
            return
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            source = f"source {rng.randrange(_SOURCES)}"
            suspicion = rng.choice([None, None, 0.9])
            arguments = (decision.decision, rng.choice([0.0, 0.5, 1.0]), source, suspicion)
            delay = rng.choice([50, 200, 300_000, 599_000, 800_000])
            world.later(delay, lambda a=arguments: world.call("reward", a, _ignore))
        world.later(rng.randint(100, 300_000), self.visit)


class Administrator:
    """Retracts and releases, changes arms, and pauses the experiment."""

    def __init__(self, world: World) -> None:
        self.world = world

    def begin(self) -> None:
        """Plan what to do, and when."""
        world, rng = self.world, self.world.rng
        for number in range(rng.randint(2, 6)):
            world.later(rng.randint(100_000, 1_600_000), lambda n=number: self._rule(n))
        for _ in range(rng.choice([0, 0, 1, 4])):
            world.later(rng.randint(0, 1_400_000), self._change_arm)
        if rng.random() < 0.3:
            world.later(rng.randint(0, 1_000_000), self._pause)

    def _rule(self, number: int) -> None:
        """Retract or release the rewards of a source; the reason names the ruling."""
        rng = self.world.rng
        kind = rng.choice(["retract", "retract", "release", "preview"])
        arguments = (f"source {rng.randrange(_SOURCES)}", f"ruling {number}")
        self.world.call(kind, arguments, _ignore)

    def _change_arm(self) -> None:
        rng = self.world.rng
        kind = rng.choice(_CHANGES)
        names = _NAMES[3:] if kind == "add_arm" else _NAMES[:4]
        self.world.call(kind, (rng.choice(names),), _ignore)

    def _pause(self) -> None:
        world = self.world
        world.call("pause", (), lambda _: world.later(40_000, self._resume))

    def _resume(self) -> None:
        self.world.call("resume", (), _ignore)


def _ignore(outcome: Any) -> None:
    pass
