"""Planning: how much corruption each policy survives on arms and traffic like yours."""

from armrace.planning.contexts import Contexts, weigh_contexts
from armrace.planning.planner import FromLog, answer, budget_levels, plan, read_traffic
from armrace.planning.plans import Plan
from armrace.planning.question import Question, make_question

__all__ = [
    "Contexts",
    "FromLog",
    "Plan",
    "Question",
    "answer",
    "budget_levels",
    "make_question",
    "plan",
    "read_traffic",
    "weigh_contexts",
]
