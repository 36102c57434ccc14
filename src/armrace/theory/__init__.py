"""The bounds of Lykouris, Mirrokni and Paes Leme (STOC 2018) as functions, constants and all.

Everything here is pure and needs nothing but numbers; what is checked by experiment lives in
:mod:`armrace.verification`. Logarithms are natural; the number of layers is ``ceil(lg T)``.
"""

from armrace.theory.allowance import allowance_failure, corruption_allowance, observed_corruption

__all__ = ["allowance_failure", "corruption_allowance", "observed_corruption"]
