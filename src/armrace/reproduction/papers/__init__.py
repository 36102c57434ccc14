"""The papers whose experiments are run again, by name."""

from armrace.reproduction.papers.lykouris_mirrokni_paes_leme_2018 import LYKOURIS_2018
from armrace.reproduction.papers.moving_means import TSUCHIYA_2023, ZIMMERT_2021
from armrace.reproduction.papers.online_attacks import JUN_2018, LIU_2019
from armrace.reproduction.papers.xu_kumar_abernethy_2021 import XU_2021
from armrace.reproduction.papers.zeng_2025 import ZENG_2025
from armrace.reproduction.studies import Paper

_LISTED = (LYKOURIS_2018, LIU_2019, JUN_2018, XU_2021, ZIMMERT_2021, TSUCHIYA_2023, ZENG_2025)

PAPERS: dict[str, Paper] = {paper.name: paper for paper in _LISTED}

__all__ = ["PAPERS"]
