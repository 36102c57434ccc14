"""An attack of our own on three policies, and a search for its worst parameters.

The attack is in ``evening_bots.py``, because only classes of a module keep their compiled code.
"""

from __future__ import annotations

from evening_bots import EveningBots

import armrace
from armrace.testing import check_adversary

SETTING = {"environment": [0.6, 0.5, 0.4], "horizon": 20_000}


def main() -> None:
    """Check the attack, compare policies under it, and let the red team vary it."""
    check_adversary(EveningBots())
    comparison = armrace.compare(
        ["optimistic-log-barrier", "sharp-race", "ucb1"],
        adversary=EveningBots(),
        budget=300,
        replications=10,
        seed=1,
        **SETTING,
    )
    for policy, mean in comparison.table("pseudo_regret").select("policy", "mean").iter_rows():
        print(f"{policy}: {mean:,.0f} of 4,000 lost under the attack as it is")
    verdict = armrace.redteam(
        "ucb1", budget=300, effort="quick", families=[EveningBots], seed=1, **SETTING
    )
    print(f"the worst that a search finds for ucb1: {verdict.held_out.mean:,.0f}")
    print(verdict.description)


if __name__ == "__main__":
    main()
