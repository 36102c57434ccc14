"""Planning: how much corruption each policy survives on arms and traffic like yours."""

from armrace.planning.from_log import FromLog, read_traffic
from armrace.planning.planner import answer, budget_levels, plan
from armrace.planning.plans import Plan
from armrace.planning.question import Question, make_question

__all__ = [
    "FromLog",
    "Plan",
    "Question",
    "answer",
    "budget_levels",
    "make_question",
    "plan",
    "read_traffic",
]
