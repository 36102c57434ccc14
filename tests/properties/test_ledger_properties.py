"""What the ledger promises for whatever rewards, policies, attacks and budgets."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from armrace.environments import Beta, Uniform
from armrace.kernels.engine import make_record
from armrace.policies import (
    ActiveArmElimination,
    EnlargedArmElimination,
    Exp3,
    FastSlowRace,
    MultiLayerRace,
    Ucb1,
)
from armrace.simulation.experiment import make_experiment
from armrace.simulation.replication import make_parts, play_out, run_replication
from playing import run

ROUNDING = 1e-9
"""For sums of a few hundred rewards."""

same_every_time = settings(
    derandomize=True,
    deadline=None,
    max_examples=40,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

rates = st.floats(0, 1, allow_subnormal=False)


@st.composite
def environments(draw):
    arms = draw(st.integers(2, 6))
    kind = draw(st.sampled_from(["bernoulli", "uniform", "beta"]))
    if kind == "bernoulli":
        return draw(st.lists(rates, min_size=arms, max_size=arms))
    if kind == "uniform":
        ends = [sorted((draw(rates), draw(rates))) for _ in range(arms)]
        return Uniform(lows=tuple(e[0] for e in ends), highs=tuple(e[1] for e in ends))
    shapes = st.floats(0.05, 20)
    alphas, betas = (tuple(draw(shapes) for _ in range(arms)) for _ in range(2))
    return Beta(alphas=alphas, betas=betas)


races = st.one_of(
    st.builds(MultiLayerRace, delta=st.floats(0.01, 0.99), layers=st.integers(1, 8) | st.none()),
    st.builds(FastSlowRace, corruption=st.floats(0, 50)),
    st.builds(EnlargedArmElimination, corruption=st.floats(0, 50)),
    st.builds(ActiveArmElimination, delta=st.floats(0.01, 0.99)),
)
policies = st.one_of(races, st.just(Ucb1()), st.builds(Exp3, learning_rate=st.floats(1e-4, 2)))

# The budget is often too small for the attack, and often a sum that binary numbers do not hold.
budgets = st.one_of(st.just(0.0), st.floats(0.01, 3), st.sampled_from([0.1, 0.3, 7.7, 1000.0]))


@st.composite
def experiments(draw, policies=policies, **chaos):
    attack = chaos["attack"](illegal=draw(st.sampled_from([0.0, 0.2, 0.8])))
    return make_experiment(
        policy=draw(policies),
        environment=draw(environments()),
        adversary=attack,
        budget=draw(budgets),
        horizon=draw(st.integers(1, 600)),
        replications=1,
        seed=draw(st.integers(0, 2**32)),
    )


def played(experiment):
    """The parts of a run, after it."""
    parts = make_parts(experiment, 0)
    play_out(parts)
    return parts


@given(data=st.data())
@settings(same_every_time, max_examples=150)
def test_the_accounts_of_a_run_hold_together(chaos, data):
    experiment = data.draw(experiments(attack=chaos))
    outcome, means = run_replication(experiment, 0), experiment.setting().means
    total, rounds = outcome.corruption, outcome.pulls.sum(axis=1)
    assert np.array_equal(rounds, make_parts(experiment, 0).record.checkpoints)
    for name in ("pulls", "corruption", "arm_corruption", "layer_corruption", "pseudo_regret"):
        assert np.all(np.diff(getattr(outcome, name), axis=0) >= 0), name

    # Corruption: within the budget, between that of an arm and of all, and seen at most once.
    assert total.max() <= experiment.budget
    assert np.all(outcome.arm_corruption.max(axis=1) <= total + ROUNDING)
    assert np.all(total <= outcome.arm_corruption.sum(axis=1) + ROUNDING)
    met = outcome.layer_corruption.sum(axis=1)
    assert np.all(met <= total + ROUNDING)

    # Regret: at most one a round, between nothing and the largest gap a round on average.
    for regret in (outcome.regret, outcome.clean_regret):
        assert np.all(np.abs(regret) <= rounds + ROUNDING)
    assert np.all(outcome.pseudo_regret >= 0)
    assert np.all(outcome.pseudo_regret <= (means.max() - means.min()) * rounds + ROUNDING)
    # The best total moves by at most the largest corruption of an arm, what was collected by at
    # most the corruption that was met: each at most the total.
    difference = np.abs(outcome.regret - outcome.clean_regret)
    if not isinstance(experiment.policy, (MultiLayerRace, FastSlowRace)):  # all plays teach
        assert np.all(difference <= outcome.arm_corruption.max(axis=1) + met + ROUNDING)
    assert np.all(difference <= 2 * total + ROUNDING)


@given(data=st.data())
@settings(same_every_time, max_examples=80)
def test_layers_are_nested_and_the_ledger_and_the_learner_agree_on_what_was_played(chaos, data):
    parts = played(data.draw(experiments(policies=races, attack=chaos)))
    active = parts.policy.active
    assert np.all(active[:-1] <= active[1:])
    assert active[-1].any()
    assert np.array_equal(parts.policy.layers.active_count, active.sum(axis=1))
    assert np.all(parts.policy.pulls.sum(axis=0) <= parts.ledger.pulls)
    assert np.array_equal(parts.policy.pulls, parts.policy.assigned)


@given(data=st.data())
@settings(same_every_time, max_examples=80)
def test_the_attack_is_shown_a_distribution_and_never_the_arm_of_the_round(chaos, data):
    attack = played(data.draw(experiments(attack=chaos))).adversary
    called = ~np.isnan(attack.lefts)
    assert np.all(attack.known == -1)
    # Until its budget is spent it is called every round, and told the arm of every round.
    assert np.array_equal(called, attack.arms >= 0)
    assert np.all(np.diff(called.astype(int)) <= 0)
    shown = attack.weights[called]
    assert np.all(shown >= 0)
    assert np.allclose(shown.sum(axis=1), 1)


@given(data=st.data())
@same_every_time
def test_where_the_run_is_read_does_not_change_it(chaos, data):
    experiment = data.draw(experiments(attack=chaos))
    horizon = experiment.horizon
    readings = data.draw(st.sets(st.integers(1, horizon), max_size=5)) | {horizon}
    usual = played(experiment)
    other = make_parts(experiment, 0)
    shape = other.ledger.pulls.size, other.ledger.layer_corruption.size
    record = make_record(np.array(sorted(readings), dtype=np.int64), *shape)
    play_out(other._replace(record=record))
    for name in ("pulls", "clean_totals", "shifts", "arm_corruption", "corruption"):
        assert np.array_equal(getattr(other.ledger, name), getattr(usual.ledger, name)), name


def test_layers_are_nested_also_when_some_arms_are_deleted_by_some_layers(chaos):
    parts = run(
        MultiLayerRace(layers=4),
        [0.99, 0.01, 0.2, 0.9],
        6000,
        3,
        adversary=chaos(illegal=0.0),
        budget=20.0,
    )
    active = parts.policy.active
    deleted = active.shape[1] - active.sum(axis=1)
    assert deleted[0] > deleted[-1]
    assert np.all(active[:-1] <= active[1:])
    by = parts.policy.eliminated_by
    assert np.all(by[~active] >= np.nonzero(~active)[0])
    assert np.all(by[active] == -1)
