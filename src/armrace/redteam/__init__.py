"""The red team: a search for the attack that costs a policy most, within a budget."""

from armrace.redteam.efforts import EFFORTS
from armrace.redteam.hunt import redteam
from armrace.redteam.verdict import Verdict

__all__ = ["EFFORTS", "Verdict", "redteam"]
