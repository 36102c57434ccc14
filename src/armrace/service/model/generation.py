"""One learner of an experiment, from its start to the next fresh start.

An experiment starts a new generation where its policy cannot go on: when an arm is added that the
policy cannot accept, when one is retired without which it cannot go on, when a guessed horizon is
reached, and when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from armrace.errors import DamagedFile
from armrace.kernels.generics import Ticket, is_restrictable
from armrace.online import Decision, Learner
from armrace.service.model.rewards import RewardScale
from armrace.service.model.settings import Settings
from armrace.service.model.visits import Visit

__all__ = ["Generation", "GenerationData", "can_restrict"]

_SEED_STEP = 1_000_003
"""Seeds of consecutive generations differ by this; any number that makes them differ would do."""
_SEEDS = 2**63


class GenerationData(msgspec.Struct, frozen=True, array_like=True):
    """A generation as plain data."""

    number: int
    places: list[int]
    learner: bytes


def can_restrict(settings: Settings) -> bool:
    """Whether decisions of the policy can be restricted to some arms."""
    return is_restrictable(settings.make_policy().start(2, 1000))


class Generation:
    """A learner, and the places of its arms in the experiment.

    Args:
        number: generations are numbered from 0.
        places: for each arm of the learner, its place among the experiment's arms.
        learner: the learner.
    """

    def __init__(self, number: int, places: list[int], learner: Learner) -> None:
        self.number = number
        self.places = places
        self.learner = learner
        # Where the log says that the random stream is, and where it really is: they are brought
        # together when the next arm is drawn, not at every event that is replayed.
        self._taken = self._skipped = learner.taken

    @classmethod
    def start(
        cls,
        settings: Settings,
        number: int,
        places: list[int],
        horizon: int,
        paused: Sequence[int] = (),
    ) -> Generation:
        """Return a generation with a fresh learner.

        Args:
            settings: the settings of the experiment.
            number: the number of the generation.
            places: the places of its arms among the experiment's.
            horizon: the number of decisions to plan for.
            paused: the places of those arms that it may not choose at first.
        """
        seed = (settings.seed + _SEED_STEP * number) % _SEEDS
        learner = Learner(settings.make_policy(), list(places), horizon, seed, log=False)
        for place in paused:
            learner.pause_arm(place)
        return cls(number, places, learner)

    @property
    def horizon(self) -> int:
        """The number of decisions that the learner plans for."""
        return self.learner.horizon

    @property
    def is_over(self) -> bool:
        """Whether as many decisions were made as the learner plans for."""
        return self.learner.decisions >= self.learner.horizon

    def add_arm(self, place: int) -> None:
        """Add an arm to the learner."""
        self.learner.add_arm(place)
        self.places = [*self.places, place]

    def set_arm(self, place: int, is_active: bool) -> None:
        """Tell the learner that an arm may be chosen from now on, or may not."""
        if place in self.places:
            (self.learner.resume_arm if is_active else self.learner.pause_arm)(place)

    def assign(self, ticket: Ticket, taken: int, is_leased: bool) -> tuple[int, Ticket]:
        """Count a decision of the log; return its number and its completed ticket.

        Args:
            ticket: what was drawn.
            taken: how many random numbers of the learner had been taken by then.
            is_leased: whether it was drawn elsewhere, by weights that were old already.
        """
        self.note_taken(taken)
        number, _, completed = self.learner.recount(ticket, not is_leased)
        return number, completed

    def ticket_of_others(self, place: int, memo: float) -> Ticket | None:
        """Return the ticket of a decision that somebody else made; ``None`` if it teaches nothing.

        A policy that weights rewards by probabilities would take them for its own. A race learns in
        its fast layer: decisions that were not sampled must not reach those that tolerate more.

        Args:
            place: the place of the arm in the experiment.
            memo: a number in [0, 1) by which posteriors round a reward.
        """
        policy = self.learner.policy
        if place not in self.places or (policy.draws_by_weights and not policy.learns_from_others):
            return None
        return Ticket(self.places.index(place), memo=memo)

    @property
    def leases_weights(self) -> bool:
        """Whether decisions can be drawn elsewhere by the weights of a moment."""
        policy = self.learner.policy
        layers = policy.layer_count(len(self.places), self.horizon)
        return policy.draws_by_weights and not policy.learns_from_others and layers == 1

    def note_taken(self, taken: int) -> None:
        """Take note of how many random numbers had been taken when a decision was made."""
        if taken > self._taken:  # noqa: PLR1730  # max() takes three times as long
            self._taken = taken

    def go_back_to(self, taken: int) -> None:
        """Forget draws that led to no decision, so that a replay draws the same numbers next."""
        self.learner.go_back_to(taken)
        self._taken = self._skipped = taken

    def choose(self, places: list[int] | None) -> tuple[Ticket, int]:
        """Draw an arm; return its ticket and how many random numbers have been taken since."""
        self._skip()
        ticket, taken = self.learner.draw(places)
        self._taken = self._skipped = taken
        return ticket, taken

    def _skip(self) -> None:
        """Move the random stream to where the log says; to do so for each event would be slow."""
        if self._taken > self._skipped:
            self.learner.skip_to(self._taken)
            self._skipped = self._taken

    def learn(self, visit: Visit, steps: int | None) -> None:
        """Learn a reward on the grid, or drop the decision if there is none.

        Args:
            visit: the visit.
            steps: its reward on the grid; ``None`` if it is to be dropped.
        """
        ticket = visit.ticket
        if ticket is None or visit.generation != self.number:
            return
        made = Decision(visit.number, self.places[ticket.arm], ticket)
        if steps is None:
            self.learner.drop(made)
        else:
            self.learner.learn(made, RewardScale.learned(steps))

    def still(self) -> Generation:
        """Return the generation as it is now, to be inspected while this one goes on."""
        return Generation(self.number, self.places, self.learner.still())

    def save(self) -> GenerationData:
        """Return the generation as plain data."""
        self._skip()
        return GenerationData(self.number, self.places, self.learner.snapshot().to_bytes())

    @classmethod
    def load(cls, data: GenerationData, settings: Settings) -> Generation:
        """Return a generation that goes on exactly like the one that was saved.

        Args:
            data: what :meth:`save` returned.
            settings: the settings of the experiment.
        """
        policy: Any = settings.make_policy()
        learner = Learner.restore(data.learner, policy, log=False)
        # The digest of a snapshot says that it is whole, not that its parts belong together.
        if learner.arms != data.places:
            raise DamagedFile("the snapshot's learner is not one of its experiment.")
        return cls(data.number, data.places, learner)
