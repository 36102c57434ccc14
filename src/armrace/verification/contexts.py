"""Checks of the leaders for contexts: nested cases, the steps of the experts' proof, and bounds.

Paths are played by the policies' own functions, uncompiled. Visitors are of a few kinds; an
adversary that sees the published probabilities fixes the losses of all arms before one is drawn.
An expert's loss is what its advice loses on average, so that a path of experts has the parts of a
leader's path, with experts for arms, and the same lemmas are checked on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory
from armrace.adversaries.by_visitor import WORST_KNOWN
from armrace.environments import Visitors
from armrace.formatting import count, figure
from armrace.kernels.generics import (
    Context,
    ContextShape,
    assign,
    choose,
    distribution,
    learn,
    make_ticket,
    stamped,
)
from armrace.kernels.leaves import row_of
from armrace.policies import ExpertBarrier, LeafBarrier, OptimisticLogBarrier, Policy
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import run_replication
from armrace.statistics.bounded_means import betting_interval
from armrace.theory.barriers import BarrierProof
from armrace.theory.contexts import constants
from armrace.verification.claims import Claim, Judgement, Preset, windows
from armrace.verification.guarantees import label_of
from armrace.verification.leader_guarantees import LEADERS
from armrace.verification.leader_proofs import (
    ADVERSARY,
    BARRIER,
    BUDGET,
    LIKELY,
    LeaderProblem,
    Path,
    PathClaims,
    Sides,
    comparators,
    distance_from_solution,
    errors_of_estimates,
    walk,
)

Floats = npt.NDArray[np.float64]

VISITORS = Visitors(
    vectors=np.array([[0.6, 0.5, 0.5], [0.6, 0.5, -0.5], [0.6, -0.5, 0.5], [0.6, -0.5, -0.5]]),
    means=np.array([[0.7, 0.4, 0.45], [0.6, 0.5, 0.3], [0.3, 0.65, 0.4], [0.4, 0.35, 0.7]]),
    leaves=np.array([0, 0, 1, 1]),
)
"""Two leaves; in each the visitors differ, and no linear function of the vectors tells all."""
_GAP = 0.8
"""So large that the bounds are far below what all rounds can cost."""
_TWO_KINDS = {"vectors": np.array([[0.7, 0.7], [0.7, -0.7]]), "leaves": np.array([0, 1])}
_SEGMENTS = Visitors(means=np.array([[0.9, 0.1], [0.1, 0.9]]), **_TWO_KINDS)
_IN_VAIN = Visitors(means=np.array([[0.9, 0.1], [0.9, 0.1]]), **_TWO_KINDS)
"""Where contexts help nobody: no policy does better than the best single arm."""
_PART = 8
"""How many rounds of leaders that run compiled one of these replaces."""
_ROUNDS_A_UNIT = 100
_WINDOW = 16
_TIE = 1e-7
"""Scores that differ by less may be ordered otherwise by another way to compute them."""


class ContextSubject(NamedTuple):
    """A policy for contexts that is checked, and its label."""

    label: str
    policy: Policy


CHECKED_CONTEXTUAL: tuple[str, ...] = ("leaf-barrier", "expert-barrier")


def find_contextual(policy: Policy) -> ContextSubject | None:
    """Return a policy for contexts as a subject; None for one that has no theorem here."""
    if isinstance(policy, (LeafBarrier, ExpertBarrier)):
        return ContextSubject(label_of(policy), policy)
    return None


class ContextPath(NamedTuple):
    """A path of a contextual policy, a row for each round."""

    contexts: list[Context]
    weights: Floats
    """The published probabilities of arms."""
    losses: Floats
    played: npt.NDArray[np.bool_]
    stated: Floats
    """The probability of the arm as its ticket states it."""
    notes: list[Any]
    """What was read of the state before each decision, and in the end."""

    def of_arms(self) -> Path:
        """The draws of arms as those of a leader."""
        nothing = LeaderProblem(*[self.weights] * 5)
        return Path(
            self.weights, self.losses, self.played, self.stated, nothing, nothing, self.weights
        )


def walk_visits(
    policy: Policy, rounds: int, seed: int, note: Callable[[Any], Any] = lambda state: None
) -> ContextPath:
    """Play a policy on visitors whose best arm and the next are swapped while it is likely."""
    kinds, arms = VISITORS.kinds(), VISITORS.means.shape[1]
    shape = ContextShape(kinds.vectors.shape[1], int(kinds.leaves.max()) + 1)
    start: Any = policy.start
    state = start(arms, rounds, shape)
    inner = getattr(state, "leader", state)  # of one that wraps a policy
    generator, stream = np.random.default_rng(seed), stream_for(seed, Purpose.LEARNER, 0)
    visitors = generator.integers(len(kinds.means), size=rounds)
    losses = (generator.random((rounds, arms)) >= kinds.means[visitors]).astype(np.float64)
    weights, stated = np.empty((rounds, arms)), np.empty(rounds)
    played, notes, budget = np.zeros((rounds, arms), dtype=np.bool_), [], int(rounds * BUDGET)
    contexts = [Context(kinds.vectors[kind], int(kinds.leaves[kind])) for kind in visitors]
    order = np.argsort(-kinds.means, axis=1)
    for number, context in enumerate(contexts):
        distribution(state, weights[number], context)
        notes.append(note(inner))
        lost, (best, next_best) = losses[number], order[visitors[number], :2]
        if budget > 0 and weights[number, best] > LIKELY and lost[best] < lost[next_best]:
            lost[best], lost[next_best] = 1.0, 0.0
            budget -= 1
        ticket = assign(state, choose(state, stream, None, context), context)
        learn(state, ticket, 1.0 - lost[ticket.arm], context)
        played[number, ticket.arm], stated[number] = True, ticket.probability
    return ContextPath(contexts, weights, losses, played, stated, [*notes, note(inner)])


# --- experts --------------------------------------------------------------------------------


class Opinion(NamedTuple):
    """What is read of ``expert-barrier`` before a decision."""

    weights: Floats
    choices: Floats
    predictions: Floats
    losses: Floats
    variations: Floats
    variances: Floats
    spread: Any
    """The mean squared error of predictions; of a path, a number for each round."""


def read_opinion(state: Any) -> Opinion:
    """Read weights and advice of the experts, and what the mixture has booked of them."""
    advice, mixture = state.scratch, state.mixture
    return Opinion(
        weights=advice.weights.copy(),
        choices=advice.choices.copy(),
        predictions=advice.predictions.copy(),
        losses=mixture.losses.copy(),
        variations=mixture.variations.copy(),
        variances=mixture.variances.copy(),
        spread=float(mixture.spread[0]),
    )


class ExpertPath(NamedTuple):
    """A path with experts for arms: the members of :class:`Path` that proofs speak of."""

    visits: ContextPath
    weights: Floats
    """The weights of experts."""
    choices: Floats
    """Their advice: round, expert, arm."""
    predictions: Floats
    losses: Floats
    """What the advice of each expert loses on average."""
    before: LeaderProblem
    after: LeaderProblem
    updates: Floats
    booked: Opinion
    """All that the mixture booked, with a row more than rounds."""

    @property
    def errors(self) -> Floats:
        """The loss of the arm played, minus its prediction."""
        return np.asarray((self.visits.losses - self.predictions)[self.visits.played])

    @property
    def ratios(self) -> Floats:
        """For each expert, its probability of the arm played over that of the mixture."""
        shares = self.choices.transpose(0, 2, 1)[self.visits.played]
        return np.asarray(shares / self.visits.weights[self.visits.played][:, None])

    @property
    def shares(self) -> Floats:
        """``w``: the weight times the surprise."""
        return np.asarray(self.weights * (self.ratios - 1) * self.errors[:, None])

    @property
    def spare(self) -> Floats:
        """``h``: the sum over arms of the squared advice over the probability, less 1."""
        squares = (self.choices**2 / self.visits.weights[:, None, :]).sum(axis=2)
        return np.asarray(np.maximum(squares - 1, 0.0))

    @property
    def optimism_steps(self) -> Floats:
        """How much the optimism grew in each round, times the weight."""
        optimism = np.vstack([self.before.optimism, self.after.optimism])
        return np.asarray(np.diff(optimism, axis=0) * self.weights)


def expert_path(policy: Any, rounds: int, seed: int) -> ExpertPath:
    """Play ``expert-barrier`` and read its path."""
    visits = walk_visits(policy, rounds, seed, read_opinion)
    read = Opinion(*(np.array(column) for column in zip(*visits.notes, strict=True)))
    choices, predictions = read.choices[:-1], read.predictions[:-1]
    problem = LeaderProblem(
        estimated=read.losses,
        predictions=(read.choices * read.predictions[:, None, :]).sum(axis=2),
        optimism=policy.optimism * np.sqrt(read.variances),
        scales=policy.first_scale
        + np.sqrt(policy.scale_growth / math.log(rounds) * read.variations),
        spreads=read.variations,
    )
    return ExpertPath(
        visits=visits,
        weights=read.weights[:-1],
        choices=choices,
        predictions=predictions,
        losses=(choices * visits.losses[:, None, :]).sum(axis=2),
        before=LeaderProblem(*(column[:-1] for column in problem)),
        after=LeaderProblem(*(column[-1] for column in problem)),
        updates=np.diff(read.losses, axis=0),
        booked=read,
    )


def mixture_of_advice(path: ExpertPath) -> Floats:
    """How far the law of arms is from the mixture, and a ticket from that law; 0 if neither is."""
    mixed = (path.weights[:, :, None] * path.choices).sum(axis=1)
    stated = path.visits.stated / path.visits.weights[path.visits.played] - 1
    return np.asarray(np.abs(np.column_stack([mixed / path.visits.weights - 1, stated])))


def books_of_experts(path: ExpertPath) -> Floats:
    """How far losses, variations and variances are from their definitions, relative to these."""
    errors, spread = path.errors, [0.25]
    for number, error in enumerate(errors, start=1):
        spread.append(spread[-1] + (min(error**2, 1.0) - spread[-1]) / (1 + number))
    steps = (
        path.before.predictions + path.ratios * errors[:, None],
        path.shares**2,
        np.array(spread[:-1])[:, None] * path.spare,
    )
    booked = (path.booked.losses, path.booked.variations, path.booked.variances)
    return np.column_stack([
        np.abs(found[1:] - np.cumsum(step, axis=0)) / (1 + np.abs(found[1:]))
        for step, found in zip(steps, booked, strict=True)
    ])  # fmt: skip


def advice_of_models(path: ExpertPath, number: int, seed: int) -> Floats:
    """How far linear advice and predictions are from ridge regressions of all rewards so far."""
    arms, off = path.visits.losses.shape[1], []
    rounds = len(path.weights)
    vectors = np.array([context.vector for context in path.visits.contexts])
    for each in sorted(set().union(range(_WINDOW), *windows(rounds, number, _WINDOW, seed))):
        vector, scores, bounds = vectors[each], [], []
        for arm in range(arms):
            seen = np.flatnonzero(path.visits.played[:each, arm])
            matrix = np.eye(vector.size) + vectors[seen].T @ vectors[seen]
            rewards = 1 - path.visits.losses[seen, arm]
            scores.append(vector @ np.linalg.solve(matrix, vectors[seen].T @ rewards))
            width = math.sqrt(vector @ np.linalg.solve(matrix, vector))
            bounds.append(scores[-1] + math.sqrt(path.booked.spread[each]) * width)
        off.append(np.abs(path.predictions[each] - np.clip(1 - np.array(scores), 0, 1)).max())
        for place, values in enumerate((scores, bounds)):
            ahead = max(values) - np.array(values)[path.choices[each, place] > 0].min()
            off[-1] = max(off[-1], 0.0 if ahead < _TIE else ahead)
    return np.array(off)


def advice_of_leaves(path: ExpertPath) -> Floats:
    """How far the leaves' advice is from a leader in each leaf that learns what was drawn."""
    arms, rounds = path.visits.losses.shape[1], len(path.weights)
    alone = [OptimisticLogBarrier().start(arms, rounds) for _ in range(2)]
    off, weights, place = [], np.empty(arms), path.choices.shape[1] - arms - 1
    for number, context in enumerate(path.visits.contexts):
        state, arm = alone[context.leaf], int(path.visits.played[number].argmax())
        distribution(state, weights)
        off.append(np.abs(path.choices[number, place] / weights - 1).max())
        stated = path.visits.stated[number]
        memo = assign(state, make_ticket(arm, 0, stated)).memo
        lost = path.visits.losses[number, arm]
        learn(state, stamped(make_ticket(arm, 0, stated), 0, memo), 1 - lost)
    return np.array(off)


def _proof_of(policy: Any, rounds: int) -> BarrierProof:
    """The constants of the barrier's proof as those of experts: ``W`` is that of two arms."""
    growth = policy.scale_growth / math.log(rounds)
    return BarrierProof(2, rounds, policy.first_scale, growth, policy.optimism)


def bias_of_experts(path: ExpertPath, proof: BarrierProof) -> Sides:
    """Return the sides of lemma 3 (a) for experts."""
    allowed = proof.optimism * (1.5 + np.sqrt(proof.spread * _squares(path)))
    return Sides(path.optimism_steps.sum(axis=0), allowed)


def squares_of_experts(path: ExpertPath, proof: BarrierProof) -> Sides:
    """Return the sides of lemma 3 (b) for experts."""
    left = (path.optimism_steps**2).sum(axis=0)
    return Sides(left, np.full(left.size, proof.squares + proof.optimism**2 / 4))


def _squares(path: ExpertPath) -> Floats:
    """``Q`` of each expert: the sum of ``v q^2 h``."""
    spreads = path.booked.spread[:-1, None]
    return np.asarray((spreads * path.weights**2 * path.spare).sum(axis=0))


def theorem_on_path(path: ExpertPath, policy: Any) -> Sides:
    """Return the regret on estimated losses, and the sums from which the theorem follows."""
    rounds, experts = path.weights.shape
    logarithm, proof = math.log(rounds), _proof_of(policy, rounds)
    variation, squares = (path.shares**2).sum(axis=0), _squares(path)
    given = experts, rounds, policy.first_scale, policy.scale_growth, policy.optimism
    rights = []
    for theta in np.geomspace(1e-3, 10, 30):
        made = constants(*given, float(theta), True)
        factor = made.plays - policy.optimism * math.sqrt(proof.spread / logarithm)
        each = factor * np.sqrt(variation * logarithm)
        each += policy.optimism * np.sqrt(proof.spread * squares)
        best = made.best * np.sqrt(variation * logarithm)
        rights.append(made.offset - (experts - 1) + each.sum() - each + best)
    left = [(path.updates * (path.weights - u)).sum() for u in comparators(experts, rounds)]
    return Sides(np.array(left), np.min(rights, axis=0))


def excess_of_experts(path: ExpertPath) -> Floats:
    """Return, for each round, the variation of experts beyond its bound, in [-1, 2]; mean <= 0."""
    expected = path.weights**2 * path.spare
    return np.asarray((path.shares**2 - expected).sum(axis=1))


# --- claims ---------------------------------------------------------------------------------


def context_claims(subject: ContextSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make all claims about a policy for contexts."""
    yield from context_mechanics_claims(subject, preset, seed)
    yield from _regret_claims(subject, preset, seed)


def context_mechanics_claims(subject: ContextSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Make the claims about how a policy for contexts runs."""
    if isinstance(subject.policy, LeafBarrier):
        return _leaf_claims(subject, preset, seed)
    return _expert_claims(subject, preset, seed)


def _setting(visitors: str, rounds: int, runs: int) -> str:
    return f"{visitors}; {ADVERSARY}; T = {count(rounds)}; {runs} runs"


_FOUR_KINDS = "visitors of four kinds in two leaves"


def _leaf_claims(subject: ContextSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    policy: Any = subject.policy
    default = OptimisticLogBarrier(
        optimism=policy.optimism,
        first_scale=policy.first_scale,
        scale_growth=policy.scale_growth,
    )
    rounds, runs = preset.path_rounds // _PART, preset.replayed_runs
    read = LEADERS[OptimisticLogBarrier].read

    def one_leaf() -> list[Floats]:
        found = []
        for run in range(runs):
            given = preset.path_rounds, seed * 1_000_003 + run
            own = walk(policy, lambda state: read(row_of(state.stack, 0)), *given)
            alone = walk(default, read, *given)
            found.append(
                np.abs(own.weights - alone.weights).sum(axis=1)
                + np.abs(own.updates - alone.updates).sum(axis=1)
            )
        return found

    def alone_in_leaf(path: ContextPath) -> Floats:
        states = [default.start(path.losses.shape[1], rounds) for _ in range(2)]
        weights, off = np.empty(path.losses.shape[1]), []
        for number, context in enumerate(path.contexts):
            state, arm = states[context.leaf], int(path.played[number].argmax())
            distribution(state, weights)
            off.append(np.abs(path.weights[number] - weights).sum())
            ticket = assign(state, make_ticket(arm, 0, weights[arm]))
            learn(state, ticket, 1 - path.losses[number, arm])
        return np.array(off)

    visits = cache(
        lambda: [walk_visits(policy, rounds, seed * 1_000_003 + run) for run in range(runs)]
    )
    setting = _setting(_FOUR_KINDS, rounds, runs)
    checked = PathClaims(subject.label, setting, "Leaf theorem", visits)
    alike = _setting("visitors who are alike", preset.path_rounds, runs)
    single = PathClaims(subject.label, alike, "Leaf theorem", cache(one_leaf))
    yield single.exact(
        "with one leaf it is optimistic-log-barrier, bit for bit", lambda found: found, 0.0
    )
    yield checked.exact(
        "in each leaf it is optimistic-log-barrier on that leaf's visitors, bit for bit",
        alone_in_leaf,
        0.0,
    )


def _expert_claims(subject: ContextSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    policy: Any = subject.policy
    rounds, runs = preset.path_rounds // _PART, preset.replayed_runs
    paths = cache(
        lambda: [expert_path(policy, rounds, seed * 1_000_003 + run) for run in range(runs)]
    )
    setting = _setting(_FOUR_KINDS, rounds, runs)
    checked = PathClaims(subject.label, setting, "Expert theorem", paths)
    for words, distances in (
        (
            "the weights of experts solve the regularised problem of the running state",
            lambda path: distance_from_solution(path, BARRIER),
        ),
        ("arms are drawn from the mixture of what the experts advise", mixture_of_advice),
        ("losses, variations and variances of experts are those of the definition",
         books_of_experts),
        ("linear experts and predictions are those of ridge regressions of all rewards",
         lambda path: advice_of_models(path, preset.windows, seed)),
        ("the leaves' expert is a leader in each leaf that learns what the mixture drew",
         advice_of_leaves),
    ):  # fmt: skip
        yield checked.exact(words, distances)
    yield from checked.draws(lambda path: path.visits.of_arms())
    yield checked.mean(
        "the estimated losses of experts are unbiased, given the past and the losses",
        errors_of_estimates,
    )
    yield checked.mean(
        "the expected variation of an expert is at most q^2 h",
        excess_of_experts,
        most=2.0,
        exact=False,
    )
    proof = _proof_of(policy, rounds)
    if proof.covers:
        yield checked.regret_on_paths(BARRIER, centred=True)
        yield from checked.barrier_lemmas(proof, bias_of_experts, squares_of_experts)
        yield checked.inequality(
            "the regret on estimated losses is at most the sums of the theorem on every path",
            "Expert theorem",
            lambda path: theorem_on_path(path, policy),
        )


def _regret_claims(subject: ContextSubject, preset: Preset, seed: int) -> Iterator[Claim]:
    """Claim the theorems where their bounds are below all that can be lost."""
    policy: Any = subject.policy
    of_leaves, horizon = isinstance(policy, LeafBarrier), preset.horizon
    parameters = policy.first_scale, policy.scale_growth, policy.optimism
    everything = _GAP * horizon
    for attack in (None, *WORST_KNOWN[: preset.searched_attacks]):
        budget = 0.0 if attack is None else horizon / _ROUNDS_A_UNIT
        if of_leaves:
            bound = theory.leaf_regret([[_GAP]] * 2, horizon, budget, *parameters)
        else:
            # The theorem is about the rewards that are shown; the best arm moves by 2 C at most.
            bound = theory.expert_regret(5, horizon, *parameters) + 2 * budget
        if bound >= everything:
            continue
        experiment = make_experiment(
            policy=policy, environment=_SEGMENTS if of_leaves else _IN_VAIN,
            adversary=attack or "none", budget=budget, horizon=horizon,
            replications=preset.runs, seed=seed,
        )  # fmt: skip

        def judge(level: float, experiment: Any = experiment, bound: float = bound) -> Judgement:
            played = [run_replication(experiment, run) for run in range(experiment.replications)]
            # Both are then the pseudo-regret, and never negative.
            sample = np.array([each.leaf_regret[-1] for each in played])
            interval = betting_interval(sample, everything, level)
            over = int((sample > bound).sum())
            return Judgement(sample.size, over, interval, bound, interval.low <= bound)

        against = "the best arm of each leaf" if of_leaves else "the best single arm"
        words = "no attack" if attack is None else f"{attack.first} with C = {count(budget)}"
        yield Claim(
            f"the expected regret against {against} is at most its bound",
            subject.label,
            f"two kinds of visitors, gap {_GAP:g}; {words}; T = {count(horizon)}; "
            f"the bound is {figure(bound)} of {figure(everything)}",
            "mean regret, at most the bound",
            (),
            lambda _, level, judge=judge: judge(level),  # type: ignore[misc]
            "Leaf theorem" if of_leaves else "Expert theorem",
        )
