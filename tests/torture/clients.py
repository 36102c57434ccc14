"""Who uses the simulated service: clients, a holder of leases, and an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from armrace_client.operations import (
    AddArm,
    Decide,
    Delete,
    Finish,
    Hold,
    LeasedVisit,
    Pause,
    PauseArm,
    RecordDecision,
    Release,
    Report,
    Resume,
    ResumeArm,
    RetireArm,
    Retract,
    Reward,
    StartAfresh,
    TakeLease,
    Void,
)

if TYPE_CHECKING:
    from torture.world import World

_SOURCES = ["mill", "site", "app"]
_PLACES = [None, None, {"place": "top"}, {"place": "top", "team": "x"}, {"place": "side"}]
_UNITS = 6
_VALUES = [0.0, 0.5, 1.0]
_CHANGES = [AddArm, PauseArm, PauseArm, ResumeArm, RetireArm]
_NAMES = ["a", "b", "c", "d", "e"]
_RULINGS = [Retract, Void, Void, Hold, Release, Release]


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
        if self.left < 0:
            return
        name = rng.choice(["ads", "ads", "shop", "brief"])
        number = rng.getrandbits(60)
        who: Any = {"request": f"request {number}", **self.world.visitor(name, number)}
        who |= self.world.arms(name, number)
        who["unit"] = f"unit {rng.randrange(_UNITS)}" if rng.random() < 0.3 else None
        who["source"] = rng.choice([None, *_SOURCES])
        who["labels"] = rng.choice(_PLACES)
        by_editor = rng.random() < 0.1
        asked = RecordDecision(name, rng.choice("ab"), **who) if by_editor else Decide(name, **who)
        for _ in range(rng.choice([1, 1, 1, 2])):
            self.world.call(asked, self.decided)

    def decided(self, decision: Any) -> None:
        """Reward a decision, and visit again."""
        world, rng = self.world, self.world.rng
        world.later(rng.randint(100, 300_000), self.visit)
        if isinstance(decision, str):  # a refusal, which the checker judges
            self.refusals += 1
            self.left += self.refusals < 5
            return
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            value = rng.choice(_VALUES)
            reward = Reward(
                decision.decision,
                value,
                rng.choice([None, *_SOURCES]),
                rng.choice([None, None, 0.9]),
                rng.choice(_PLACES),
                {"latency": 1.5 - value} if value else None,
            )
            delay = rng.choice([50, 200, 300_000, 599_000, 800_000])
            world.later(delay, lambda each=reward: world.call(each, _ignore))


class Leaseholder:
    """Draws by leases, and reports: in any order, again, late, with rewards or before them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.left = 3

    def visit(self) -> None:
        """Take a lease."""
        rng = self.world.rng
        self.left -= 1
        if self.left >= 0:
            asked = TakeLease(rng.choice(["ads", "shop", "brief"]), 4, rng.choice([60.0, 900.0]))
            self.world.call(asked, self.use)

    def use(self, lease: Any) -> None:
        """Report some visits of a lease in some order."""
        world, rng = self.world, self.world.rng
        world.later(rng.randint(100, 300_000), self.visit)
        if isinstance(lease, str):
            return
        for _ in range(rng.randint(1, 6)):
            visits = [
                LeasedVisit(
                    rng.randrange(5),
                    rng.choice([None, *_VALUES]),
                    source=rng.choice([None, *_SOURCES]),
                    labels=rng.choice(_PLACES),
                )
                for _ in range(rng.choice([1, 2, 4]))
            ]
            visits = [
                replace(each, **world.visitor(lease.experiment, each.draw)) for each in visits
            ]
            report = Report(lease.experiment, lease.lease, visits)
            delay = rng.choice([10, 1000, 55_000, 62_000, 500_000, 700_000, 950_000])
            for _ in range(rng.choice([1, 1, 2])):
                world.later(delay, lambda each=report: world.call(each, _ignore))


class Administrator:
    """Makes rulings, changes arms and phases, starts afresh, deletes and creates again."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._names = 0

    def begin(self) -> None:
        """Plan what to do, and when."""
        world, rng = self.world, self.world.rng
        for _ in range(rng.randint(3, 8)):
            world.later(rng.randint(100_000, 1_900_000), self._rule)
        for _ in range(rng.choice([0, 0, 1, 4])):
            world.later(rng.randint(0, 1_400_000), self._change_arm)
        for act, share in ((self._pause, 0.3), (self._start_afresh, 0.3), (self._finish, 0.5)):
            if rng.random() < share:
                world.later(rng.randint(0, 1_000_000), act)

    def _reason(self) -> str:
        """Return words by which an event of the log is found."""
        self._names += 1
        return f"change {self._names}"

    def _name(self) -> str:
        return str(self.world.rng.choice(["ads", "ads", "shop"]))

    def _rule(self) -> None:
        rng = self.world.rng
        kind, chosen = rng.choice(_RULINGS), {"sources": [rng.choice(_SOURCES)]}
        if rng.random() < 0.3:
            chosen = {"labels": {"place": "top"}}
        elif rng.random() < 0.1:
            chosen["until"] = self.world.now - 100_000
        more: dict[str, Any] = {"reason": self._reason()}
        if kind in (Hold, Release) and "until" not in chosen:
            more["standing"] = rng.random() < 0.5
        asked = kind(self._name(), **chosen, **more)
        if rng.random() < 0.3:
            preview = kind(asked.name, **chosen, reason=self._reason(), preview=True)
            self.world.call(preview, lambda seen: self._confirm(asked, seen, chosen, more))
        else:
            self.world.call(asked, _ignore)

    def _confirm(self, asked: Any, seen: Any, chosen: Any, more: Any) -> None:
        """Rule on exactly the state that a preview has shown."""
        if isinstance(seen, str):  # a refusal, which the checker judges
            return
        self.world.call(type(asked)(asked.name, **chosen, **more, head=seen.head), _ignore)

    def _change_arm(self) -> None:
        rng = self.world.rng
        kind = rng.choice(_CHANGES)
        arm = rng.choice(_NAMES[3:] if kind is AddArm else _NAMES[:4])
        self.world.call(kind(self._name(), arm), _ignore)

    def _pause(self) -> None:
        world, name = self.world, self._name()
        resume = Resume(name)
        world.call(Pause(name), lambda _: world.later(40_000, lambda: world.call(resume, _ignore)))

    def _start_afresh(self) -> None:
        self.world.call(StartAfresh(self._name(), reason=self._reason()), _ignore)

    def _finish(self) -> None:
        """Finish the brief experiment, delete it, and create it again."""
        world, rng = self.world, self.world.rng
        delete = Delete("brief", without_export=True)

        def create_again(_: Any) -> None:
            world.later(rng.randint(0, 30_000), lambda: world.call(world.create("brief"), _ignore))

        world.call(
            Finish("brief"),
            lambda _: world.later(
                rng.choice([10, 100_000]), lambda: world.call(delete, create_again)
            ),
        )


def _ignore(outcome: Any) -> None:
    pass
