"""Every mistake of the list is caught, by the checks that the documentation names."""

import csv
from pathlib import Path

import pytest

from armrace.verification.claims import QUICK
from armrace.verification.guarantees import GUARANTEES
from armrace.verification.spending import allowances_spend, intervals_spend
from verification.late import ENGINE_MISTAKES, LATE_MISTAKES
from verification.mutants import MUTATIONS, catch, catch_in_engine, mutants

LINES = (Path(__file__).parents[2] / "docs" / "mutants.csv").read_text().splitlines()
SHORT = QUICK._replace(
    sampling_runs=40, computed_runs=4, martingale_runs=120, path_rounds=4_096, windows=1
)
LATE = SHORT._replace(path_rounds=QUICK.path_rounds, windows=QUICK.windows)
PUBLISHED = {(race, mistake): said for race, mistake, said in list(csv.reader(LINES))[1:]}
TRIED = list(mutants())
GUARANTEED = {kind.tag() for kind in GUARANTEES}
IN_THE_LONG_FORM = {"lb-inf", "exp3", "tsallis-inf"}
"""Leaders whose mistakes are also made in another leader here, and caught by the same claims."""


SEEN_IN_RACES = {("guarded", mutation) for mutation in ("allowances 1/2", "a lead of 50")}
"""Mistakes of guards that the sharp race makes, too, and that are caught by the same claims."""

BEGINS = ", from round "
LATE_HERE = {
    ("multi-layer-race", "rewards to another layer, from round 5,000"),
    ("guarded", "unlabelled rounds recorded, from round 4,000"),
    ("guarded", "the base told another arm's reward, from round 6,000"),
    ("optimistic-log-barrier", "losses not divided by the probability, from round 2,000"),
    ("tsallis-inf", "a learning rate that stays as it is, from round 1,500"),
    ("leaf-barrier", "rewards to another leaf, from round 1,500"),
    ("expert-barrier", "losses not divided by the probability, from round 2,000"),
    ("expert-barrier", "models that stay as they are, from round 3,000"),
    ("engine", "the attack charged the sum of its changes"),
    ("engine", "the attack shown the arm that is drawn"),
    ("engine", "changes beyond the budget, from round 9,000"),
}
"""Late mistakes that are not left to the long form."""


def begins_late(mutation):
    return mutation is not None and BEGINS in mutation


def tried(race, mutation, policy):
    seen = race in IN_THE_LONG_FORM or (race, mutation) in SEEN_IN_RACES
    long = mutation is not None and (seen or begins_late(mutation))
    marks = [pytest.mark.long] if long and (race, mutation) not in LATE_HERE else []
    return pytest.param(race, mutation, policy, id=f"{race}: {mutation or 'none'}", marks=marks)


def in_engine(mistake):
    marks = [] if ("engine", mistake) in LATE_HERE else [pytest.mark.long]
    return pytest.param(mistake, marks=marks)


def test_the_table_has_every_mutant():
    assert sum(map(len, MUTATIONS.values())) == 10 + 10 + 5 + 38 + 4
    assert sum(map(len, LATE_MISTAKES.values())) + len(ENGINE_MISTAKES) == 21 + 8
    made = {(race, mutation or "none") for race, mutation, _ in TRIED}
    made |= {("engine", mistake) for mistake in ENGINE_MISTAKES}
    assert made >= LATE_HERE
    assert set(PUBLISHED) == made
    assert all((said == "nothing") == (key[1] == "none") for key, said in PUBLISHED.items())


@pytest.mark.parametrize(("race", "mutation", "policy"), [tried(*each) for each in TRIED])
def test_a_mutant_is_caught_by_a_check_that_the_table_names(race, mutation, policy):
    late = begins_late(mutation)
    failed = catch(policy, LATE if late else SHORT, seed=1)
    if mutation is None:
        assert failed == []
    else:
        assert failed
        caught = {f"{check.claim} ({check.theorem})" for check in failed}
        published = set(PUBLISHED[race, mutation].split("; "))
        if race in GUARANTEED and not late:
            assert caught <= published
        else:  # what else a broken leader, or what begins late, violates depends on the path
            assert caught & published


@pytest.mark.parametrize("mistake", [in_engine(each) for each in ENGINE_MISTAKES])
def test_a_mistake_of_the_engine_is_caught(mistake):
    (check,) = catch_in_engine(mistake, LATE, seed=1)
    assert f"{check.claim} ({check.theorem})" == PUBLISHED["engine", mistake]


def test_half_of_the_literal_allowance_suffices_for_the_papers_tolerance_only():
    """Why the true tolerance is tested: at the paper's, half of the room is enough."""
    (policy,) = [p for race, m, p in TRIED if race == "multi-layer-race" and m == "allowances 1/2"]
    state = policy.start(3, 4096)
    spent = allowances_spend(state.rule.allowance, state.share, 1 / state.share)
    assert spent < policy.delta / 8


def test_log_terms_spend_what_they_are_made_for():
    for race, mutation, policy in TRIED:
        if mutation is None and race in GUARANTEED:
            state = policy.start(3, 4096)
            if race == "guarded":
                rule, layers = state.race.rule, state.race.share.size
                spent = intervals_spend("kl-jeffreys", rule.log_lower, rule.log_upper, 3, 4096)
                # Layer i of the guard may fail with probability delta/4^i.
                assert spent == pytest.approx(0.1 / 3 * (1 - 4.0**-layers))
                continue
            kind = "paper" if race == "multi-layer-race" else "kl-jeffreys"
            spent = intervals_spend(kind, state.rule.log_lower, state.rule.log_upper, 3, 4096)
            layers = state.share.size
            paper = 0.1**2 / (8 * 3 * 4096 * layers)
            expected = paper if kind == "paper" else 0.1 / 3 * layers / (layers + 1)
            assert spent == pytest.approx(expected)
