"""Means that move together: Zimmert and Seldin (2021), and Tsuchiya, Ito and Honda (2023)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armrace.environments import Constrained
from armrace.reproduction.studies import Form, Found, Paper, Point, Statement, Study, point

_IW = {"name": "tsallis-inf", "estimator": "iw"}
_LEARNERS: Mapping[str, Any] = {
    "tsallis-inf": "tsallis-inf",
    "tsallis-inf, iw": _IW,
    "exp3-plus-plus": "exp3-plus-plus",
    "exp3": "exp3",
    "ucb1": "ucb1",
    "thompson": "thompson",
    "multi-layer-race": "multi-layer-race",
}
_ROUNDS = 100_000
_MOVING = Constrained(means=(1.0, *[0.875] * 7), shift=-0.875)
_STAYING = [0.5625, *[0.4375] * 7]


def _each(policies: Mapping[str, Any], runs: tuple[int, int], **told: Any) -> Any:
    def points(form: Form) -> list[Point]:
        return [
            point(name, policy=policy, replications=form.of(*runs), seed=form.seed, **told)
            for name, policy in policies.items()
        ]

    return points


def _against(environment: Any) -> Any:
    return _each(_LEARNERS, (20, 100), environment=environment, horizon=_ROUNDS)


def _grows(names: tuple[str, ...], least: float, most: float) -> Any:
    """Judge how much the regret of the last nine tenths of the rounds multiplies that before."""

    def check(found: Found) -> tuple[bool, str]:
        ratios = {name: found.growth(name) for name in names}
        shown = ", ".join(f"{ratio:.1f} times for {name}" for name, ratio in ratios.items())
        return all(
            least <= r <= most for r in ratios.values()
        ), f"{shown} with ten times the rounds"

    return check


def _loses(found: Found) -> tuple[bool, str]:
    best = found.mean("tsallis-inf")
    ratios = {name: found.mean(name) / best for name in ("ucb1", "thompson")}
    shown = ", ".join(f"{ratio:.1f} times for {name}" for name, ratio in ratios.items())
    return min(ratios.values()) > 4, f"{shown} the regret of tsallis-inf, {best:,.0f}"


ZIMMERT_2021 = Paper(
    "zimmert-seldin-2021",
    "Zimmert and Seldin (2021), Tsallis-INF: an optimal algorithm for stochastic and adversarial "
    "bandits, JMLR",
    "The theorems were read in a transcription. Two levels of the means and phases that grow by "
    "1.6 are the paper's; the number of arms, the gap, the horizon and the first phase are ours, "
    "so that only the growth of the regret can be compared.",
    (
        Study(
            "moving",
            "Means that move",
            "Section 5, stochastically constrained adversary",
            "Tsallis-INF keeps its logarithmic regret; UCB1 and Thompson sampling have almost "
            "linear regret.",
            _against(_MOVING),
            "round",
            "mean regret",
            (
                Statement(
                    "Tsallis-INF has logarithmic regret",
                    _grows(("tsallis-inf", "tsallis-inf, iw"), 1.0, 2.5),
                ),
                Statement(
                    "UCB1 and Thompson sampling have almost linear regret",
                    _grows(("ucb1", "thompson"), 5.0, 12.0),
                ),
                Statement("they lose much more than Tsallis-INF", _loses),
            ),
            setting="Eight Bernoulli arms, one better than the others by 0.125 throughout: means 1 "
            "and 0.875 in one phase, 0.125 and 0 in the next. Phases of 1, 2, 3, 4, 7 rounds and "
            "so on, each 1.6 times as long as the one before.",
        ),
        Study(
            "staying",
            "The same gap, means that stay",
            "Section 5, for comparison",
            "Where means stay, all of these have sublinear regret.",
            _against(_STAYING),
            "round",
            "mean regret",
            (
                Statement(
                    "Tsallis-INF, UCB1 and Thompson sampling have logarithmic regret",
                    _grows(("tsallis-inf", "ucb1", "thompson"), 1.0, 3.0),
                ),
            ),
            setting="Means 0.5625 and 0.4375.",
        ),
    ),
    notes=(
        "Why: UCB1 and Thompson sampling compare averages over different rounds. How good an arm "
        "looks depends on the phases in which it happened to be played, and the phases differ by "
        "seven times the gap. Importance-weighted estimates compare all arms over the same rounds. "
        "EXP3 and EXP3++ are not affected either, but pay for their exploration. The multi-layer "
        "race does not finish exploring within these rounds, and says nothing about moving means.",
    ),
)  # fmt: skip

# --- Tsuchiya, Ito and Honda 2023 ----------------------------------------------------------------

_SHORT = 10_000
_LEVELS = [tuple(round(top - 0.1 * arm, 2) for arm in range(5)) for top in (0.95, 0.5)]
_RIVALS = {
    name: name for name in ("lb-inf-v", "lb-inf", "tsallis-inf", "exp3-plus-plus", "thompson")
}


def _semi(environment: Any, **attack: Any) -> Any:
    return _each(_RIVALS, (40, 400), environment=environment, horizon=_SHORT, **attack)


def _near(found: Found) -> tuple[bool, str]:
    means = {name: found.mean(name) for name in _RIVALS}
    shown = ", ".join(f"{mean:,.0f} for {name}" for name, mean in means.items())
    return max(means.values()) < 8 * means["lb-inf-v"] < 16 * min(means.values()), shown


def _tsuchiya(name: str, title: str, points: Any, setting: str, most: float) -> Study:
    return Study(
        name,
        title,
        "Experiments, in the bandit form",
        "What the curves show could not be read. By its theorems, the algorithm has logarithmic "
        "regret here.",
        points,
        "round",
        "mean pseudo-regret",
        (
            Statement("LB-INF-V has logarithmic regret", _grows(("lb-inf-v",), 1.0, most)),
            Statement(
                "the least regret of these is at least half of its own (not the paper's)", _near
            ),
        ),
        setting=setting,
    )


TSUCHIYA_2023 = Paper(
    "tsuchiya-ito-honda-2023",
    "Tsuchiya, Ito and Honda (2023), Further adaptive best-of-both-worlds algorithm for "
    "combinatorial semi-bandits, AISTATS",
    "The algorithm was read in the paper. Its section of experiments could not be: settings are "
    "from secondary sources. The paper plays sets of arms; here is its bandit form, one arm at a "
    "time, so that no curve of the paper can be compared.",
    (
        _tsuchiya(
            "stochastic", "Stochastic rewards", _semi(list(_LEVELS[1])),
            "Five Bernoulli arms with means 0.5, 0.4, 0.3, 0.2 and 0.1, 10,000 rounds.", 3.0,
        ),
        _tsuchiya(
            "constrained", "Means that move",
            _semi(Constrained(means=_LEVELS[0], shift=-0.45)),
            "Means 0.95, 0.85, ..., 0.55 and 0.5, 0.4, ..., 0.1 in turns, in phases that grow by "
            "1.6.", 3.0,
        ),
        _tsuchiya(
            "corrupted", "Corruption at the beginning",
            _semi(list(_LEVELS[1]), adversary="swap-best", budget=_SHORT**0.5),
            "Means 0.5 to 0.1 and a corruption of sqrt(T) = 100, spent at the beginning by "
            "swapping the best arm's rewards with those of the second best; how the paper corrupts "
            "its first sqrt(T) rounds is not known to us.", 3.0,
        ),
    ),
)  # fmt: skip
