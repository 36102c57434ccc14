"""The theory page read a second time: its tables from the formulas alone, its steps by trial.

Nothing here uses ``armrace.theory``. Formulas are typed in from the page, roots are found by
bisection, and every inequality of the proofs about the barrier, the guard and Proposition L is
tried on random instances, with edges of its range among them.
"""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from textbook_barrier import Sums, bisect, curvature, spread, zeta

PAGE = (Path(__file__).parents[2] / "docs" / "theory.md").read_text()
RANDOM = np.random.default_rng(20)


def section(title):
    return PAGE.split(f"### {title}")[1].split("\n### ")[0]


def rows(title):
    """The rows of a table: arms, gap, horizon and the other cells as numbers, None for a dash."""
    found = []
    for line in section(title).splitlines():
        match = re.match(r"\| (\d+), ([\d.]+), \$10\^\{?(\d+)\}?\$ \|(.*)\|", line)
        if match:
            cells = [cell.strip().replace(",", "") for cell in match[4].split("|")]
            numbers = [None if cell == "-" else int(cell) for cell in cells]
            found.append((int(match[1]), float(match[2]), 10 ** int(match[3]), numbers))
    assert len(found) >= 5
    return found


# --- the barrier ----------------------------------------------------------------------------


def closed_form(arms, gap, horizon, corruption, g, beta, k):
    """The barrier theorem for equal gaps, the least over a fine grid of theta."""
    q, log, w = curvature(g, k), math.log(horizon), spread(arms, horizon)
    found = []
    for theta in np.geomspace(1e-3, 10, 4001) if k else (0.0,):
        second = 2 * (1 + theta) * q / math.sqrt(beta)
        first = math.sqrt(beta) + second + k * math.sqrt(w / log)
        root = first * math.sqrt((arms - 1) * log / gap) + second * math.sqrt(log / gap)
        s = 2 * corruption + (arms - 1) * (g * log + 1 + 2 * k)
        if k:
            s += (1 + 1 / theta) * q * k**2 * arms * (w / 4 + 1 / horizon) / g
        found.append((root + math.sqrt(root**2 + 4 * s)) ** 2 / 4)
    return min(found)


def test_the_constants_that_the_text_quotes():
    second = 2 * curvature(2.0, 0.0)
    assert 1 + 2 * second == pytest.approx(4.09, abs=5e-3)
    assert (1 + 2 * second) ** 2 == pytest.approx(16.74, abs=0.02)
    assert "16.74" in section("In expectation")
    assert closed_form(2, 0.2, 10**5, 0, 2.0, 0.25, 0.5) == pytest.approx(4149, abs=1)
    assert Sums([0.5, 0.3], 10**5, 0, 0.5).largest() == pytest.approx(1025, abs=1)
    for (arms, gap, horizon), bound in {(2, 0.2, 10**5): 509, (10, 0.1, 10**6): 6763}.items():
        means = [0.5] + [0.5 - gap] * (arms - 1)
        sums = Sums(means, horizon, 0, 0.0, beta=1.0, lb=True)
        assert sums.largest() == pytest.approx(bound, abs=2)
    for quoted in ("4,149", "1,025", "509 and 6,763"):
        assert quoted in section("What the barrier's bound says")


def test_zeta_is_below_its_parabola_as_far_as_steps_go():
    for _ in range(200):
        k = RANDOM.uniform(0, 4)
        g = (1 + k / 2) * RANDOM.uniform(1.001, 5)
        y = np.concatenate(
            [-np.geomspace(1e-6, (1 + k / 2) / g, 200), np.geomspace(1e-6, 1e3, 200)]
        )
        assert np.all(zeta(y) <= curvature(g, k) * y**2 * (1 + 1e-9) + 1e-15)


def test_lemma_1_for_any_predictions_spreads_and_losses():
    """With predictions and spreads that are not those of the policy, and losses at random."""
    for trial in range(30):
        arms, rounds = int(RANDOM.integers(2, 6)), 150
        k = RANDOM.choice([0.0, 0.5, 1.5])
        g, b = (1 + k / 2) * RANDOM.choice([1.05, 2.0]), RANDOM.uniform(0.01, 1.0)
        estimated, variation, variance = np.zeros((3, arms))
        left, allowed, scales = np.zeros(arms), 0.0, None
        u = np.full((arms, arms), 1 / rounds) + np.eye(arms) * (1 - arms / rounds)
        for _ in range(rounds):
            m, v = RANDOM.random(arms), RANDOM.random(arms)
            if trial % 3 == 0:
                m, v = np.round(m), np.round(v)
            expected = estimated + m - k * np.sqrt(variance)
            scales = g + np.sqrt(b * variation)
            above = expected - expected.min()
            d = bisect(lambda x: 1 - (scales / (above + x)).sum(), 1e-12, scales.sum())  # noqa: B023
            p = scales / (above + d)
            losses = RANDOM.integers(0, 2, arms) if trial % 2 else RANDOM.random(arms)
            arm = RANDOM.choice(arms, p=p / p.sum())
            played, e = np.arange(arms) == arm, losses[arm] - m[arm]
            update = m + played * e / p
            grown = variance + v * (1 - p) / p
            x = p * k * (np.sqrt(grown) - np.sqrt(variance))
            assert x.min() >= 0
            assert x.max() <= k / 2 + 1e-12
            y = (e * (played - p) - x) / scales
            assert y.min() >= -(1 + k / 2) / g - 1e-12
            allowed += (scales * zeta(y) + x).sum()
            left += (update * (p - u)).sum(axis=1)
            estimated, variance = estimated + update, grown
            variation = variation + (e * (played - p)) ** 2
        right = -(scales * np.log(u)).sum(axis=1) - g * arms * math.log(arms) + allowed
        assert np.all(left <= right + 1e-7)


def test_lemma_2_for_any_variations():
    for _ in range(300):
        g = RANDOM.uniform(1, 4)
        b = g**2 * RANDOM.uniform(1e-3, 1)
        nu = RANDOM.choice([RANDOM.random(200), np.ones(200), RANDOM.random(200) ** 20])
        sums = np.cumsum(nu)
        scales = g + np.sqrt(b * (sums - nu))
        assert (nu / scales).sum() <= 2 * math.sqrt(sums[-1] / b)


def sequences(count):
    """Adversarial probabilities and spreads of one arm, with the first round as prescribed."""
    for trial in range(count):
        arms = trial % 9 + 2
        rounds = int(RANDOM.integers(2 * arms, 500))
        power = RANDOM.choice([0.1, 1, 8, 40])
        kind = trial % 4
        p = RANDOM.random(rounds) ** power
        if kind == 1:  # a long fall that spreads the logarithm over all rounds
            p = np.geomspace(1 / arms, RANDOM.choice([1e-3, 1e-9, rounds**-2.0]), rounds)
        elif kind == 2:  # at the limit between rare and other rounds, and near 1
            p = RANDOM.choice([rounds**-2.0, rounds**-1.9, 0.5, 1 - 1 / rounds, 0.999], rounds)
        elif kind == 3:  # each round multiplies the variance
            p = (1 / arms) * RANDOM.uniform(1.05, 3) ** -np.arange(rounds, dtype=float)
        p = np.clip(p, 1e-30, 1 - 1e-12)
        v = RANDOM.choice([RANDOM.random(rounds), np.ones(rounds), RANDOM.random(rounds) ** 9])
        p[0], v[0] = 1 / arms, 0.25
        yield arms, rounds, p, v


def test_lemma_3_for_any_probabilities_and_spreads():
    tightest = np.zeros(3)
    for arms, rounds, p, v in sequences(1200):
        k = RANDOM.uniform(0.01, 3)
        variance = np.cumsum(v * (1 - p) / p)
        d = k * np.diff(np.sqrt(variance), prepend=0.0)
        root, w = math.sqrt((v * p * (1 - p)).sum()), spread(arms, rounds)
        u = 1 - (arms - 1) / rounds
        left = np.array([(p * d).sum(), ((p * d) ** 2).sum(), (p * d).sum() - u * d.sum()])
        right = np.array(
            [
                k * (1 + math.sqrt(w) * root),
                k**2 * (w / 4 + 1 / rounds),
                k * (arms - 1) * math.sqrt(2 * (arms - 1) / rounds),
            ]
        )
        assert np.all(left <= right * (1 + 1e-9))
        tightest = np.maximum(tightest, left / right)
    assert tightest[0] > 0.5  # the constants are not idle


def test_stability_is_at_most_its_integral():
    for _ in range(200):
        k = RANDOM.choice([0.0, 0.5, 1.5])
        g, b = (1 + k / 2) * RANDOM.uniform(1.05, 3), RANDOM.uniform(1e-3, 1)
        nu = RANDOM.choice([RANDOM.random(300), np.ones(300), RANDOM.random(300) ** 20])

        def h(variation):
            gamma = g + np.sqrt(b * variation)  # noqa: B023
            return zeta(-(1 + k / 2) / gamma) / (1 + k / 2) ** 2 * gamma  # noqa: B023

        sums = np.cumsum(nu)
        fine = np.linspace(0, sums[-1], 20_001)
        integral = ((h(fine)[1:] + h(fine)[:-1]) / 2 * np.diff(fine)).sum()
        assert np.all(np.diff(h(fine)) < 0)
        assert (h(sums - nu) * nu).sum() <= integral + h(0.0) + 1e-6


def test_lemma_v1_for_any_losses():
    for trial in range(500):
        rounds, rate = int(RANDOM.integers(1, 300)), RANDOM.random()
        y = RANDOM.random(rounds) if trial % 2 else (RANDOM.random(rounds) < rate) * 1.0
        if trial % 5 == 0:
            y = np.sort(y)[:: RANDOM.choice([1, -1])]
        s = np.arange(1, rounds + 1)
        errors = y - (0.5 + np.append(0, np.cumsum(y)[:-1])) / s
        for centre in (0.5, y.mean(), RANDOM.random(), RANDOM.normal()):
            allowed = 2 * (0.5 - centre) ** 2 + ((1 + 1 / s) * (y - centre) ** 2).sum()
            assert (errors**2).sum() <= allowed * (1 + 1e-12)


def test_the_expected_variation_of_a_round():
    """With variances, biases and corruption of any size, by the law of the draw."""
    for _ in range(2000):
        arms = int(RANDOM.integers(2, 6))
        p = RANDOM.dirichlet(np.full(arms, RANDOM.choice([0.05, 1, 10])))
        variance, bias, forged = RANDOM.random((3, arms)) ** RANDOM.choice([1, 6])
        bias, forged = bias**2, forged.max()
        squares = variance + bias + 2 * forged
        nu = p * (1 - p) ** 2 * squares + p**2 * (p @ squares - p * squares)
        s2 = variance.max()
        mixed = s2**2 / 4 / np.maximum(s2 - variance, s2 / 2)
        tau = np.where(s2 <= 2 * variance, variance, mixed)
        assert np.all(tau <= np.maximum(variance, s2 / 2) * (1 + 1e-12))
        for best in range(arms):
            others = np.arange(arms) != best
            clean = np.where(others, tau * p, (tau * p)[others].sum())
            rest = 2 * (p @ bias) + 2 * forged
            assert np.maximum(nu - clean, 0).sum() <= rest * (1 + 1e-9) + 1e-15


# --- the guard ------------------------------------------------------------------------------


def tail(count, p, least):
    """The exact probability that a binomial count is at least ``least``."""
    log_p, log_q = math.log(p), math.log1p(-p)
    return sum(
        math.exp(
            math.lgamma(count + 1)
            - math.lgamma(i + 1)
            - math.lgamma(count - i + 1)
            + i * log_p
            + (count - i) * log_q
        )
        for i in range(least, count + 1)
    )


def test_lemma_7_and_the_most_labels_by_exact_binomial_tails():
    for _ in range(60):
        p, h, moves = 2.0 ** -RANDOM.uniform(1, 6), RANDOM.uniform(0.5, 9), RANDOM.integers(1, 40)
        rounds = math.ceil((moves + h + math.sqrt(h**2 + 2 * moves * h)) / p)
        assert 1 - tail(rounds, p, int(moves)) <= math.exp(-h) + 1e-12
        count = int(RANDOM.integers(20, 800))
        most = count * p + h / 3 + math.sqrt(h**2 / 9 + 2 * count * p * h)
        assert tail(count, p, math.floor(most) + 1) <= math.exp(-h) + 1e-12


# --- Proposition L --------------------------------------------------------------------------
