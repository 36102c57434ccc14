"""Sample paths of leaders, and the steps of the proofs about them as numbers of such a path.

Leaders run by the compiled functions of live traffic. The losses of every arm are known, and an
adversary that sees the published probabilities fixes them before the arm is drawn.

The statements are those of the theory page. A step that holds on every path is given as the two
sides of an inequality, or as what is left of it; one that holds in expectation as a sample whose
mean, given the past and the losses of the round, is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.policies import Policy
from armrace.statistics import Interval
from armrace.statistics.bounded_means import betting_interval
from armrace.theory.barriers import BarrierProof
from armrace.verification.claims import Claim, Judgement
from armrace.verification.mechanics import OpenLearner

Floats = npt.NDArray[np.float64]


class Regulariser(NamedTuple):
    """A potential of a probability, and what follows from it."""

    potential: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    """The derivative of the potential."""
    steepness: Callable[[Floats], Floats]
    """The probability times the second derivative: the change of the slope for a relative change
    of the probability."""
    stability: Callable[[Floats, Floats, Floats], Floats]
    """From probabilities ``p``, surprises ``z`` and scales, the largest value over ``r > 0`` of
    ``z (p - r)`` minus the divergence of ``r`` from ``p``; NaN if there is none."""


def excess_of_logarithm(step: Floats) -> Floats:
    """``y - ln(1 + y)``; NaN for ``y <= -1``, where no bound holds.

    >>> excess_of_logarithm(np.array([0.0, -1.0]))
    array([ 0., nan])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(step > -1, step - np.log1p(step), np.nan)


def _barrier_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    return np.asarray(scale * excess_of_logarithm(z * p / scale))


def _tsallis_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    """Evaluate at the maximiser ``r = p/(1 + y)^2`` with ``y = z sqrt(p) / (2 scale)``."""
    step = z * np.sqrt(p) / (2 * scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(step > -1, 2 * scale * np.sqrt(p) * step**2 / (1 + step), np.nan)


def _entropy_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    return np.asarray(p * scale * (np.expm1(-z / scale) + z / scale))


BARRIER = Regulariser(
    potential=lambda p: -np.log(p),
    slope=lambda p: -1 / p,
    steepness=lambda p: 1 / p,
    stability=_barrier_stability,
)
TSALLIS = Regulariser(
    potential=lambda p: -4 * np.sqrt(p),
    slope=lambda p: -2 / np.sqrt(p),
    steepness=lambda p: 1 / np.sqrt(p),
    stability=_tsallis_stability,
)
ENTROPY = Regulariser(
    potential=lambda p: p * np.log(p),
    slope=lambda p: 1 + np.log(p),
    steepness=np.ones_like,
    stability=_entropy_stability,
)


MEANS = (0.6, 0.4, 0.45)
"""Mean rewards of the arms before corruption."""
ADVERSARY = "two arms swapped while the best is likely"
LIKELY = 0.3
BUDGET = 1 / 25
"""Rounds that the adversary corrupts, as a part of all."""


class LeaderProblem(NamedTuple):
    """The problem that a leader solves for its next decision, from its running state."""

    estimated: Floats
    """Estimated losses."""
    predictions: Floats
    """Predicted losses of the next round; 0 where there are none."""
    optimism: Floats
    """What is subtracted from the estimated losses; 0 where nothing is."""
    scales: Floats
    """The scales of the regulariser; for a learning rate, its reciprocal."""
    spreads: Floats
    """Expected squared errors of the predictions, by which the optimism grows; 0 without."""


Reader = Callable[[Any], LeaderProblem]
"""Reads the running state of a leader."""


class Path(NamedTuple):
    """All that a proof speaks of, a row for each round."""

    weights: Floats
    """The published probabilities."""
    losses: Floats
    """The losses of all arms, after corruption."""
    played: npt.NDArray[np.bool_]
    stated: Floats
    """The probability of the arm, as its decision states it; one number for each round."""
    before: LeaderProblem
    """The problem that the published probabilities solve."""
    after: LeaderProblem
    """The problem of the round after the last one of the path; one row."""
    updates: Floats
    """What the round added to the estimated losses."""

    @property
    def arms(self) -> npt.NDArray[np.int64]:
        """The arm that was played in each round."""
        return np.asarray(self.played.argmax(axis=1))

    @property
    def errors(self) -> Floats:
        """The loss of the arm played, minus its prediction."""
        return np.asarray((self.losses - self.before.predictions)[self.played])

    @property
    def shares(self) -> Floats:
        """``e (1 - p)`` for the arm played and ``-e p`` for the others, with its error ``e``."""
        return np.asarray(self.errors[:, None] * (self.played - self.weights))

    @property
    def optimism_steps(self) -> Floats:
        """How much the optimism grew in each round, times the probability of the arm."""
        optimism = np.vstack([self.before.optimism, self.after.optimism])
        return np.asarray(np.diff(optimism, axis=0) * self.weights)


def walk(policy: Policy, read: Reader, rounds: int, seed: int) -> Path:
    """Play a leader under an adversary that swaps two arms while the best is likely."""
    means, arms = np.array(MEANS), len(MEANS)
    learner = OpenLearner(policy, arms=arms, horizon=rounds, seed=seed, log=False)
    state = getattr(learner.state, "leader", learner.state)  # of one that wraps a leader
    losses = (np.random.default_rng(seed).random((rounds, arms)) >= means).astype(np.float64)
    weights, updates = np.empty((rounds, arms)), np.empty((rounds, arms))
    played, stated = np.zeros((rounds, arms), dtype=np.bool_), np.empty(rounds)
    readings, budget = [], int(rounds * BUDGET)
    following = _copied(read(state))
    for number in range(rounds):
        weights[number] = learner.weights()
        lost = losses[number]
        if budget > 0 and weights[number, 0] > LIKELY and lost[0] < lost[1]:
            lost[0], lost[1] = lost[1], lost[0]
            budget -= 1
        readings.append(following)
        decision = learner.decide()
        arm = decision.ticket.arm
        learner.learn(decision, 1 - lost[arm])
        following = _copied(read(state))
        updates[number] = following.estimated - readings[-1].estimated
        played[number, arm], stated[number] = True, decision.ticket.probability
    before = LeaderProblem(*(np.array(column) for column in zip(*readings, strict=True)))
    return Path(weights, losses, played, stated, before, following, updates)


def _copied(reading: LeaderProblem) -> LeaderProblem:
    """Return a reading that stays as it is while the leader plays on."""
    return LeaderProblem(*(np.array(values) for values in reading))


def replay(path: Path, prescribed: Any, rounds: Container[int]) -> Floats:
    """Return the probabilities that a second implementation gives for the same plays.

    It learns in every round, and solves for the probabilities in some, which takes long.
    """
    found = []
    rewards = 1 - path.losses[path.played]
    plays = zip(path.arms, path.weights, rewards, strict=True)
    # A broken leader may publish 0, by which the second implementation then divides.
    with np.errstate(all="ignore"):
        for number, (arm, weights, reward) in enumerate(plays):
            if number in rounds:
                found.append(prescribed.weights())
            prescribed.learn(int(arm), weights, float(reward))
    return np.array(found)


_TINY = 1e-300
PRECISE = 1e-8
"""The largest relative difference of two computations of a probability."""
ROUNDING = 1e-9


class Sides(NamedTuple):
    """The two sides of an inequality, ``left <= right``, with an entry for each case."""

    left: Floats
    right: Floats

    @property
    def excess(self) -> float:
        """The largest of ``(left - right) / (|left| + |right|)``; 1 if a side is not known.

        >>> Sides(np.array([1.0]), np.array([3.0])).excess
        -0.5
        """
        size = np.maximum(np.abs(self.left) + np.abs(self.right), _TINY)
        return float(np.nan_to_num((self.left - self.right) / size, nan=1.0).max())


# --- how the leader runs --------------------------------------------------------------------


def distance_from_solution(path: Path, regulariser: Regulariser) -> Floats:
    """Return how far probabilities are from the solution of the running state's problem.

    At the minimiser ``E + scale * slope(p)`` is the same for all arms. Differences from the value
    of the likeliest arm are given as the relative change of the probability that removes them, to
    first order.
    """
    before, weights = path.before, path.weights
    expected = before.estimated + before.predictions - before.optimism
    with np.errstate(invalid="ignore", divide="ignore"):
        gradient = expected + before.scales * regulariser.slope(weights)
        rows = np.arange(len(weights))
        off = gradient - gradient[rows, weights.argmax(axis=1)][:, None]
        return np.asarray(np.abs(off / (before.scales * regulariser.steepness(weights))))


def draws_by_weight(path: Path) -> Floats:
    """Return, for each round, by how much the arm drawn was likelier than an arm is on average.

    That is ``p_i - sum p_j^2``, whose mean is 0 if the arm ``i`` is drawn from ``p``. It is
    negative where unlikely arms are drawn too often.
    """
    return np.asarray(path.weights[path.played] - (path.weights**2).sum(axis=1))


def draws_by_change(path: Path) -> Floats:
    """Return, for each round, whether the arm drawn is one that has just become less likely.

    That is ``w_i - sum p_j w_j`` with the weights of the round before minus those of this one, as
    ``w``, scaled to a largest value of 1/2. It is positive where an old distribution is used.
    """
    change = -np.diff(path.weights, axis=0, prepend=path.weights[:1])
    most = np.abs(change).max(axis=1, keepdims=True)
    scaled = np.divide(change, 2 * most, out=np.zeros_like(change), where=most > 0)
    return np.asarray(scaled[path.played] - (path.weights * scaled).sum(axis=1))


def errors_of_estimates(path: Path) -> Floats:
    """Return, for each round, half of the errors of the estimates times the probabilities.

    That is the sum over arms of ``p (estimate - loss)/2``, in [-1, 1], whose mean is 0 if
    the estimates are unbiased. Values beyond [-1, 1], which no unbiased estimate gives, are cut.
    """
    return _weighted_errors(path, np.full_like(path.losses, 0.5))


def signed_errors_of_estimates(path: Path) -> Floats:
    """As :func:`errors_of_estimates`, with the sign of ``loss - 1/2`` in place of 1/2.

    This is the sign of the error of a prediction in (0, 1), so that errors in proportion to it
    add up, whether arms have lost or not.
    """
    return _weighted_errors(path, np.where(path.losses > 0.5, 1.0, -1.0))


def _weighted_errors(path: Path, factors: Floats) -> Floats:
    errors = (factors * path.weights * (path.updates - path.losses)).sum(axis=1)
    return np.asarray(np.clip(np.nan_to_num(errors), -1.0, 1.0))


# --- what the proofs say about one path -----------------------------------------------------


def comparators(arms: int, rounds: int) -> list[Floats]:
    """Return, for each arm, the distribution of playing it in all rounds but one per other arm."""
    found = []
    for best in range(arms):
        comparator = np.full(arms, 1 / rounds)
        comparator[best] = 1 - (arms - 1) / rounds
        found.append(comparator)
    return found


def regret_on_path(path: Path, regulariser: Regulariser, centred: bool) -> Sides:
    """Return the regret on estimated losses and what the leader lemma allows, per comparator."""
    rounds, arms = path.weights.shape
    before, weights, drift = path.before, path.weights, path.optimism_steps
    shift = path.errors[:, None] if centred else 0.0
    steps = drift / weights
    surprises = path.updates - before.predictions - steps - shift
    stability = regulariser.stability(weights, surprises, before.scales).sum()
    grown = np.diff(before.scales, axis=0, prepend=np.zeros((1, arms)))
    penalty = -(grown * regulariser.potential(weights)).sum()
    left, right = [], []
    for comparator in comparators(arms, rounds):
        left.append((path.updates * (weights - comparator)).sum())
        last = before.scales[-1] @ regulariser.potential(comparator)
        right.append(last + penalty + stability + drift.sum() - path.after.optimism @ comparator)
    return Sides(np.array(left), np.array(right))


# --- the barrier's proof --------------------------------------------------------------------


def barrier_steps(path: Path, longest: float, optimism: float) -> Sides:
    """Return the sides of the conditions of barrier lemma 1.

    They are about the largest step down, the largest step of the optimism down, and up, times the
    probability.
    """
    drift = path.optimism_steps
    steps = (path.shares - drift) / path.before.scales
    left = np.array([-steps.min(), -drift.min(), drift.max()])
    return Sides(left, np.array([longest, ROUNDING, optimism / 2]))


def stability_of_scales(path: Path, growth: float) -> Sides:
    """Return the sides of barrier lemma 2 for each arm."""
    variation = path.shares**2
    left = (variation / path.before.scales).sum(axis=0)
    return Sides(left, 2 * np.sqrt(variation.sum(axis=0) / growth))


def bias_of_optimism(path: Path, proof: BarrierProof) -> Sides:
    """Return the sides of barrier lemma 3 (a) for each arm."""
    allowed = proof.optimism * (1 + np.sqrt(proof.spread * _squares(path)))
    return Sides(path.optimism_steps.sum(axis=0), allowed)


def squares_of_optimism(path: Path, proof: BarrierProof) -> Sides:
    """Return the sides of barrier lemma 3 (b) for each arm."""
    left = (path.optimism_steps**2).sum(axis=0)
    return Sides(left, np.full(left.size, proof.squares))


def bias_of_best(path: Path, proof: BarrierProof) -> Sides:
    """Return the sides of barrier lemma 3 (c) for each arm in the part of the best."""
    rounds, arms = path.weights.shape
    share = (arms - 1) / rounds
    left = path.optimism_steps.sum(axis=0) - (1 - share) * path.after.optimism
    return Sides(left, np.full(arms, proof.optimism * (arms - 1) * math.sqrt(2 * share)))


def regret_by_sums(path: Path, proof: BarrierProof) -> Sides:
    """Return the regret on estimated losses and what the theorem by tangents starts from."""
    rounds, arms = path.weights.shape
    variation = np.maximum((path.shares**2).sum(axis=0), _TINY)
    stability = float(proof.stability(variation)[0].sum())
    theta = proof.division(stability)
    each = proof.penalty(variation)[0] + proof.optimism * np.sqrt(proof.spread * _squares(path))
    # A unit for each other arm is what the comparator costs; it is not part of the sums.
    rest = proof.offset() - (arms - 1) + proof.first_steps(theta) + (1 + theta) * stability
    left = [(path.updates * (path.weights - u)).sum() for u in comparators(arms, rounds)]
    return Sides(np.array(left), rest + each.sum() - each)


def errors_of_running_means(path: Path) -> Sides:
    """Return the sides of lemma V1 for each arm, around several numbers."""
    left, right = [], []
    for arm in range(path.weights.shape[1]):
        plays = path.arms == arm
        seen, errors = path.losses[plays, arm], path.errors[plays]
        weights = 1 + 1 / np.arange(1, seen.size + 1)
        for centre in (0.0, 0.5, 1.0, float(seen.mean()) if seen.size else 0.0):
            left.append((errors**2).sum())
            right.append(2 * (0.5 - centre) ** 2 + (weights * (seen - centre) ** 2).sum())
    return Sides(np.array(left), np.array(right))


def _squares(path: Path) -> Floats:
    """``Q`` of each arm: the sum of ``v p (1 - p)``."""
    return np.asarray((path.before.spreads * path.weights * (1 - path.weights)).sum(axis=0))


def excess_variation(path: Path) -> Floats:
    """Return, for each round, the variation of all arms beyond its expected value, in [-1, 2].

    That is the sum over arms of ``nu - p (1 - p)``, whose mean is at most 0.
    """
    expected = path.weights * (1 - path.weights)
    return np.asarray((path.shares**2 - expected).sum(axis=1))


# --- claims ---------------------------------------------------------------------------------


def _swapped(sides: Callable[[Any, BarrierProof], Sides], proof: BarrierProof, path: Any) -> Sides:
    return sides(path, proof)


class PathClaims(NamedTuple):
    """Makes claims about the same paths, which are played when the first claim needs them."""

    policy: str
    setting: str
    theorem: str
    paths: Callable[[], Sequence[Any]]

    def claim(
        self, words: str, measure: str, judge: Callable[[float], Judgement], theorem: str = ""
    ) -> Claim:
        """Make a claim whose judge needs only paths and the level."""
        about = (self.policy, self.setting, measure, ())
        return Claim(words, *about, lambda _, level: judge(level), theorem or self.theorem)

    def exact(
        self, words: str, distances: Callable[[Any], Floats], limit: float = PRECISE
    ) -> Claim:
        """Claim that numbers are never above a limit, in any round of any path."""

        def judge(level: float) -> Judgement:
            with np.errstate(all="ignore"):  # what is not a number counts as wrong
                found = [np.nan_to_num(distances(path), nan=np.inf) for path in self.paths()]
            most = float(max(each.max() for each in found))
            wrong = int(sum((each > limit).sum() for each in found))
            size = sum(map(len, found))
            return Judgement(size, wrong, Interval(most, most), limit, most <= limit)

        measure = "largest difference, " + (f"at most {limit:g}" if limit else "which is 0")
        return self.claim(words, measure, judge)

    def inequality(self, words: str, theorem: str, sides: Callable[[Any], Sides]) -> Claim:
        """Claim that an inequality holds on every path."""

        def judge(level: float) -> Judgement:
            with np.errstate(all="ignore"):  # what is not a number counts as an excess
                excesses = np.array([sides(path).excess for path in self.paths()])
            most, over = float(excesses.max()), int((excesses > ROUNDING).sum())
            return Judgement(excesses.size, over, Interval(most, most), 0.0, over == 0)

        measure = "largest excess of the left side over the right, divided by their sum, at most 0"
        return self.claim(words, measure, judge, theorem)

    def mean(
        self, words: str, *samples: Callable[[Any], Floats], most: float = 1.0, exact: bool = True
    ) -> Claim:
        """Claim that means given the past are 0, or at most 0, jointly; the worst is shown.

        The numbers are within [-1, ``most``].
        """

        def judge(level: float) -> Judgement:
            intervals = []
            for sample in samples:
                with np.errstate(all="ignore"):
                    found = np.concatenate([sample(path) for path in self.paths()])
                found = np.clip(np.nan_to_num(found, nan=most), -1.0, most)
                low, high = betting_interval(found + 1.0, most + 1.0, level / len(samples))
                # Where means given the past differ, no single one may be left.
                intervals.append(Interval(low - 1.0, max(low, high) - 1.0))
            worst = max(intervals, key=lambda each: max(each.low, -each.high))
            holds = worst.low <= 0.0 and (worst.high >= 0.0 or not exact)
            return Judgement(found.size, int(not holds), worst, 0.0, holds)

        return self.claim(words, f"mean, {'equal to' if exact else 'at most'} 0", judge)

    def draws(self, of_arms: Callable[[Any], Path] = lambda path: path) -> Iterator[Claim]:
        """Claim that arms are drawn as published."""
        by_weight = lambda path: draws_by_weight(of_arms(path))  # noqa: E731
        by_change = lambda path: draws_by_change(of_arms(path))  # noqa: E731
        yield self.mean("the arm is drawn with the published probabilities", by_weight)
        yield self.mean("the arm is drawn with the probabilities of its own round", by_change)

    def barrier_lemmas(
        self,
        proof: BarrierProof,
        bias: Callable[[Any, BarrierProof], Sides],
        squares: Callable[[Any, BarrierProof], Sides],
    ) -> Iterator[Claim]:
        """Claim the three lemmas of the barrier's proof."""
        longest, optimism = proof.longest_step / proof.first_scale, proof.optimism
        yield self.inequality(
            "no step of the losses or of the optimism is longer than the proof allows",
            "Barrier lemma 1",
            lambda path: barrier_steps(path, longest, optimism),
        )
        yield self.inequality(
            "the stability is at most the root of the variation",
            "Barrier lemma 2",
            lambda path: stability_of_scales(path, proof.growth),
        )
        if optimism > 0:
            for words, sides in (
                ("the bias of the optimism is at most its bound", bias),
                ("the squared steps of the optimism sum to at most their bound", squares),
                ("the optimism at the end pays for the bias of the best one's", bias_of_best),
            ):
                yield self.inequality(words, "Barrier lemma 3", partial(_swapped, sides, proof))

    def regret_on_paths(self, regulariser: Regulariser, centred: bool) -> Claim:
        """Claim the leader lemma."""
        return self.inequality(
            "the regret on estimated losses is at most penalty plus stability on every path",
            "Leader lemma",
            lambda path: regret_on_path(path, regulariser, centred),
        )
