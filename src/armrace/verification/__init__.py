"""The claims of the paper and of the theory page as experiments that can fail.

Lemmas, theorems and lower bounds are checked on races, guards and regularised leaders under several
attacks, including adaptive ones. A claim is refuted only if chance is a very unlikely explanation.
"""

from armrace.verification.claims import Check
from armrace.verification.verify import ERROR_PROBABILITY, Verification, verify

__all__ = ["ERROR_PROBABILITY", "Check", "Verification", "verify"]
