"""Published experiments, run again from their own settings."""

from armrace.reproduction.papers import PAPERS
from armrace.reproduction.running import Reproduction, find_paper, reproduce
from armrace.reproduction.studies import Finding, Item, Paper, Reproduced, Statement, Study

__all__ = [
    "PAPERS",
    "Finding",
    "Item",
    "Paper",
    "Reproduced",
    "Reproduction",
    "Statement",
    "Study",
    "find_paper",
    "reproduce",
]
