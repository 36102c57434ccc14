"""Contract suites, shipped so that users can check policies, attacks and stores of their own."""

from armrace.checking.adversaries import ADVERSARY_CHECKS, check_adversary
from armrace.checking.contract import ContractBroken
from armrace.checking.policies import POLICY_CHECKS, GuaranteeCheck, check_guarantee, check_policy
from armrace.checking.stores import STORE_CHECKS, check_store
from armrace.simulation.reference import ReferenceRun, run_reference

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
