"""The figures that a seed gives are those of the number beside the version."""

import pytest

import armrace
from pinning import SHIPPED, digest, read_pins


@pytest.mark.parametrize("policy", SHIPPED)
def test_the_number_of_the_figures_is_raised_with_them(policy: str) -> None:
    pins = read_pins()
    assert policy in pins["digests"], f"run make reference, which pins the figures of {policy}"
    assert digest(policy) == pins["digests"][policy], "raise armrace.FIGURES"
    assert pins["figures"] == armrace.FIGURES, "run make reference"
