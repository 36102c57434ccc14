"""The bounds of Lykouris, Mirrokni and Paes Leme (STOC 2018) as functions, with their constants.

The bounds of the sharp race, of the guard and of some regularised leaders are included. Logarithms
are natural; the number of layers is ``ceil(lg T)``.

All functions are pure functions of numbers; checks by experiment are in
:mod:`armrace.verification`. Where a function does not say otherwise, its parameters are

Args:
    arms: the number of arms, ``K``.
    horizon: the number of rounds, ``T``.
    gaps: the gap of every arm except one best arm.
    gap: the gap ``D`` of one arm.
    delta: the probability with which the guarantee of the race or the guard may fail.
    corruption: the corruption ``C`` that is spent.
    layers: the number of layers; by default ``ceil(lg T)``.
    shares: the probability of each layer, fastest first.
    tolerance: the largest share times corruption that a layer tolerates.
    rho: the share of the rounds times the corruption.
    allowance: the corruption for which intervals leave room.
    log_term: the logarithmic term of intervals; minus the logarithm of a failure probability.
    failure: a failure probability.
    first: the corruption for which the first layer of the sharp race is designed, or that a layer
        of the guard expects to meet at most.
    lead: plays of the leader, or of the guard's base, around each turn of a layer.
    most_corruption: the largest corruption that the race is designed for; by default any.
    share: the number ``s`` of the guard: a part ``2^-s`` of the rounds is labelled.
    first_scale: as of ``optimistic-log-barrier``.
    scale_growth: as of ``optimistic-log-barrier``.
    optimism: as of ``optimistic-log-barrier``: how many deviations are subtracted.
    variation: numbers ``N`` of the barrier theorem.
    reduced_variance: whether Tsallis-INF's estimator is that with reduced variance.
    scale: the constant of the learner's bound in Theorems 4 and 5.
    power: the power of the logarithm in that bound.
    epsilon: intervals, and so the switch, begin after at least ``T^epsilon`` rounds.
    epsilon_prime: they end by ``T^epsilon_prime`` rounds; larger than ``epsilon``.
"""

from armrace.theory.barriers import (
    BarrierProof,
    barrier_curvature,
    barrier_proof,
    barrier_regret,
    exp3_any_rewards_regret,
    lb_inf_proof,
    lb_inf_regret,
    tsallis_inf_any_rewards_regret,
    tsallis_inf_regret,
)
from armrace.theory.contexts import expert_regret, leaf_regret
from armrace.theory.eliminations import (
    ForcedRegret,
    clean_switching_regret,
    elimination_log_term,
    fast_slow_log_term,
    fast_slow_regret,
    fast_slow_stochastic_regret,
    forced_positive_regret,
    forced_regret,
    gaps_of,
    known_corruption_regret,
    papers_plays_until_deleted,
    plays_until_deleted,
    sparse_interval_plays,
    survival_failure,
    switching_regret,
)
from armrace.theory.plays import (
    RegretBound,
    allowance_failure,
    corruption_allowance,
    layer_tolerances,
    moves_until_deleted,
    observed_corruption,
    rounds_until_moves,
    tolerated_ratio,
)
from armrace.theory.races import (
    agnostic_regret,
    best_of_all_worlds_regret,
    clean_regret_from,
    hidden_rounds_regret,
    inverse_gap,
    inverse_gap_for_pseudo_regret,
    layer_shares,
    per_arm_regret,
    race_failure,
    race_log_term,
    race_tolerance,
    race_tolerances,
    tolerant_layer,
)
from armrace.theory.sharp import (
    SharpLayer,
    guard_layers,
    guard_overhead,
    guarded_regret,
    most_labelled_rounds,
    price_of_high_probability,
    sharp_layers,
    sharp_plays_until_deleted,
    sharp_regret,
)

__all__ = [
    "BarrierProof",
    "ForcedRegret",
    "RegretBound",
    "SharpLayer",
    "agnostic_regret",
    "allowance_failure",
    "barrier_curvature",
    "barrier_proof",
    "barrier_regret",
    "best_of_all_worlds_regret",
    "clean_regret_from",
    "clean_switching_regret",
    "corruption_allowance",
    "elimination_log_term",
    "exp3_any_rewards_regret",
    "expert_regret",
    "fast_slow_log_term",
    "fast_slow_regret",
    "fast_slow_stochastic_regret",
    "forced_positive_regret",
    "forced_regret",
    "gaps_of",
    "guard_layers",
    "guard_overhead",
    "guarded_regret",
    "hidden_rounds_regret",
    "inverse_gap",
    "inverse_gap_for_pseudo_regret",
    "known_corruption_regret",
    "layer_shares",
    "layer_tolerances",
    "lb_inf_proof",
    "lb_inf_regret",
    "leaf_regret",
    "most_labelled_rounds",
    "moves_until_deleted",
    "observed_corruption",
    "papers_plays_until_deleted",
    "per_arm_regret",
    "plays_until_deleted",
    "price_of_high_probability",
    "race_failure",
    "race_log_term",
    "race_tolerance",
    "race_tolerances",
    "rounds_until_moves",
    "sharp_layers",
    "sharp_plays_until_deleted",
    "sharp_regret",
    "sparse_interval_plays",
    "survival_failure",
    "switching_regret",
    "tolerant_layer",
    "tolerated_ratio",
    "tsallis_inf_any_rewards_regret",
    "tsallis_inf_regret",
]
