"""What may be asked, and what is made of it."""

from typing import Any

import pytest

from armrace.errors import ArmraceError
from armrace.planning import make_question
from armrace.planning.question import ATTACKS_TRIED


def ask(**changes: Any) -> Any:
    usual: dict[str, Any] = {"means": [0.5, 0.4], "traffic": 1000}
    return make_question(**{**usual, **changes})


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"means": None}, "the arms are missing; give their means, or a number of arms"),
    ({"means": None, "arms": 3}, "the arms are missing"),
    ({"means": None, "arms": 1, "gap": 0.1}, "arms must be in [2, 10000]; got 1."),
    ({"means": None, "arms": 3, "gap": 0}, "gap must be in (0, 1]; got 0."),
    ({"means": None, "arms": 3, "gap": 0.6}, "base_rate + gap must be at most 1; got 0.5 + 0.6."),
    ({"arms": 3}, "means say all of the arms; leave arms and base_rate out."),
    ({"means": [0.5, 1.5]}, "each of means must be in [0, 1]; got 1.5."),
    ({"means": [0.5]}, "means must"),
    ({"means": [0.5, 0.5]}, "every arm is good enough with means 0.5, 0.5 and a gap of 0"),
    ({"gap": 0.2}, "every arm is good enough"),
    ({"traffic": 0}, "traffic must be in (0, 1e+12]; got 0."),
    ({"traffic": float("nan")}, "traffic must be finite"),
    ({"days": -1}, "days must be in (0, 100000]; got -1."),
    ({"traffic": 5, "days": 3}, "traffic x days must be at least 100 decisions"),
    ({"forged": 1.5}, "forged must be in [0, 1]; got 1.5."),
    ({"delta": 0}, "delta must be in (0, 1); got 0."),
    ({"rounds": 10**8}, "rounds must be in [100, 1e+07]; got 100000000."),
    ({"replications": 0}, "replications must be in [1, 10000]; got 0."),
    ({"seed": -1}, "seed must be in [0, "),
    ({"policies": ["ubc1"]}, "did you mean 'ucb1'?"),
    ({"means": 0.5}, "means must be a list of numbers; got 0.5."),
    ({"means": "0.5"}, "means must be a list of numbers; got '0.5'."),
    ({"policies": 5}, "policies must be a list of at least one; got 5."),
    ({"policies": []}, "policies must be a list of at least one; got []."),
    ({"policies": "ucb1"}, "policies must be a list"),
    ({"attacks": ["none"]}, "attacks must not hold none"),
    ({"attacks": ["zero-bst"]}, "did you mean 'zero-best'?"),
]


@pytest.mark.parametrize(("changes", "sentence"), REFUSED, ids=lambda part: str(part)[-40:])
def test_nonsense_is_refused_in_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ArmraceError) as refusal:
        ask(**changes)
    assert sentence in str(refusal.value)
    assert str(refusal.value).endswith((".", "?"))


def test_best_arm_is_never_the_first() -> None:
    assert ask(means=[0.9, 0.1, 0.2, 0.3]).arms().tolist() == [0.2, 0.1, 0.9, 0.3]
    assert ask(means=[0.9, 0.1]).arms().tolist() == [0.1, 0.9]


def test_arms_within_the_gap_are_good_enough() -> None:
    means = [0.05, 0.045, 0.04, 0.03]
    assert ask(means=means).good_enough().sum() == 1
    assert ask(means=means, gap=0.01).good_enough().sum() == 2
    assert ask(means=[0.3, 0.3 - 0.1, 0.1], gap=0.1).good_enough().sum() == 1
    assert ask(means=[0.3, 0.1, 0.3]).good_enough().sum() == 2


def test_horizon_is_all_days_or_as_many_as_may_be() -> None:
    whole, cut = ask(days=2.5, forged=0.01), ask(days=2.5, forged=0.01, rounds=1000)
    assert (whole.horizon, whole.suspected, whole.is_cut) == (2500, 25.0, False)
    assert cut.is_cut
    assert not ask(traffic=100.3, days=1).is_cut
    assert ask(traffic=1e12, days=1e5).horizon == 1_000_000
    assert ask(traffic=1e12, days=1e5).is_cut
    assert (cut.horizon, cut.suspected, cut.wanted, cut.days_of(1000)) == (1000, 10.0, 2500, 1.0)


def test_every_policy_meets_every_attack_and_costly_distributions_are_refreshed() -> None:
    question = ask(policies=["ucb1", "thompson"], attacks=["swap-best", "zero-best-when-likely"])
    met = [
        (name, e.adversary.tag(), e.refresh)
        for name, e in question.experiments(["ucb1", "thompson"], 50.0)
    ]
    assert met == [
        ("ucb1", "swap-best", 0.0), ("ucb1", "zero-best-when-likely", 0.0),
        ("thompson", "swap-best", 0.0), ("thompson", "zero-best-when-likely", 0.03),
    ]  # fmt: skip
    assert len(question.experiments(["ucb1", "thompson"], 0.0)) == 2


@pytest.mark.parametrize(
    ("share", "forged"),
    [
        ({}, 0.01),
        ({"forged": 0.02}, 0.02),
        ({"forged_clicks": 0.5}, 0.45),  # half of the clicks at the best arm's rate of 90%
        ({"bot_visitors": 0.03}, 0.03),
        ({"forged_clicks": 0.0}, 0.0),
    ],
)
def test_what_is_known_of_forgery_becomes_a_share_of_all_rounds(
    share: dict[str, float], forged: float
) -> None:
    question = make_question([0.9, 0.5], traffic=1000, days=1, policies=["ucb1"], **share)
    assert question.forged == pytest.approx(forged)
    assert question.suspected == pytest.approx(1000 * forged)


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ({"forged": 0.1, "bot_visitors": 0.1}, "not forged and bot_visitors"),
        ({"forged_clicks": 0.1, "bot_visitors": 0.0}, "not forged_clicks and bot_visitors"),
        ({"forged_clicks": 1.5}, "forged_clicks must be"),
        ({"bot_visitors": -0.1}, "bot_visitors must be"),
    ],
)
def test_shares_of_forgery_that_make_no_sense_are_refused(
    share: dict[str, float], message: str
) -> None:
    with pytest.raises(ArmraceError, match=message):
        make_question([0.9, 0.5], traffic=1000, days=1, **share)


def test_each_policy_also_meets_the_worst_attacks_found_for_it():
    question = ask(policies=["thompson", "tsallis-inf"])
    assert question.worst_attacks == 3
    found = {}
    for name, experiment in question.experiments(["thompson", "tsallis-inf"], 100.0):
        found.setdefault(name, []).append(experiment.adversary)
    for attacks in found.values():
        assert [attack.tag() for attack in attacks[:3]] == list(ATTACKS_TRIED)
        assert 4 <= len(attacks) <= 6
    assert found["thompson"][3:] != found["tsallis-inf"][3:]
    assert ask(attacks=["swap-best"]).worst_attacks == 0
    assert len(question.experiments(["thompson"], 0.0)) == 1
