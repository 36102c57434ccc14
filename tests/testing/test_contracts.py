"""The shipped contract suites, over the whole catalogue."""

import pytest

from armrace.adversaries import ADVERSARIES, ZeroBest
from armrace.policies import POLICIES
from armrace.testing import ADVERSARY_CHECKS, POLICY_CHECKS, ContractBroken, check_adversary
from armrace.testing.policies import extremes_leave_it_sound

RELATED = {
    "barbat", "best-of-all-worlds", "broad", "exp3-ix", "exp3-plus-plus", "kl-ucb-cf", "lb-inf-v",
    "log-barrier", "moss", "rucb", "sao", "thompson-cf",
}  # fmt: skip
"""Policies that share the code of their sums, indices or layers with others of the catalogue."""


def tried(name, check):
    """A check of a policy; that of extreme rewards, which compiles it once more, may be long."""
    long = check is extremes_leave_it_sound and name in RELATED
    marks = [pytest.mark.long] if long else []
    return pytest.param(name, check, id=f"{name}-{check.__name__}", marks=marks)


@pytest.mark.parametrize(
    ("name", "check"), [tried(name, check) for name in POLICIES for check in POLICY_CHECKS]
)
def test_every_policy_keeps_its_contract(name, check):
    check(POLICIES.make(name))


@pytest.mark.parametrize("check", ADVERSARY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_every_attack_keeps_its_contract(name, check):
    check(ADVERSARIES.make(name))


class Miser(ZeroBest, frozen=True, tag="miser"):
    """Says that it makes large changes only, and makes smaller ones too."""

    def smallest_cost(self, state, setting):
        return 0.7


def test_an_attack_that_understates_its_changes_is_found_out():
    sentence = r"^miser declares changes of 0\.7 or more, and makes one of 0\.3\.$"
    with pytest.raises(ContractBroken, match=sentence):
        check_adversary(Miser())
