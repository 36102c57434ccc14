"""The claims of the paper as experiments that can fail.

Lemmas, theorems and lower bounds, each tried on every race under several attacks, the adaptive
ones included; a claim is refuted only where chance would hardly ever do so.
"""

from armrace.verification.checks import Check
from armrace.verification.verify import ERROR_PROBABILITY, Verification, verify

__all__ = ["ERROR_PROBABILITY", "Check", "Verification", "verify"]
