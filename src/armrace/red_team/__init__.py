"""The red team: a search for the attack that costs a policy most, within a budget."""

from armrace.red_team.search import redteam, search_cost
from armrace.red_team.target import EFFORTS
from armrace.red_team.verdict import Verdict

__all__ = ["EFFORTS", "Verdict", "redteam", "search_cost"]
