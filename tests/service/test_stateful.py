"""Random sequences of requests on stores in memory and in files, against a model."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from torture.sequences import BUDGET, FILES, SqliteRequests


@pytest.mark.parametrize("machine", FILES, ids=lambda each: each.__name__)
def test_the_service_answers_as_the_model(machine):
    fewer = settings(BUDGET, max_examples=10) if issubclass(machine, SqliteRequests) else BUDGET
    run_state_machine_as_test(machine, settings=fewer)
