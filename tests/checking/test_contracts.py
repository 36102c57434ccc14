"""The shipped contract suites, over the whole catalogue."""

from __future__ import annotations

import pytest

from armrace.adversaries import ADVERSARIES
from armrace.checking import ADVERSARY_CHECKS, POLICY_CHECKS
from armrace.policies import POLICIES


@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_keeps_its_contract(name, check):
    check(POLICIES.make(name))


@pytest.mark.parametrize("check", ADVERSARY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ADVERSARIES)
def test_every_attack_keeps_its_contract(name, check):
    check(ADVERSARIES.make(name))
