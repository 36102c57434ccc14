"""Guarantees hold against every attack of the library, and a wrong one is found out."""

import pytest

from armrace.policies import POLICIES, SharpRace
from armrace.policies.base import Guarantee
from armrace.testing import ContractBroken, check_guarantee

NAMES = [
    "sharp-race", "multi-layer-race", "guarded", "optimistic-log-barrier",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("lb-inf", "tsallis-inf")),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_proven_bound_survives_the_library(name):
    checks = check_guarantee(POLICIES.make(name), budgets=[3.0, 30.0], replications=2)
    assert [check.budget for check in checks] == [3.0, 30.0]
    assert not checks[0].is_vacuous
    assert all(check.bound is None or check.worst <= check.bound for check in checks)


class Boastful(SharpRace, frozen=True, tag="boastful-race"):
    """The sharp race with a bound that no policy can keep."""

    def guarantee(self, gaps, horizon, corruption):
        return Guarantee(pseudo_regret=20.0 + corruption / 2, failure=0.05)


class Boasting(SharpRace, frozen=True, tag="boasting-race"):
    """The same, in expectation."""

    def guarantee(self, gaps, horizon, corruption):
        return Guarantee(pseudo_regret=20.0 + corruption / 2, failure=0.0)


@pytest.mark.parametrize("policy", [Boastful(), Boasting()], ids=["likely", "expected"])
def test_a_bound_that_is_too_good_is_refuted(policy):
    with pytest.raises(ContractBroken, match=r"loses .* on average to .*guarantee says 70"):
        check_guarantee(policy, budgets=[100.0], replications=6)


def test_a_policy_without_a_guarantee_promises_nothing():
    (check,) = check_guarantee(POLICIES.make("thompson"), budgets=[30.0], replications=2)
    assert check.bound is None
    assert check.is_vacuous
