"""What is true holds, what is broken is caught, and the figures are what they are said to be."""

import json
import sys

import numpy as np
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import InvalidParameter, UnknownName
from armrace.policies import MultiLayerRace, Ucb1
from armrace.reports.checks import render_verification
from armrace.statistics import clopper_pearson
from armrace.verification import ERROR_PROBABILITY, Verification, verify
from armrace.verification.claims import (
    QUICK,
    mean_at_least,
    rarely,
    slope_above,
    slope_at_most,
)
from armrace.verification.contexts import CHECKED_CONTEXTUAL
from armrace.verification.guarantees import CHECKED, make_subject
from armrace.verification.leader_guarantees import CHECKED_LEADERS
from armrace.verification.theorems import lemma_claims, race_lower_bounds, regret_claims
from armrace.verification.verify import make_claims, try_claims
from reports.test_page import outline
from verification.broken import (
    EagerElimination,
    HalvedWidths,
    TripledWidths,
)
from verification.mutants import BROKEN

SMALL = QUICK._replace(
    runs=40,
    horizon=20_000,
    close=(400.0, 10_000),
    sampling_runs=40,
    path_rounds=4_096,
    growth_runs=4,
    growth_horizon=400_000,
    switch_rounds=(4_000, 8_000),
)


SHORT = SMALL._replace(
    runs=20,
    sampling_runs=20,
    growth_runs=6,  # growth is shown at 1% divided by all rows, too little for 4 runs
    switch_rounds=QUICK.switch_rounds,
    computed_runs=4,
    martingale_runs=120,
    path_rounds=4_096,
    windows=1,
)
"""All claims about all races in half of the time of the quick form; ``make verify`` is longer."""


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[dict], str]:
    """Exit code, figures and page of the quick form, shortened, as a user gets them."""
    folder = tmp_path_factory.mktemp("verify")
    figures, page = folder / "figures.json", folder / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[make_claims.__module__], "QUICK", SHORT)
        code = run(["verify", "--quick", "--json", str(figures), "--report", str(page)])
    return code, json.loads(figures.read_text()), page.read_text()


def test_every_claim_holds(quick):
    code, rows, _ = quick
    assert [row for row in rows if row["verdict"] != "holds"] == []
    assert code == 0


def test_every_race_and_every_claim_is_tried(quick):
    rows = quick[1]
    assert {row["policy"] for row in rows} == {
        *CHECKED, *CHECKED_LEADERS, *CHECKED_CONTEXTUAL, "ucb1",
    }  # fmt: skip
    attacks = {"zero-best-when-likely", "swap-best", "aae-opening", "adaptive-constant"}
    for race in set(CHECKED) - {"active-arm-elimination"}:
        own = [row for row in rows if row["policy"] == race]
        assert len({row["claim"] for row in own}) >= 7
        for attack in attacks:
            assert sum(attack in row["setting"] for row in own) >= 3


def test_every_leader_is_tried_without_corruption_and_under_every_attack(quick):
    for leader in CHECKED_LEADERS:
        own = [row for row in quick[1] if row["policy"] == leader]
        bounds = [row for row in own if "expected pseudo-regret" in row["claim"]]
        named = " ".join(row["setting"] for row in bounds)
        for attack in ("no attack", "zero-best-when-likely", "adaptive-constant", "two-phase"):
            assert attack in named
        assert sum("for any rewards" in row["claim"] for row in own) == 2
        assert len({row["claim"] for row in own}) >= 10


def test_rows_have_what_scripts_rely_on(quick):
    rows = quick[1]
    level = ERROR_PROBABILITY / len(rows)
    for row in rows:
        assert {"claim", "setting", "runs", "failures", "interval", "verdict"} <= row.keys()
        assert row["theorem"]
        assert (row["seed"], row["version"], row["form"]) == (0, armrace.__version__, "quick")
        low, high = row["interval"]
        assert low <= high
        if row["measure"].startswith("probability"):
            assert [low, high] == list(clopper_pearson(row["failures"], row["runs"], level))
            assert row["verdict"] == ("holds" if low <= row["limit"] else "fails")


def test_the_page_shows_every_row_and_is_well_formed(quick):
    _, rows, text = quick
    page = outline(text)
    assert len(set(page.ids)) == len(page.ids)
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert text.count('<td class="words">') == len(rows)
    assert f"All {len(rows)} claims hold." in text
    assert "armrace verify --quick --seed 0" in text


def refuted(policy, *families) -> set[str]:
    subject = make_subject(policy)
    claims = [claim for family in families for claim in family(subject, SMALL, 1)]
    return {check.claim for check in try_claims(claims) if check.verdict == "fails"}


def test_the_same_small_form_refutes_nothing_of_a_sound_race():
    for race in ("enlarged-arm-elimination", "multi-layer-race"):
        assert refuted(race, lemma_claims) == set()


def test_tripled_widths_are_caught_by_plays_and_by_regret():
    found = refuted(TripledWidths(delta=0.1), lemma_claims, regret_claims)
    assert found == {
        "a tolerant layer plays a bad arm at most N(a) times",
        "the regret is below the theorem's bound",
        "the regret grows linearly in C, no faster than its bound",
        "without corruption the regret grows like log T, no faster than its bound",
    }


def test_no_room_for_corruption_is_caught_by_survival_and_by_regret():
    found = refuted(EagerElimination(delta=0.1), lemma_claims, regret_claims)
    assert "no tolerant layer deletes the best arm" in found
    assert "the regret grows linearly in C, no faster than its bound" in found


def test_hidden_rounds_and_the_switch_are_forced_on_races():
    assert refuted("active-arm-elimination", race_lower_bounds) == set()


def test_verdicts_of_probabilities():
    failed = np.zeros(200, dtype=bool)
    assert rarely(failed, 0.0, 0.01).holds
    failed[:1] = True
    assert not rarely(failed, 0.0, 0.01).holds
    assert rarely(failed, 0.05, 0.01).holds
    failed[:40] = True
    found = rarely(failed, 0.05, 0.01)
    assert not found.holds
    assert (found.runs, found.failures) == (200, 40)


def test_verdicts_of_means_and_slopes():
    generator = np.random.default_rng(0)
    sample = 10 + generator.normal(size=50)
    assert mean_at_least(sample, 10.0, 0.01).holds
    assert not mean_at_least(sample, 11.0, 0.01).holds
    points = np.array([1.0, 2.0, 4.0])
    lines = 3 * points + generator.normal(size=(50, 3))
    assert slope_at_most(points, lines, 3.5, 0.01).holds
    assert not slope_at_most(points, lines, 2.5, 0.01).holds
    assert slope_above(points, lines, 2.5, 0.01).holds
    assert not slope_above(points, lines, 3.0, 0.01).holds
    assert slope_above(points, lines, 100.0, 0.01).failures == 50


def test_a_single_race_and_a_policy_of_ones_own_are_taken():
    subject = make_subject(MultiLayerRace(delta=0.2, layers=8))
    assert subject.regret_failure == 0.2
    sharper = make_subject(MultiLayerRace(delta=0.2, intervals="kl"))
    assert sharper.regret_failure == pytest.approx(0.3)
    assert subject.label == "multi-layer-race (layers=8)"
    assert make_subject("fast-slow-race").policy.delta == 0.1
    assert (
        make_subject(BROKEN[MultiLayerRace]()).guarantee
        is make_subject("multi-layer-race").guarantee
    )


def test_nonsense_is_refused():
    known = r"policies must have a guarantee that is known here \(.*sharp-race.*lb-inf"
    with pytest.raises(InvalidParameter, match=known):
        verify([Ucb1()], quick=True)
    with pytest.raises(InvalidParameter, match="policies must be races whose guarantees are known"):
        verify(["optimistic-log-barrier"], quick=True, asymptotic=True)
    with pytest.raises(UnknownName, match="multi-layer-race"):
        verify(["multi-layer-rice"], quick=True)
    for single in ("sharp-race", {"name": "sharp-race"}, MultiLayerRace(), 5):
        for asymptotic in (False, True):
            with pytest.raises(InvalidParameter, match="policies must be a list of policies; got"):
                verify(single, quick=True, asymptotic=asymptotic)
    with pytest.raises(InvalidParameter, match="at least one policy"):
        verify([], quick=True)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policy", "ucb1"], "policies must have a guarantee that is known here"),
        (["--policy", "multi-layer-rice"], "did you mean 'multi-layer-race'?"),
        (["--seed", "x"], "seed must be a whole number; got 'x'."),
        (["--workers", "0"], "workers must be at least 1; got 0."),
        (["--report", "/no/such/folder/page.html"], "/no/such/folder"),
    ],
)
def test_bad_input_is_refused_before_anything_is_played(arguments, sentence, capsys):
    assert run(["verify", "--quick", *arguments]) == 2
    assert sentence in capsys.readouterr().err


@pytest.fixture
def one_refuted(monkeypatch: pytest.MonkeyPatch) -> Verification:
    """What the command line finds: one claim, about halved widths."""
    claims = list(lemma_claims(make_subject(HalvedWidths(delta=0.1)), SMALL, 0))[2:3]
    found = Verification(try_claims(claims), seed=0, quick=True)
    monkeypatch.setattr("armrace.verification.verify", lambda *args, **kwargs: found)
    return found


def test_a_refuted_claim_ends_with_exit_code_1_and_stands_out(one_refuted, capsys):
    assert one_refuted.verdict == "1 of 1 claims fail."
    assert run(["verify"]) == 1
    printed = capsys.readouterr().out
    assert "fails" in printed
    assert one_refuted.verdict in printed
    assert '<td class="fails">fails</td>' in render_verification(one_refuted, "")
