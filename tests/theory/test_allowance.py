import math

import numpy as np
import pytest
from scipy.optimize import brentq

from armrace.theory import allowance_failure, corruption_allowance, observed_corruption


def test_golden_values():
    log_term = math.log(2 * 10 / 0.1)
    assert log_term == pytest.approx(5.29832, abs=5e-6)
    assert corruption_allowance(1, log_term) == pytest.approx(5.74452, abs=5e-6)
    assert corruption_allowance(2, log_term) == pytest.approx(8.14902, abs=5e-6)


@pytest.mark.parametrize("rho", [1e-9, 0.3, 1.0, 2.0, 1e6])
@pytest.mark.parametrize("log_term", [1e-6, 0.5, 5.0, 40.0, 500.0])
def test_it_is_the_root_of_its_equation(rho, log_term):
    root = brentq(
        lambda c: c * math.log(c / rho) - c + rho - log_term,
        rho * (1 + 1e-15),
        2 * (log_term + 2 * rho),
        xtol=1e-13,
        rtol=1e-14,
    )
    assert corruption_allowance(rho, log_term) == pytest.approx(root, rel=1e-6)
    back = allowance_failure(rho, corruption_allowance(rho, log_term))
    assert back == pytest.approx(math.exp(-log_term), rel=1e-6)


def test_no_log_term_leaves_no_room():
    assert corruption_allowance(1, 0) == pytest.approx(1, abs=1e-6)
    assert allowance_failure(1, 0.5) == 1


@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_the_sharp_root_is_below_the_papers_lemma(delta):
    assert corruption_allowance(1, math.log(1 / delta)) < observed_corruption(delta)


def test_a_sampled_budget_stays_within_it():
    # 100 units of corruption, each met with probability 1/100: binomial.
    met = np.random.default_rng(5).binomial(100, 0.01, 200_000)
    for delta in (0.1, 0.01, 0.001):
        assert np.mean(met > corruption_allowance(1, math.log(1 / delta))) <= delta
