"""The figures that a seed gives are those of the number beside the version."""

from __future__ import annotations

import hashlib

import pytest

import armrace

PINNED_FIGURES = 3
PINNED = {
    "active-arm-elimination": "15235e2068b9",
    "best-of-all-worlds": "d9a297487d16",
    "enlarged-arm-elimination": "4fd728e52af9",
    "fast-slow-race": "b7fc945c03bd",
    "multi-layer-race": "47012b7d4e04",
    "barbar": "5ec724faff19",
    "barbat": "459f19bd0c68",
    "crucb": "ad6ace35264e",
    "guarded": "0688cb9b93f5",
    "kl-ucb-cf": "2694ccad90d5",
    "rucb": "69b108324ab2",
    "sharp-race": "8b60d35ba13b",
    "thompson-cf": "c9354ba4db8e",
    "kl-ucb": "27703a8229ee",
    "moss": "deb4aaf61f1f",
    "robust-ucb": "a01c7a0ae598",
    "thompson": "1361b41a333d",
    "ucb1": "2500a3cd0b1a",
    "broad": "2753892eddde",
    "exp3": "a4ba24074e55",
    "exp3-ix": "64a06e87120a",
    "exp3-plus-plus": "4bf8ed8d70fa",
    "exp3p": "ab68ac85f3fc",
    "lb-inf": "20e2aa64187f",
    "lb-inf-v": "a6e2b6a3043d",
    "log-barrier": "4d5820d2af85",
    "optimistic-log-barrier": "830590e9fc0c",
    "sao": "44805efc4ea6",
    "sapo": "675338100701",
    "tsallis-inf": "5894ce8c9957",
}
"""For each policy, a digest of a small simulation. Where one changes, raise ``armrace.FIGURES``."""

SHIPPED = [n for n, p in armrace.POLICIES.items() if p.__module__.startswith("armrace.")]


def digest(policy: str) -> str:
    result = armrace.simulate(
        policy, [0.6, 0.5, 0.3], "swap-best", budget=20, horizon=500, replications=2, seed=11
    )
    lines = []
    for row in result.final.iter_rows(named=True):
        figures = [f"{row[name]:.6f}" for name in ("regret", "clean_regret", "corruption")]
        lines.append(f"{policy} {list(row['pulls'])} {' '.join(figures)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


@pytest.mark.parametrize("policy", SHIPPED)
def test_the_number_of_the_figures_is_raised_with_them(policy: str) -> None:
    assert digest(policy) == PINNED[policy]
    assert armrace.FIGURES == PINNED_FIGURES
