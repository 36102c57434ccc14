"""Everything needed to write a policy or an attack, in one module.

A policy is a subclass of :class:`Policy` whose ``start`` returns a state, a ``NamedTuple`` of
arrays and numbers, and four functions registered for the state's class by :func:`implement`:
``distribution``, ``choose``, ``assign`` and ``learn``. An attack is a subclass of
:class:`Adversary` with ``corrupt`` and, if it learns from the past, ``observe``. Functions that
they call are marked :func:`inlined`, or :func:`outlined` where a hot loop rarely calls them. All
of them are compiled, and run at the speed of the built-in policies.

There are parts for composed policies, races, intervals, regularised leaders, indices and attacks as
well; the reference of the documentation, under "For policies and attacks of your own", says what
each name is.
"""

from armrace.adversaries import Adversary, Setting
from armrace.adversaries.poisoning import (
    Tally,
    deviation,
    lower_reward,
    make_tally,
    remember_clean,
    tally_play,
)
from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    SAME_ARM,
    Eligible,
    Floats,
    Ticket,
    assign,
    choose,
    corrupt,
    decide,
    distribution,
    distribution_among,
    drop,
    forwards,
    learn,
    looks,
    make_ticket,
    observe,
    stamped,
    unwrap_ticket,
    wrap_ticket,
)
from armrace.kernels.live import check_arm
from armrace.kernels.sampling import (
    choose_by_weights,
    draw_arm,
    restricted_probability,
    total_weight,
)
from armrace.kernels.states import grown_by, index_limits
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits
from armrace.policies import Policy
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.common.divergence import kl, lower_kl, upper_kl
from armrace.policies.indices.argmax import make_argmax, plays_next_arm
from armrace.policies.leaders.barrier import barrier_weights
from armrace.policies.leaders.estimates import (
    LOGARITHMIC_BARRIER,
    TSALLIS_ENTROPY,
    Estimates,
    Solution,
    add_loss,
    draws_from_solution,
    exponential_weights,
    make_estimates,
    make_solution,
    power_weights,
)
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import (
    BERNSTEIN,
    HOEFFDING,
    KL,
    KL_JEFFREYS,
    KL_MIXTURE,
    PAPER,
    Rule,
    ends,
    make_rule,
    paper_rule,
    sharp_rule,
)
from armrace.policies.races.patience import delete_arm
from armrace.policies.races.race import (
    NEVER,
    Race,
    arm_probability,
    arm_with_fewest_plays,
    assign_to_layer,
    cell_of,
    evidence,
    fallback_arm,
    interval,
    layer_at,
    layer_of,
    make_race,
)
from armrace.specification import Confidence

__all__ = [
    "BERNSTEIN",
    "HOEFFDING",
    "KL",
    "KL_JEFFREYS",
    "KL_MIXTURE",
    "LOGARITHMIC_BARRIER",
    "NEVER",
    "NO_ARM",
    "NO_LAYER",
    "PAPER",
    "SAME_ARM",
    "TSALLIS_ENTROPY",
    "Adversary",
    "Confidence",
    "CountingPolicy",
    "Counts",
    "Eligible",
    "Estimates",
    "Floats",
    "Limits",
    "Policy",
    "Race",
    "RacePolicy",
    "Rule",
    "Setting",
    "Solution",
    "Stream",
    "Tally",
    "Ticket",
    "add_loss",
    "arm_probability",
    "arm_with_fewest_plays",
    "assign",
    "assign_to_layer",
    "barrier_weights",
    "cell_of",
    "check_arm",
    "choose",
    "choose_by_weights",
    "corrupt",
    "count_play",
    "decide",
    "delete_arm",
    "deviation",
    "distribution",
    "distribution_among",
    "draw_arm",
    "draws_from_solution",
    "drop",
    "ends",
    "evidence",
    "exponential_weights",
    "fallback_arm",
    "forwards",
    "grown_by",
    "implement",
    "index_limits",
    "inlined",
    "interval",
    "kl",
    "layer_at",
    "layer_of",
    "learn",
    "looks",
    "lower_kl",
    "lower_reward",
    "make_argmax",
    "make_counts",
    "make_estimates",
    "make_race",
    "make_rule",
    "make_solution",
    "make_tally",
    "make_ticket",
    "observe",
    "outlined",
    "paper_rule",
    "plays_next_arm",
    "power_weights",
    "record",
    "remember_clean",
    "restricted_probability",
    "sharp_rule",
    "stamped",
    "tally_play",
    "total_weight",
    "uniform",
    "unwrap_ticket",
    "upper_kl",
    "wrap_ticket",
]
