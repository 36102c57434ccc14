"""All that a policy or an attack of your own needs, in one place.

A policy is a subclass of :class:`Policy` whose ``start`` returns a state, a ``NamedTuple`` of
arrays and numbers, and three functions registered for the state's class by :func:`implement`:
``distribution``, ``decide`` and ``learn``. An attack is a subclass of :class:`Adversary` with
``corrupt`` and, if it learns from the past, ``observe``. Functions that they call are marked
:func:`inlined`. All of them run compiled, at the speed of what is built in.
"""

from armrace.adversaries import Adversary, Setting
from armrace.kernels.compiling import inlined
from armrace.kernels.generics import (
    NO_LAYER,
    Floats,
    Ticket,
    corrupt,
    decide,
    distribution,
    implement,
    learn,
    observe,
)
from armrace.kernels.sampling import draw_arm, total_weight
from armrace.kernels.streams import Stream, uniform
from armrace.policies import Policy
from armrace.policies.common.counting_policy import CountingPolicy
from armrace.policies.common.counts import Counts, assign, make_counts, record
from armrace.specification import Confidence, Limits

__all__ = [
    "NO_LAYER",
    "Adversary",
    "Confidence",
    "CountingPolicy",
    "Counts",
    "Floats",
    "Limits",
    "Policy",
    "Setting",
    "Stream",
    "Ticket",
    "assign",
    "corrupt",
    "decide",
    "distribution",
    "draw_arm",
    "implement",
    "inlined",
    "learn",
    "make_counts",
    "observe",
    "record",
    "total_weight",
    "uniform",
]
