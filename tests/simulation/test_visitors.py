"""Visitors who differ: the compiled engine, its accounts and attacks against slow plain Python."""

import numpy as np
import pytest

import armrace
from armrace.adversaries import TwoPhaseByVisitor
from armrace.adversaries.by_visitor import WORST_KNOWN
from armrace.cli.tables import print_result
from armrace.environments import Visitors
from armrace.environments.visitors import CONTEXTUAL
from armrace.errors import InvalidParameter, UnknownName
from armrace.simulation import simulate
from armrace.simulation.experiment import make_experiment
from armrace.simulation.reference import play_reference, run_reference
from armrace.simulation.replication import make_parts, play_out, run_replication

SHOP = Visitors(
    vectors=np.array([[0.6, 0.8], [0.6, -0.8], [1.0, 0.0]]),
    means=np.array([[0.9, 0.1, 0.3], [0.2, 0.8, 0.3], [0.4, 0.5, 0.6]]),
    leaves=np.array([0, 1, 1]),
)


@pytest.mark.parametrize("policy", ["leaf-barrier", "expert-barrier", "ucb1"])
def test_the_engine_agrees_with_plain_python(policy: str) -> None:
    attack = TwoPhaseByVisitor(
        first="double-impact", decoy="worst", first_low=0.3, where="spread", where_value=0.3
    )
    experiment = make_experiment(
        policy=policy, environment=SHOP, adversary=attack, budget=20, horizon=300, seed=4
    )
    run = run_reference(experiment)
    parts = make_parts(experiment, 0)
    play_out(parts)
    for name, total in run.accounts(1).items():
        if name != "charged":
            assert getattr(parts.ledger, name) == pytest.approx(np.array(total)), name
    assert 0 < run.spent == parts.ledger.charged[0] <= 20

    arms, visitors = np.array(run.arms), np.array(run.visitors)
    means, best_of_leaf = SHOP.means[visitors], np.array([0, 1, 1])[visitors]
    played = means[np.arange(300), arms].sum()
    outcome = run_replication(experiment, 0)
    assert outcome.pseudo_regret[-1] == pytest.approx(means.max(axis=1).sum() - played)
    in_leaf = means[np.arange(300), best_of_leaf].sum()
    assert outcome.leaf_regret[-1] == pytest.approx(in_leaf - played)
    assert outcome.constant_regret[-1] == pytest.approx(means.sum(axis=0).max() - played)


def test_experts_are_credited_with_what_they_would_have_played() -> None:
    experiment = make_experiment(policy="expert-barrier", environment=SHOP, horizon=150, seed=6)
    parts, slow = make_parts(experiment, 0), make_parts(experiment, 0)
    play_out(parts)
    linear, played = 0.0, 0.0
    for number in range(150):
        coefficients = slow.policy.ridge.weights.copy()
        run = play_reference(experiment, slow, number, number + 1)
        means, vector = SHOP.means[run.visitors[0]], SHOP.vectors[run.visitors[0]]
        linear += means[np.argmax(coefficients @ vector)]
        played += means[run.arms[0]]
    advised = parts.ledger.advised
    assert advised[0] == pytest.approx(linear)
    assert advised[-3:] == pytest.approx(parts.ledger.promised)
    outcome = run_replication(experiment, 0)
    assert outcome.expert_regret[-1] == pytest.approx(max(*advised) - played)
    assert outcome.expert_regret[-1] > outcome.constant_regret[-1]


def test_results_show_what_leaves_and_contexts_are_worth(tmp_path, capsys) -> None:
    given = {"budget": 20, "horizon": 300, "replications": 3, "seed": 4}
    result = simulate("leaf-barrier", SHOP, "two-phase-by-visitor", **given)
    experiment = make_experiment(
        policy="leaf-barrier", environment=SHOP, adversary="two-phase-by-visitor", **given
    )
    outcomes = [run_replication(experiment, number) for number in range(3)]
    for name in ("leaf_regret", "constant_regret", "expert_regret"):
        final = [getattr(outcome, name)[-1] for outcome in outcomes]
        assert result.sample(name).tolist() == final
        assert result.curves[name].to_list()[-1] == final[-1]
        assert result.summary()[name]["mean"] == pytest.approx(np.mean(final))
    result.save(tmp_path / "shop.parquet")
    again = armrace.load(tmp_path / "shop.parquet")
    assert again.summary() == result.summary()
    print_result(result)
    assert "constant-regret" in capsys.readouterr().out
    alike = simulate("leaf-barrier", [0.5, 0.4], horizon=100, replications=2)
    assert "leaf_regret" not in alike.rows.columns
    with pytest.raises(UnknownName, match="no measure named 'leaf_regret'"):
        alike.sample("leaf_regret")


def test_visitors_are_equally_likely_and_pay_their_means() -> None:
    """Fails by chance with probability below 1e-5 for each of 12 figures, by 4.5 deviations."""
    rounds = 30_000
    parts = make_parts(make_experiment(policy="ucb1", environment=SHOP, horizon=rounds, seed=9), 0)
    play_out(parts)
    expected = rounds * SHOP.means.mean(axis=0)
    deviation = np.sqrt(rounds * 0.25)
    assert (np.abs(parts.ledger.clean_totals - expected) < 4.5 * deviation).all()
    spread = SHOP.means.std(axis=0) * np.sqrt(rounds)
    assert (np.abs(parts.ledger.promised - expected) < 4.5 * spread).all()


def test_contexts_pay_in_segments_and_forged_feedback_breaks_what_is_naive() -> None:
    """Means of four runs against bounds from other seeds, with a margin of 1.5."""

    def lost(policy: str, environment: str, attack: int | None, budget: float) -> float:
        adversary = "none" if attack is None else WORST_KNOWN[attack]
        result = simulate(
            policy=policy, environment=CONTEXTUAL[environment], adversary=adversary,
            budget=budget, horizon=100_000, replications=4, seed=77,
        )  # fmt: skip
        return result.figure("pseudo_regret").mean

    assert lost("leaf-barrier", "segments", None, 0) < 550
    assert lost("leaf-barrier", "segments", 2, 1_000) < 2_650
    assert lost("linear-ucb", "main", None, 0) < 1_000
    assert lost("linear-ucb", "main", 3, 100) > 6_000


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"means": SHOP.means[:2]}, "a row for each kind; got 3, 2 and 3"),
        ({"means": SHOP.means + 0.5}, "each of means must be in \\[0, 1\\]"),
        ({"means": SHOP.means[:, :1]}, "means must name at least 2 arms"),
        ({"vectors": 2 * SHOP.vectors}, "a length of at most 1"),
        ({"vectors": np.full((3, 2), np.nan)}, "a length of at most 1"),
        ({"leaves": np.array([0, 1, 256])}, "a whole number in \\[0, 255\\]"),
        ({"vectors": np.ones(3)}, "vectors must be a table of numbers"),
    ],
)
def test_bad_tables_of_visitors_are_refused(parts: dict, words: str) -> None:
    given = {"vectors": SHOP.vectors, "means": SHOP.means, "leaves": SHOP.leaves, **parts}
    with pytest.raises(InvalidParameter, match=words):
        Visitors(**given)
