"""A target that is cheap to attack, and an effort that is cheap to spend."""

import pytest

from armrace.environments import Bernoulli
from armrace.policies import POLICIES
from armrace.red_team.target import SearchBudget, Target


@pytest.fixture(scope="session")
def target():
    return Target(
        policy=POLICIES.make("ucb1"),
        environment=Bernoulli(means=(0.4, 0.6)),
        budget=30.0,
        horizon=2000,
    )


@pytest.fixture(scope="session")
def effort():
    return SearchBudget(
        rungs=((40, 1), (8, 2)),
        parents=2,
        children=3,
        generations=2,
        replications=2,
        finalists=2,
        selecting=4,
        confirming=10,
    )
