"""The theory page read a second time: its tables from the formulas alone, its steps by trial.

Nothing here uses ``armrace.theory``. Formulas are typed in from the page, roots are found by
bisection, and every inequality of the proofs about the barrier, the guard and Proposition L is
tried on random instances, with edges of its range among them.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

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


def bisect(function, low, high):
    """The place at which an increasing function passes 0."""
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


# --- the barrier ----------------------------------------------------------------------------


def zeta(y):
    return y - np.log1p(y)


def curvature(g, k):
    rho = (1 + k / 2) / g
    return zeta(-rho) / rho**2


def factor(horizon, g, beta, k):
    """The least factor over a fine grid of theta."""
    q, log = curvature(g, k), math.log(horizon)
    spread = math.log(8 * math.e * horizon) / math.sqrt(log)
    theta = np.geomspace(1e-9, 1e6, 400_001)
    bias = 2 * k * (1 + (1 + 1 / theta) * q * k / (2 * g)) * spread
    return float((math.sqrt(beta) + 4 * (1 + theta) * q / math.sqrt(beta) + bias).min())


def barrier_bound(arms, gap, horizon, corruption, g, beta, k):
    """The largest ``X`` with ``X <= S + a sqrt(X Z)``, or the bound without gaps."""
    a, log = factor(horizon, g, beta, k), math.log(horizon)
    z, extra = (arms - 1) * log / gap, (arms - 1) * (g * log + 1)
    s = 2 * corruption + extra
    largest = bisect(lambda x: x - s - a * math.sqrt(x * z), s, 1e15)
    return min(largest, s + a * math.sqrt((arms - 1) * horizon * log))


@pytest.mark.parametrize("row", rows("What the barrier's bound says"), ids=str)
def test_the_table_of_the_barrier(row):
    arms, gap, horizon, cells = row
    settings = [(0.0, 0.0), (0.1, 0.0), (0.5, 0.0), (0.5, 100), (0.5, 1000), (0.5, 10_000)]
    for cell, (k, corruption) in zip(cells, settings, strict=True):
        bound = barrier_bound(arms, gap, horizon, corruption, 2.0, 0.25, k)
        if cell is None:
            assert bound >= gap * horizon
        else:
            assert cell == pytest.approx(bound, rel=1e-4, abs=1)


def test_the_constants_that_the_text_quotes():
    for horizon in (10**3, 10**6, 10**12):
        assert factor(horizon, 2.0, 1.0, 0.0) == pytest.approx(4.09, abs=5e-3)
    assert factor(10**6, 2.0, 1.0, 0.0) ** 2 == pytest.approx(16.74, abs=0.02)
    assert "16.74" in section("In expectation")


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


def test_lemma_3_for_any_probabilities_and_spreads():
    for trial in range(300):
        rounds, k, arms = int(RANDOM.integers(4, 400)), RANDOM.uniform(0.01, 3), trial % 9 + 2
        p = np.clip(RANDOM.random(rounds) ** RANDOM.choice([0.1, 1, 8, 40]), 1e-12, 1 - 1e-12)
        v = RANDOM.choice([RANDOM.random(rounds), np.ones(rounds)])
        p[0], v[0] = 1 / arms, 0.25
        variance = np.cumsum(v * (1 - p) / p)
        x = p * k * np.diff(np.sqrt(variance), prepend=0.0)
        root = math.sqrt((v * p * (1 - p)).sum())
        spread = math.log(8 * math.e * rounds)
        assert x.sum() <= k * spread * root * (1 + 1e-9)
        assert (x**2).sum() <= k**2 * spread * root / 2 * (1 + 1e-9)


def test_the_small_steps_of_the_barriers_theorem():
    x = np.linspace(0, 0.5, 1001)
    assert np.all(-np.log1p(-x) <= 2 * x * math.log(2) + 1e-15)
    t = np.arange(4, 10_000)
    assert ((1 + np.sqrt(t)) / t).max() <= 3 / 4
    arms = np.arange(2, 1000)
    assert np.all(arms * np.log(arms) >= 1.38 * (arms - 1))
    assert 2 * math.log(2) * 3 / 4 <= 1.04
    w, x = RANDOM.normal(size=(2, 1000))
    theta = RANDOM.exponential(size=1000)
    assert np.all((w - x) ** 2 <= (1 + theta) * w**2 + (1 + 1 / theta) * x**2 + 1e-12)
    p = np.linspace(0, 1, 1001)
    assert p * (1 - p) ** 2 + (1 - p) * p**2 == pytest.approx(p * (1 - p))


def test_corruption_moves_a_rounds_regret_by_twice_its_size():
    for _ in range(500):
        arms = int(RANDOM.integers(2, 6))
        p, clean = RANDOM.dirichlet(np.ones(arms)), RANDOM.random(arms)
        most = RANDOM.random()
        change = RANDOM.uniform(-most, most, arms)
        regret, corrupted = p @ clean - clean[0], p @ (clean + change) - (clean + change)[0]
        assert abs(regret - corrupted) <= 2 * most


# --- the guard ------------------------------------------------------------------------------


class Guard:
    """Layers of a guard as the page defines them, with equal gaps."""

    def __init__(self, arms, gap, horizon, delta=0.05, s=4, b=1, rho=1.0):
        self.arms, self.gap, self.horizon, self.b = arms, gap, horizon, b
        last = s + 1
        while rho * 2.0 ** (last - 1) < horizon:
            last += 1
        labels = range(s + 1, last + 1)
        self.p = [2.0**-label for label in labels]
        self.p[0] += 2.0**-s - sum(self.p)
        self.f = [delta * 4.0 ** -(label - s) for label in labels]
        self.tolerated = [rho * 2.0 ** (label - 1) for label in labels]
        self.h = math.log(4 * arms * len(labels) / delta)
        self.rounds = [self._turns(place) for place in range(len(labels))]

    def allowance(self, place):
        rho, a = sum(self.p[place:]) * self.tolerated[place], math.log(1 / self.f[place])
        return bisect(lambda c: c * math.log(c / rho) - c + rho - a, rho, 100 * (rho + a))

    def _turns(self, place):
        log, c = math.log(2 * self.arms / self.f[place]), self.allowance(place)

        def missing(n):
            root = math.sqrt((log + math.log(math.pi * (n + 0.5)) / 2) / (2 * n))
            return self.gap - 4 * (root + c / n)

        exact = bisect(missing, 1.0, 1e13)
        return math.ceil(math.ceil(exact) * 129 / 128) + 1

    def waited(self, place):
        moves = (1 + self.b) * self.arms * self.rounds[place]
        root = math.sqrt(self.h**2 + 2 * moves * self.h)
        return (moves + self.h + root) / self.p[place]

    def bound(self, corruption):
        """Over all tolerant layers, the stage and the turns of slower layers."""
        found = []
        for place in range(len(self.p)):
            if corruption > max(self.tolerated[place], self.allowance(place)):
                continue
            total = min(self.waited(place), self.horizon)
            for slower in range(place + 1, len(self.p)):
                mean = self.p[slower] * self.horizon
                most = mean + self.h / 3 + math.sqrt(self.h**2 / 9 + 2 * mean * self.h)
                total += min((self.arms - 1) * self.rounds[slower], most // (1 + self.b))
            found.append(self.gap * total)
        return min(found)

    def overhead(self):
        total = 0.0
        for place, share in enumerate(self.p):
            turns = (self.arms - 1) * self.rounds[place]
            total += self.gap * min(turns, share * self.horizon / (1 + self.b))
            lost = self.horizon
            if place + 1 < len(self.p):
                moves = (1 + self.b) * self.arms * self.rounds[place + 1]
                lost = min(lost, moves / self.p[place + 1])
            total += self.f[place] * self.gap * lost
        return total


@pytest.mark.parametrize("row", rows("What the guard's bound says"), ids=str)
def test_the_table_of_the_guard(row):
    arms, gap, horizon, (_, overhead, *bounds) = row
    guard = Guard(arms, gap, horizon)
    assert overhead == pytest.approx(guard.overhead(), rel=1e-4, abs=1)
    for cell, corruption in zip(bounds, (0, 100, 1000, 10_000), strict=True):
        bound = guard.bound(corruption)
        if cell is None:
            assert bound >= gap * horizon
        else:
            assert cell == pytest.approx(bound, rel=1e-4, abs=1)


def test_shares_tolerances_and_orders_of_the_guard():
    for _ in range(100):
        s, rho = int(RANDOM.integers(0, 8)), RANDOM.uniform(0.2, 8)
        horizon, delta = int(10 ** RANDOM.uniform(2, 9)), RANDOM.uniform(0.001, 0.3)
        guard = Guard(3, 0.5, horizon, delta, s=s, rho=rho)
        assert sum(guard.p) == pytest.approx(2.0**-s)
        assert sum(guard.f) < delta / 3
        for place, tolerated in enumerate(guard.tolerated):
            assert sum(guard.p[place:]) * tolerated <= rho * (1 + 1e-12)
        for corruption in 10 ** RANDOM.uniform(-1, math.log10(horizon), 20):
            place = next(i for i, most in enumerate(guard.tolerated) if corruption <= most)
            assert 1 / guard.p[place] <= max(2 ** (s + 1), 4 * corruption / rho)
        shares = [f / p for f, p in zip(guard.f, guard.p[1:], strict=False)]
        assert sum(shares) <= delta * 2 ** (s + 1)
        if len(guard.p) > 1:  # otherwise the first layer tolerates more than there is
            assert guard.f[-1] * horizon <= delta * 4**s * rho**2 / (4 * horizon) * (1 + 1e-12)


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


def test_the_stage_is_concave_in_the_rounds():
    def stage(gaps, ends, horizon):
        order = np.argsort(-gaps)
        gaps, ends = np.append(gaps[order], 0.0), np.minimum(ends[order], horizon)
        return ((gaps[:-1] - gaps[1:]) * ends).sum()

    for _ in range(300):
        gaps = RANDOM.random(4)
        # Rounds fall with the gap, as those of the theorem do.
        low, high = np.sort(RANDOM.random((2, 4)) * 150, axis=1)[:, np.argsort(np.argsort(-gaps))]
        middle = stage(gaps, (low + high) / 2, 100)
        assert middle >= (stage(gaps, low, 100) + stage(gaps, high, 100)) / 2 - 1e-9
        rounds = np.arange(0.005, 100, 0.01)
        integral = np.where(low[None, :] > rounds[:, None], gaps, 0.0).max(axis=1).sum() * 0.01
        assert stage(gaps, low, 100) == pytest.approx(integral, abs=0.05)


# --- Proposition L --------------------------------------------------------------------------


def test_bretagnolle_and_huber_on_random_laws():
    for _ in range(500):
        first, second = RANDOM.dirichlet(np.full(6, 0.4), 2) + 1e-9
        first, second = first / first.sum(), second / second.sum()
        divergence = (first * np.log(first / second)).sum()
        event = RANDOM.random(6) < 0.5
        errors = first[~event].sum() + second[event].sum()
        assert errors >= math.exp(-divergence) / 2 - 1e-12


def test_the_windows_and_the_divergence_of_proposition_l():
    for _ in range(200):
        gap, delta = RANDOM.uniform(0.01, 0.45), RANDOM.uniform(1e-4, 0.2)
        low, high = 0.5 - gap, 0.5 + gap
        kl = low * math.log(low / high) + high * math.log(high / low)
        assert kl == pytest.approx(2 * gap * math.log(high / low))
        assert kl >= 8 * gap**2
        kappa, horizon = int(RANDOM.integers(2, 50)), int(10 ** RANDOM.uniform(4, 12))
        least = math.ceil(2 * math.log(1 / (4 * delta)) / (kl * delta * (kappa - 1)))
        # Markov's case: few plays make the event likely; the other one has enough plays.
        assert delta * (kappa - 1) * least / 2 >= math.log(1 / (4 * delta)) / kl * (1 - 1e-12)
        count, end = 0, least
        while end * kappa <= horizon:
            count, end = count + 1, end * kappa
        assert count == max(0, math.floor(math.log(horizon / least) / math.log(kappa) + 1e-9))


def test_a_linear_bound_is_what_proposition_l_asks_for():
    for _ in range(200):
        constant, slope, gap = (
            RANDOM.exponential(1000),
            RANDOM.uniform(0.5, 50),
            RANDOM.uniform(0, 0.5),
        )
        kappa = 1 + math.ceil(4 * slope / gap)
        corruption = constant / slope * RANDOM.uniform(1.0001, 10)
        assert gap * (kappa - 1) * corruption / 2 > constant + slope * corruption
