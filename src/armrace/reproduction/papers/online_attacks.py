"""Attacks on learners of Gaussian rewards: Jun et al. (2018), and Liu and Shroff (2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from armrace.environments import Gaussian
from armrace.reproduction.studies import Form, Found, Paper, Point, Statement, Study, point

_ROUNDS, _TARGET = 100_000, 1
_COST = pl.col("seen_corruption")
_PULLS = pl.col("pulls").arr.get(_TARGET)
_UNLIMITED = 1e9
"""More than any of these attacks spends: the papers have no budget."""

GREEDY: dict[str, Any] = {"name": "epsilon-greedy", "fading": 1.0}


def _ucb(sigma: float) -> dict[str, Any]:
    return {"name": "ucb", "bonus": 3 * sigma}


def _attacked(
    form: Form, line: str, policy: Any, attack: Any, gap: float, sigma: float = 0.1
) -> Point:
    """Two arms with means ``gap`` and 0, of which the second is the target.

    The attacker sees the arm before answering, and pays for the reward that is shown.
    """
    told = {"target": _TARGET, "sigma": sigma}
    return point(
        line,
        policy=policy,
        environment=Gaussian(means=(gap, 0.0), sigma=sigma),
        adversary=attack if attack == "none" else {**told, **attack},
        budget=0.0 if attack == "none" else _UNLIMITED,
        horizon=_ROUNDS,
        replications=form.of(20, 100),
        seed=form.seed,
        account="seen",
    )


def _jun(policy: Any, delta: float, sigma: float) -> dict[str, Any]:
    """The attack of Jun et al. on a learner, with the margin that they suggest."""
    if policy == GREEDY:
        return {"name": "jun-greedy", "strikes": "all", "delta": delta}
    return {"name": "jun-ucb", "margin": sigma, "delta": delta}


def _nearly_all(found: Found) -> tuple[bool, str]:
    """Judge whether the target gets nearly all plays."""
    worst = min(found.mean(f"{learner}, attacked") for learner in ("epsilon-greedy", "ucb"))
    return worst > 0.95 * _ROUNDS, f"at least {worst:,.0f} of {_ROUNDS:,} plays on average"


def _rises(*lines: str) -> Any:
    """Judge whether means grow from the first line to the last."""

    def check(found: Found) -> tuple[bool, str]:
        means = [found.mean(line) for line in lines]
        shown = ", ".join(f"{mean:,.1f} for {n}" for n, mean in zip(lines, means, strict=True))
        return sorted(means) == means, shown

    return check


def _costs(
    name: str,
    title: str,
    source: str,
    published: str,
    points: Callable[[Form], list[Point]],
    setting: str,
    *statements: Statement,
) -> Study:
    """A study of what an attack costs."""
    return Study(
        name, title, source, published, points, "round", "mean cost", statements,
        value=_COST, setting=setting,
    )  # fmt: skip


def _target_pulls(
    source: str, published: str, greedy: Any, ucb: Any, setting: str, *statements: Statement
) -> Study:
    """A study of the plays of the target, with the attacks on the two learners and without."""

    def points(form: Form) -> list[Point]:
        return [
            _attacked(form, f"{name}, {words}", policy, attack, 1.0)
            for name, policy, own in (("epsilon-greedy", GREEDY, greedy), ("ucb", _ucb(0.1), ucb))
            for words, attack in (("attacked", own), ("left alone", "none"))
        ]

    always = Statement("the target is played nearly always", _nearly_all)
    return Study(
        "target-pulls", "Plays of the target", source, published, points, "round",
        "mean plays of the target", (always, *statements), value=_PULLS, setting=setting,
    )  # fmt: skip


# --- Jun et al. 2018 -----------------------------------------------------------------------------


def _jun_greedy(form: Form) -> list[Point]:
    attack = _jun(GREEDY, 0.025, 0.1)
    return [_attacked(form, f"mean {gap:g}", GREEDY, attack, gap) for gap in (1.0, 2.0, 5.0)]


def _jun_gaps(form: Form) -> list[Point]:
    return [
        _attacked(form, f"gap {gap:g}", _ucb(0.1), _jun("ucb", 0.05, 0.1), gap)
        for gap in (0.1, 0.2, 0.5)
    ]


def _jun_sigmas(form: Form) -> list[Point]:
    return [
        _attacked(form, f"sigma {s:g}", _ucb(s), _jun("ucb", 0.05, s), 1.0, s)
        for s in (0.1, 0.2, 0.5)
    ]


def _slows(line: str) -> Any:
    """Judge whether a cost grows no faster than a logarithm: each decade costs about the same."""

    def check(found: Found) -> tuple[bool, str]:
        cost = found.mean(line)
        return cost < 0.01 * _ROUNDS, f"{cost:,.1f} in {_ROUNDS:,} rounds, for {line}"

    return check


JUN_2018 = Paper(
    "jun-2018",
    "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits, NeurIPS",
    "The first pages of the arXiv text (1810.12188) were read. The section of experiments could "
    "not be: its settings are from secondary sources, and the formulas agree with the programs of "
    "later authors. The cost is the change of the reward that is shown, by an attacker who sees "
    "the arm: the account `seen`.",
    (
        _costs(
            "greedy-cost",
            "The cost against epsilon-greedy",
            "Section 5, epsilon-greedy: attack cost",
            "The cumulated cost grows like log T, and with the gap to the target.",
            _jun_greedy,
            "Means 1, 2 or 5 and 0, sigma 0.1, delta 0.025, exploration 1/t, 100,000 rounds.",
            Statement("the cost grows with the gap", _rises("mean 1", "mean 2", "mean 5")),
            Statement("the cost is sublinear", _slows("mean 5")),
        ),
        _costs(
            "ucb-cost",
            "The cost against UCB",
            "Section 5, UCB: attack cost for three gaps",
            "The cost is logarithmic, and grows with the gap.",
            _jun_gaps,
            "Gaps 0.1, 0.2 and 0.5, sigma 0.1, delta 0.05, bonus 3 sigma sqrt(ln t/n), margin "
            "sigma.",
            Statement("the cost grows with the gap", _rises("gap 0.1", "gap 0.2", "gap 0.5")),
            Statement("the cost is sublinear", _slows("gap 0.5")),
        ),
        _costs(
            "ucb-sigma",
            "The cost against UCB, by noise",
            "Section 5, UCB: attack cost for three deviations",
            "The cost grows with the noise of the rewards.",
            _jun_sigmas,
            "Sigma 0.1, 0.2 and 0.5, gap 1, delta 0.05, bonus 3 sigma sqrt(ln t/n), margin "
            "sigma. The gap of the published panel is not known to us.",
            Statement(
                "the cost grows with sigma", _rises("sigma 0.1", "sigma 0.2", "sigma 0.5"),
                "The margin is sigma here: a larger one fools UCB with fewer plays, since the "
                "bonus of the others then outgrows the margin later.",
            ),
        ),
        _target_pulls(
            "Section 5: target pulls with and without the attack",
            "With the attack the target gets nearly all plays; without it hardly any.",
            _jun(GREEDY, 0.025, 0.1),
            _jun("ucb", 0.05, 0.1),
            "Means 1 and 0, sigma 0.1.",
            Statement(
                "without an attack it is hardly played",
                lambda found: (
                    max(found.mean(f"{n}, left alone") for n in ("epsilon-greedy", "ucb"))
                    < 1_000,
                    f"{found.mean('epsilon-greedy, left alone'):,.1f} and "
                    f"{found.mean('ucb, left alone'):,.1f} plays",
                ),
            ),
        ),
    ),
)  # fmt: skip

# --- Liu and Shroff 2019 -------------------------------------------------------------------------

_GAPS = (0.2, 0.5, 1.0)
_ACE = {"name": "adaptive-constant", "delta": 0.05}


def _against(policy: Any) -> Any:
    return lambda form: [
        _attacked(form, f"{name}, gap {gap:g}", policy, attack, gap)
        for gap in _GAPS
        for name, attack in (("ACE", _ACE), ("Jun", _jun(policy, 0.05, 0.1)))
    ]


def _both_are_small(found: Found) -> tuple[bool, str]:
    pairs = [(found.mean(f"ACE, gap {g:g}"), found.mean(f"Jun, gap {g:g}")) for g in _GAPS]
    shown = "; ".join(
        f"gap {g:g}: ACE {a:,.1f}, Jun {j:,.1f}" for g, (a, j) in zip(_GAPS, pairs, strict=True)
    )
    return all(max(pair) < 0.01 * _ROUNDS for pair in pairs), f"in {_ROUNDS:,} rounds {shown}"


_BOTH_COST = (
    Statement("the costs of both attacks are sublinear", _both_are_small),
    Statement(
        "the cost of ACE grows with the gap", _rises(*[f"ACE, gap {gap:g}" for gap in _GAPS])
    ),
)

LIU_2019 = Paper(
    "liu-shroff-2019",
    "Liu and Shroff (2019), Data poisoning attacks on stochastic bandits, ICML",
    "The settings are those of the authors' public program (DataPoisonBandits), which was read; "
    "the attack was compared with equations (23) to (25) of the paper. The offline attacks and the "
    "ones on Thompson sampling are not run.",
    (
        _costs(
            "greedy-cost",
            "The cost against epsilon-greedy",
            "Section 5, online attacks: cost against time, epsilon-greedy",
            "ACE, which does not know the learner, and the attack of Jun et al. both have a cost "
            "that is logarithmic in time.",
            _against(GREEDY),
            "Means D and 0 with D = 1, 0.5 and 0.2, sigma 0.1, delta 0.05, exploration "
            "1/t, 100,000 rounds.",
            *_BOTH_COST,
        ),
        _costs(
            "ucb-cost",
            "The cost against UCB",
            "Section 5, online attacks: cost against time, UCB",
            "As above, against UCB with the bonus 3 sigma sqrt(ln t/n).",
            _against(_ucb(0.1)),
            "As above; the margin of the attack of Jun et al. is sigma. Its deviation is "
            "that of the target's plays, as its authors have it; the program of Liu and Shroff "
            "takes the plays of the arm that is attacked.",
            *_BOTH_COST,
        ),
        _target_pulls(
            "Section 5, online attacks: target pulls",
            "Under ACE the target gets nearly all plays.",
            _ACE,
            _ACE,
            "Means 1 and 0.",
        ),
    ),
    notes=(
        "A mistake in the public program: its Thompson sampling draws every arm's index with the "
        "deviation `sigma / sqrt(plays)` of the arm that was played last, not of the arm itself, "
        "and adds it to the mean divided by `sigma^2`. Its figures are not those of Thompson "
        "sampling.",
    ),
)  # fmt: skip
