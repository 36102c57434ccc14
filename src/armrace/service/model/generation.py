"""One learner of an experiment, from its start to the next fresh start, and how it draws arms.

An experiment starts a new generation where its policy cannot go on: when an arm is added that the
policy cannot accept, when one is retired without which it cannot go on, when a guessed horizon is
reached, and when somebody asks for it.

An arm with the floor ``f`` is chosen with probability ``f + (1 - F) w``, where ``F`` is the sum of
the floors and ``w`` the policy's own probability. That is what is published. Of decisions that a
floor made, the policy learns nothing: it sees its own draws, a share ``1 - F`` of the traffic, with
the probabilities under which it drew them, and its guarantee covers those. A holdout of the share
``h`` that shows an arm with probability ``u`` is a floor ``h u`` to the policy, and leaves
``(1 - h) f`` of the others; from its visits the policy learns as from those of an editor.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

import msgspec
import numpy as np

from armrace.contexts import Code, Schema
from armrace.errors import DamagedFile
from armrace.kernels.generics import Context, Ticket, Visitor
from armrace.learner import Decision, Learner
from armrace.policies.common.counts import LeafPolicy
from armrace.service.model.events import By
from armrace.service.model.settings import RewardScale, Settings
from armrace.service.model.visits import VisitState

_SEED_STEP = 1_000_003
"""Seeds of consecutive generations differ by this; any number that makes them differ would do."""
_SEEDS = 2**63
_MOST_SHARES = 256
"""With more arms than this, events do not carry the probability of every arm."""
_SHARE = np.dtype("<f4")
_LAST = 1000
_MOST_VECTORS = 10_000
"""How many vectors of visitors are kept by their codes."""


class GenerationData(msgspec.Struct, frozen=True, array_like=True):
    """A generation as plain data."""

    number: int
    places: list[int]
    learner: bytes
    trust: list[float] = []


class DrawnArm(NamedTuple):
    """An arm that was drawn, and all that its event must carry."""

    arm: int
    ticket: Ticket | None
    taken: int
    probability: float | None
    shares: bytes
    by: By = "policy"


class Generation:
    """A learner whose arms are named by their places in the experiment; numbered from 0."""

    def __init__(
        self, number: int, learner: Learner, settings: Settings, arm_codes: Sequence[bytes]
    ) -> None:
        self.number = number
        self._arm_codes = arm_codes
        """The code of the features of every arm of the experiment, where arms have some."""
        self.learner = learner
        self._schema = settings.schema
        self._has_experts = settings.schema is not None and learner.experts() is not None
        self._vectors: dict[bytes, np.ndarray] = {}
        self.places = [int(place) for place in learner.arms]
        """For each arm of the learner, its place among the experiment's arms."""
        self.trust: list[float] = []
        """The weight of each expert, if the policy has some: a mean of about the last 1,000
        decisions, in which later ones count more."""
        # Where the log says that the random stream is, and where it really is: they are brought
        # together when the next arm is drawn, not at every event that is replayed.
        self._taken = self._skipped = learner.taken

    @classmethod
    def start(
        cls,
        settings: Settings,
        number: int,
        places: Sequence[int],
        horizon: int,
        arm_codes: Sequence[bytes] = (),
    ) -> Generation:
        """Return a generation with a fresh learner."""
        seed = (settings.seed + _SEED_STEP * number) % _SEEDS
        made = settings.make_policy(), list(places), horizon, seed
        learner = Learner(*made, log=False, shape=settings.shape)
        return cls(number, learner, settings, arm_codes)

    def visitor(self, code: Code | None) -> Visitor:
        """Return what the learner sees of a visitor: a function of the code alone."""
        if code is None or self._schema is None:
            return None
        vector = self._vectors.get(code.features)
        if vector is None:
            if len(self._vectors) >= _MOST_VECTORS:
                self._vectors.clear()
            vector = self._vectors[code.features] = self._vector(self._schema, code.features)
        return Context(vector, code.leaf)

    def _vector(self, schema: Schema, features: bytes) -> np.ndarray:
        if not schema.arm_features:
            return schema.vector(features)
        end, width = 2 * len(schema.features), 2 * len(schema.arm_features)
        starts = (end + width * place for place in self.places)
        # Arms that came after the decision are not part of its code.
        codes = (features[start : start + width] for start in starts)
        own = (self._arm_codes[place] for place in self.places)
        arms = [code or other for code, other in zip(codes, own, strict=True)]
        return schema.vector_of_arms(features[:end], arms)

    @property
    def horizon(self) -> int:
        """The number of decisions that the learner plans for."""
        return self.learner.horizon

    @property
    def looks_at_leaf_alone(self) -> bool:
        """Whether visitors of one leaf are all alike to the policy."""
        return self._schema is None or isinstance(self.learner.policy, LeafPolicy)

    def visitor_of_leaf(self, leaf: int) -> Visitor:
        """Return a visitor of a leaf, for a policy that looks at nothing else."""
        if self._schema is None:
            return None
        return Context(np.zeros(self.learner.shape.dimension), leaf)

    def add_arm(self, place: int, arm_codes: Sequence[bytes]) -> None:
        """Add an arm to the learner; the codes are those of all arms, the new one included."""
        self.learner.add_arm(place)
        self.places = [*self.places, place]
        if arm_codes:  # vectors are longer now
            self._arm_codes, self._vectors = arm_codes, {}

    def set_arm(self, place: int, is_active: bool) -> None:
        """Tell the learner, if it has the arm, that it may choose it from now on, or may not."""
        if place in self.places:
            (self.learner.resume_arm if is_active else self.learner.pause_arm)(place)

    def assign(
        self, ticket: Ticket, taken: int, is_leased: bool, code: Code | None
    ) -> tuple[int, Ticket]:
        """Count a decision of the log; return its number and its completed ticket.

        If it was leased, it was drawn elsewhere, by weights that were old already.
        """
        self.note_taken(taken)
        number, _, completed = self.learner.recount(ticket, not is_leased, self.visitor(code))
        if self._has_experts:
            self._note_experts(number)
        return number, completed

    def _note_experts(self, number: int) -> None:
        found = self.learner.experts()
        assert found is not None
        weights, share = found[1].tolist(), 1.0 / min(number + 1, _LAST)
        # An arm that is new had no weight until now; arms come last.
        before = self.trust + [0.0] * (len(weights) - len(self.trust))
        self.trust = [old + share * (new - old) for old, new in zip(before, weights, strict=True)]

    def ticket_of_others(self, place: int, memo: float) -> Ticket | None:
        """Return the ticket of a decision that somebody else made; ``None`` if it teaches nothing.

        A policy that weights rewards by probabilities would take them for its own. A race learns in
        its fast layer: decisions that were not sampled must not reach those that tolerate more.
        Posteriors round a reward by ``memo``, a number in [0, 1).
        """
        if place not in self.places or self._weights_rewards:
            return None
        return Ticket(self.places.index(place), memo=memo)

    @property
    def _weights_rewards(self) -> bool:
        policy = self.learner.policy
        return policy.draws_by_weights and not policy.learns_from_others

    def note_taken(self, taken: int) -> None:
        """Take note of how many random numbers had been taken when a decision was made."""
        if taken > self._taken:  # noqa: PLR1730  # max() takes three times as long
            self._taken = taken

    def go_back_to(self, taken: int) -> None:
        """Forget draws that led to no decision, so that a replay draws the same numbers next."""
        self.learner.go_back_to(taken)
        self._taken = self._skipped = taken

    def draw(
        self,
        floors: dict[int, float],
        eligible: list[int] | None,
        arms: int,
        place: int | None,
        code: Code | None,
    ) -> DrawnArm:
        """Draw an arm and change nothing but the learner's random stream.

        Only the places in ``eligible`` may be chosen, ``None`` for all of the learner's; ``floors``
        has floors of these. The experiment has ``arms`` arms. ``place`` is the arm that a floor
        has chosen; ``None`` if the policy is to choose.
        """
        visitor = self.visitor(code)
        shares, known = b"", None
        # Only of unrestricted draws: the ratio check compares with the probabilities of all arms.
        if eligible is None and (floors or self.learner.policy.exact_tickets):
            weights = self._weights(floors, arms, visitor)
            known = None if place is None else float(weights[place])
            if arms <= _MOST_SHARES:
                shares = np.asarray(weights, dtype=_SHARE).tobytes()
        if place is not None:
            return DrawnArm(place, None, 0, known, shares, "floor")
        self._skip()
        ticket, taken = self.learner.draw(eligible, visitor)
        self._taken = self._skipped = taken
        place = self.places[ticket.arm]
        known = ticket.probability
        if math.isnan(known):
            known = None
        elif floors:
            own = (1.0 - math.fsum(floors.values())) * known
            known = min(floors.get(place, 0.0) + own, 1.0)
        return DrawnArm(place, ticket, taken, known, shares)

    def _weights(
        self, floors: dict[int, float], arms: int, visitor: Visitor
    ) -> Sequence[float] | np.ndarray:
        """Return the probability of every arm of the experiment, floors included."""
        own = self.learner.weights(visitor)
        if not floors and len(own) == arms:  # the learner's arms are all of the experiment's
            return own
        rest = 1.0 - math.fsum(floors.values())
        by_place = dict(zip(self.places, own.tolist(), strict=True))
        return [floors.get(place, 0.0) + rest * by_place.get(place, 0.0) for place in range(arms)]

    def _skip(self) -> None:
        """Move the random stream to where the log says; to do so for each event would be slow."""
        if self._taken > self._skipped:
            self.learner.skip_to(self._taken)
            self._skipped = self._taken

    def learn(self, visit: VisitState, steps: int | None) -> None:
        """Learn a reward on the grid, or drop the decision if there is none."""
        ticket = visit.ticket
        if ticket is None or visit.generation != self.number:
            return
        made = Decision(visit.number, self.places[ticket.arm], ticket)
        if steps is None:
            self.learner.drop(made)
        else:
            self.learner.learn(made, RewardScale.learned(steps), self.visitor(visit.code))

    def still(self) -> Generation:
        """Return the generation as it is now, to be inspected while this one goes on."""
        self._skip()  # a copy that is saved must not move the stream, which both share
        still = copy(self)
        still.learner = self.learner.still()
        return still

    def save(self) -> GenerationData:
        """Return the generation as plain data."""
        self._skip()
        learner = self.learner.snapshot().to_bytes()
        return GenerationData(self.number, self.places, learner, self.trust)

    @classmethod
    def load(cls, data: GenerationData, settings: Settings, arm_codes: list[bytes]) -> Generation:
        """Return a generation that goes on exactly like the one that was saved."""
        policy, shape = settings.make_policy(), settings.shape
        learner = Learner.restore(data.learner, policy, log=False, shape=shape)
        # The digest of a snapshot says that it is whole, not that its parts belong together.
        if learner.arms != data.places:
            raise DamagedFile("the snapshot's learner is not one of its experiment.")
        generation = cls(data.number, learner, settings, arm_codes)
        generation.trust = data.trust
        return generation


def uniform_at(seed: int, number: int) -> float:
    """Return a number in [0, 1) for the decision of a number, which depends on nothing else.

    >>> f"{uniform_at(seed=1, number=0):.6f}"
    '0.480554'
    """
    digest = hashlib.blake2b(b"%d:%d" % (seed, number), digest_size=8).digest()
    # 53 of 64 bits: as many as a double in [0, 1) can hold evenly.
    return (int.from_bytes(digest, "little") >> 11) / 2**53
