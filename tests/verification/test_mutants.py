"""Every mistake of the list is caught, by the checks that the documentation names."""

import re
from pathlib import Path

import pytest

from armrace.verification.forms import QUICK
from armrace.verification.guarantees import GUARANTEES
from armrace.verification.leader_mutants import LEADER_MUTATIONS
from armrace.verification.mutants import MUTATIONS, catch, mutants
from armrace.verification.spending import allowances_spend, intervals_spend

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "verifying.md"
SHORT = QUICK._replace(sampling_runs=40, computed_runs=4, martingale_runs=200, replayed_runs=1)
ROW = re.compile(r"^\| `([\w-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PUBLISHED = {(race, mistake): said for race, mistake, said in ROW.findall(GUIDE.read_text())}
TRIED = list(mutants())
GUARANTEED = {kind.tag() for kind in GUARANTEES}
IN_THE_LONG_FORM = {"lb-inf", "exp3", "tsallis-inf"}
"""Leaders whose mistakes are also made in another leader here, and caught by the same claims."""


SEEN_IN_RACES = {("guarded", mutation) for mutation in ("allowances 1/2", "a lead of 50")}
"""Mistakes of guards that the sharp race makes, too, and that are caught by the same claims."""


def tried(race, mutation, policy):
    seen = race in IN_THE_LONG_FORM or (race, mutation) in SEEN_IN_RACES
    long = mutation is not None and seen
    marks = [pytest.mark.long] if long else []
    return pytest.param(race, mutation, policy, id=f"{race}: {mutation or 'none'}", marks=marks)


def test_the_table_has_every_mutant():
    assert len(MUTATIONS) == 10
    assert sum(map(len, LEADER_MUTATIONS.values())) == 38
    assert set(PUBLISHED) == {(race, mutation or "none") for race, mutation, _ in TRIED}


@pytest.mark.parametrize(("race", "mutation", "policy"), [tried(*each) for each in TRIED])
def test_a_mutant_is_caught_by_a_check_that_the_table_names(race, mutation, policy):
    failed = catch(policy, SHORT, seed=1)
    if mutation is None:
        assert failed == []
        assert PUBLISHED[race, "none"] == "nothing"
    else:
        assert failed
        caught = {f"{check.claim} ({check.theorem})" for check in failed}
        published = set(PUBLISHED[race, mutation].split("; "))
        if race in GUARANTEED:
            assert caught <= published
        else:  # what else a broken leader violates depends on the path that it takes
            assert caught & published


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
