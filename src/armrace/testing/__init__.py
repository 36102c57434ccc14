"""Contract suites, shipped so that users can check policies, attacks and stores of their own."""

from armrace.simulation.reference import ReferenceRun, run_reference
from armrace.testing.contract import ADVERSARY_CHECKS, ContractBroken, check_adversary
from armrace.testing.policies import POLICY_CHECKS, GuaranteeCheck, check_guarantee, check_policy
from armrace.testing.stores import STORE_CHECKS, check_store

__all__ = [
    "ADVERSARY_CHECKS",
    "POLICY_CHECKS",
    "STORE_CHECKS",
    "ContractBroken",
    "GuaranteeCheck",
    "ReferenceRun",
    "check_adversary",
    "check_guarantee",
    "check_policy",
    "check_store",
    "run_reference",
]
