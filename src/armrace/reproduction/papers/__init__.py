"""The papers whose experiments are run again, by name."""

from armrace.reproduction.papers.lykouris_mirrokni_paes_leme_2018 import LYKOURIS_2018
from armrace.reproduction.papers.online_attacks import JUN_2018, LIU_2019
from armrace.reproduction.studies import Paper

PAPERS: dict[str, Paper] = {paper.name: paper for paper in (LYKOURIS_2018, LIU_2019, JUN_2018)}

__all__ = ["PAPERS"]
