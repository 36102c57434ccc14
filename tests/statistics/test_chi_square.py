"""The tail of the chi-square distribution, against SciPy."""

import pytest
from scipy.stats import chi2

from armrace.statistics.distributions import chi_square_tail


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 99, 1000])
@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.5, 0.99, 1.0, 1.01, 2.0, 5.0])
def test_the_tail_is_that_of_scipy(freedom, ratio):
    statistic = ratio * freedom
    expected = chi2.sf(statistic, freedom)
    assert chi_square_tail(statistic, freedom) == pytest.approx(expected, rel=1e-9, abs=1e-12)
