"""Random sequences of requests on a database, in both modes, against a model."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from torture.sequences import BUDGET, DATABASES, on_database


@pytest.mark.parametrize("machine", DATABASES, ids=lambda each: each.__name__)
def test_the_service_answers_as_the_model(machine, postgres):
    fewer = settings(BUDGET, max_examples=6)
    run_state_machine_as_test(on_database(machine, postgres.place), settings=fewer)
