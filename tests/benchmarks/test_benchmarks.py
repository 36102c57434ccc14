"""The quick form runs, and what it compares plays the same algorithm. Nothing is timed here."""

import json
from pathlib import Path

import numpy as np
import pytest

from processes import python

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _benchmarks_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)


@pytest.fixture
def needs_compiler() -> None:
    from benchmarks.plain_c import compiler

    if compiler() is None:
        pytest.skip("no C compiler here")


@pytest.mark.usefixtures("needs_compiler")
def test_quick_form_runs_and_its_checks_of_agreement_pass(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    finished = python("-m", "benchmarks", "--quick", "--json", str(written), cwd=ROOT)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    content = json.loads(written.read_text())
    from benchmarks.contexts import PROGRAMS
    from benchmarks.speed import MATCHES

    assert len(content["agreements"]) == 2 * len(MATCHES) + len(PROGRAMS)
    assert all(agreement["holds"] for agreement in content["agreements"])
    names = {figure["name"] for figure in content["figures"]}
    assert {*(match.name for match in MATCHES), *PROGRAMS, "peak memory, T = 10^7"} <= names
    assert all(figure["value"] > 0 for figure in content["figures"])


@pytest.mark.usefixtures("needs_compiler")
def test_c_programs_play_every_round_and_find_the_best_arm() -> None:
    from benchmarks.plain_c import compile_program, run_program
    from benchmarks.problem import EASY
    from benchmarks.speed import MATCHES

    for match in MATCHES:
        program = compile_program(match.program)
        run = run_program(program, EASY, horizon=50_000, replications=2, seed=3)
        assert (run.pulls.sum(axis=1) == 50_000).all()
        if match.adversary == "none":
            assert (run.pulls.argmax(axis=1) == 0).all()
        assert run.pulls[0].tolist() != run.pulls[1].tolist()


def test_agreement_can_fail() -> None:
    from benchmarks.agreement import compare_runs
    from benchmarks.problem import HARD

    generator = np.random.default_rng(5)
    fair, other = ([share] + [(1 - share) / 9] * 9 for share in (0.60, 0.61))
    ours, same = (generator.multinomial(100_000, fair, size=20) for _ in range(2))
    assert compare_runs("same", HARD, 100_000, ours, same).holds
    changed = generator.multinomial(100_000, other, size=20)
    assert not compare_runs("changed", HARD, 100_000, ours, changed).holds


@pytest.mark.parametrize(
    ("value", "ratio", "at_least", "reached"),
    [
        (1.0, None, False, True),
        (3.0, None, False, False),
        (9.0, 1.5, False, True),
        (1.0, 1.5, True, False),
        (1.0, 2.0, True, True),
        (None, None, False, False),
    ],
)
def test_target_is_for_the_ratio_if_there_is_one(
    value: float | None, ratio: float | None, at_least: bool, reached: bool
) -> None:
    from benchmarks.figures import Figure

    figure = Figure("name", value, "s", ratio=ratio, target=2.0, at_least=at_least)
    assert figure.reached is reached


def test_every_peer_has_a_script() -> None:
    from benchmarks.libraries import PEERS

    for peer in PEERS:
        assert (ROOT / "benchmarks" / "peers" / peer.script).is_file()


def test_every_compared_policy_has_a_player_that_should_agree() -> None:
    from benchmarks.agreement_with_peers import PAIRS
    from benchmarks.libraries import PEERS

    scripts = {peer.name: peer.script.replace("play_", "pulls_") for peer in PEERS}
    for pair in PAIRS:
        script = ROOT / "benchmarks" / "peers" / scripts[pair.peer]
        assert f'"{pair.player}":' in script.read_text(encoding="utf-8")
    agreeing = {pair.policy for pair in PAIRS if pair.same}
    assert agreeing == {"ucb1", "kl-ucb", "moss", "thompson", "exp3", "tsallis-inf"}
