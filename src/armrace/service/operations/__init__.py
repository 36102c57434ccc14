"""What the service does for each operation that :mod:`armrace_client.operations` declares."""

from armrace.service.operations import (
    deciding,
    evaluation,
    experiments,
    groups,
    inspection,
    rulings,
)
from armrace.service.work import HANDLERS

__all__ = ["HANDLERS", "deciding", "evaluation", "experiments", "groups", "inspection", "rulings"]
