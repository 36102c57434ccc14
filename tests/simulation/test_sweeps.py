"""Sweeps that are cut short in every way, started twice, and taken up again."""

import json
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest

import armrace
from armrace.errors import DamagedFile, UnwritableOutput, WorkersLost
from armrace.files import locked
from armrace.simulation import make_experiment, sweeps
from armrace.simulation.replication import run_replication
from armrace.simulation.simulate import run_experiments
from armrace.simulation.storage import StoredResult
from armrace.simulation.sweeps import finished_cells, run_sweep


def cell(budget, replications=4, policies=("ucb1", "exp3"), horizon=300, seed=5):
    return [
        make_experiment(
            policy=policy,
            environment=[0.6, 0.5],
            adversary="zero-best",
            budget=budget,
            horizon=horizon,
            replications=replications,
            seed=seed,
        )
        for policy in policies
    ]


CELLS = [cell(0.0), cell(10.0), cell(20.0)]


@pytest.fixture
def played(monkeypatch):
    """The replications that were really played, as pairs of policy and number."""
    pairs = []
    usual = sweeps.run_missing

    def run(experiments, missing, *rest):
        for experiment, numbers in zip(experiments, missing, strict=True):
            pairs.extend((experiment.policy.tag(), number) for number in numbers)
        return usual(experiments, missing, *rest)

    monkeypatch.setattr(sweeps, "run_missing", run)
    return pairs


@pytest.fixture
def eager(monkeypatch):
    """Writes whatever is finished at once."""
    monkeypatch.setattr(sweeps, "_SECONDS_BETWEEN_WRITES", -1.0)


def assert_same(found, cells):
    for results, experiments in zip(found, cells, strict=True):
        for result, other in zip(results, run_experiments(experiments, workers=1), strict=True):
            assert result.rows.equals(other.rows)
            assert result.rows.schema == other.rows.schema
            assert result.view == other.view
            assert result.spec == other.spec
            assert not result.interrupted


def test_a_sweep_is_what_its_cells_are_and_a_second_one_plays_nothing(tmp_path, played):
    for _ in range(2):
        assert_same(run_sweep(CELLS, tmp_path), CELLS)
        assert len(played) == 3 * 2 * 4
    # The folder holds one result an experiment and nothing else.
    specs = [armrace.load(file).spec for file in tmp_path.iterdir()]
    named = sorted((spec["policy"]["name"], spec["budget"]) for spec in specs)
    assert named == [(name, budget) for name in ("exp3", "ucb1") for budget in (0.0, 10.0, 20.0)]


def test_more_replications_play_only_what_is_new_and_fewer_nothing(tmp_path, played):
    run_sweep([cell(10.0)], tmp_path)
    played.clear()
    more = [cell(10.0, replications=7)]
    assert_same(run_sweep(more, tmp_path), more)
    assert sorted(played) == [(name, number) for name in ("exp3", "ucb1") for number in (4, 5, 6)]
    played.clear()
    fewer = [cell(10.0, replications=2)]
    assert_same(run_sweep(fewer, tmp_path), fewer)
    assert played == []


def test_without_curves_the_ends_are_kept_and_do_not_pass_for_the_whole(tmp_path, played):
    (ends,) = run_sweep([cell(10.0)], tmp_path, curves=False)
    (whole,) = run_sweep([cell(10.0)], tmp_path)
    assert len(played) == 2 * 2 * 4
    for end, result in zip(ends, whole, strict=True):
        assert end.rows.equals(result.final)
        assert result.rows.height > end.rows.height


def test_ctrl_c_in_mid_cell_keeps_what_is_finished(tmp_path, played):
    def interrupt(done, total):
        if done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(CELLS, tmp_path, workers=1, report=interrupt)
    first, second, third = finished_cells(CELLS, tmp_path)
    assert first is not None
    assert second is third is None
    before = len(played)
    played.clear()
    assert_same(run_sweep(CELLS, tmp_path), CELLS)
    assert 0 < len(played) < 3 * 2 * 4
    assert before - 2 * 4 > 0


def test_replications_that_an_interruption_left_out_are_played_when_asked_for(tmp_path, played):
    (many,) = cell(10.0, replications=6, policies=("ucb1",))
    StoredResult(many, tmp_path).add({number: run_replication(many, number) for number in (0, 4)})
    for replications, missing in ((3, [1, 2]), (5, [3]), (6, [5])):
        asked = [cell(10.0, replications=replications, policies=("ucb1",))]
        assert finished_cells(asked, tmp_path) == [None]
        assert_same(run_sweep(asked, tmp_path), asked)
        assert [number for _, number in played] == missing
        played.clear()
        (file,) = tmp_path.iterdir()
        assert armrace.load(file).interrupted == (replications == 3)


def audited(replications):
    experiments = cell(10.0, replications=replications, policies=("ucb1",))
    return [msgspec.structs.replace(experiment, audit=0.05) for experiment in experiments]


def test_audits_are_stored_with_the_replications(tmp_path, eager, played):
    run_sweep([audited(3)], tmp_path)
    for replications in (5, 2):
        (found,) = run_sweep([audited(replications)], tmp_path)
        for result, other in zip(found, run_experiments(audited(replications)), strict=True):
            assert len(other.audits) == replications
            assert result.audits == other.audits
            assert result.to_builtins()["audit"] == other.to_builtins()["audit"]
    assert len(played) == 5


@pytest.mark.parametrize("change", [{"seed": 6}, {"horizon": 301}, {"budget": 11.0}])
def test_whatever_changes_the_figures_changes_the_name(tmp_path, change):
    (one,) = cell(10.0, policies=("ucb1",))
    other = msgspec.structs.replace(one, **change)
    assert StoredResult(one, tmp_path).whole != StoredResult(other, tmp_path).whole


def test_a_damaged_file_is_refused(tmp_path):
    (one,) = cell(10.0, policies=("ucb1",))
    StoredResult(one, tmp_path).whole.write_text("no Parquet")
    with pytest.raises(DamagedFile, match="remove it, and its part is played again"):
        run_sweep([[one]], tmp_path)


def test_what_another_has_claimed_is_left_to_it(tmp_path, played):
    ours, theirs = cell(10.0)
    other = StoredResult(theirs, tmp_path)
    found = []
    with locked([other.lock]) as had:
        assert had == [True]
        run = threading.Thread(target=lambda: found.extend(run_sweep([[ours, theirs]], tmp_path)))
        run.start()
        deadline = time.monotonic() + 30
        while not StoredResult(ours, tmp_path).whole.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(2 * sweeps._SECONDS_BETWEEN_LOOKS)
        assert {name for name, _ in played} == {"ucb1"}
    run.join(30)
    assert {name for name, _ in played} == {"ucb1", "exp3"}
    assert_same(found, [[ours, theirs]])


SCRIPT = """
import json, resource, sys
from armrace.simulation import sweeps, make_experiment

cells = [
    [make_experiment(policy=policy, environment=[0.6, 0.5], adversary="zero-best", budget=budget,
                     horizon=HORIZON, replications=12, seed=5) for policy in ("ucb1", "exp3")]
    for budget in (0.0, 10.0, 20.0, 30.0)
]
played, usual = [], sweeps.run_missing

def run(experiments, missing, *rest):
    played.append(sum(map(len, missing)))
    return usual(experiments, missing, *rest)

sweeps.run_missing = run
sweeps._SECONDS_BETWEEN_WRITES = 0.05

def report(done, total):
    if done > 1:
        AFTER_A_CELL
    print(flush=True)

if __name__ == "__main__":
    try:
        found = sweeps.run_sweep(cells, sys.argv[1], workers=1, report=report)
    except sweeps.ArmraceError as error:
        print(json.dumps([str(error)]))
    else:
        pulls = [r.final["pulls"].to_list() for results in found for r in results]
        print(json.dumps([sum(played), pulls]))
"""
EVERYTHING = 4 * 2 * 12


def start(folder, horizon, after_a_cell="pass"):
    script = SCRIPT.replace("HORIZON", str(horizon)).replace("AFTER_A_CELL", after_a_cell)
    return subprocess.Popen(
        [sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True
    )


def answer(process):
    output, _ = process.communicate(timeout=120)
    return json.loads(output.splitlines()[-1])


def test_two_processes_at_once_play_nothing_twice(tmp_path):
    both = [start(tmp_path, 30_000) for _ in range(2)]
    (one, pulls), (other, others) = map(answer, both)
    assert one + other == EVERYTHING
    assert pulls == others


def test_a_sweep_that_is_killed_in_mid_cell_goes_on(tmp_path):
    with start(tmp_path, 300_000) as process:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("*-*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    parts = [armrace.load(part).replications for part in tmp_path.glob("*.parquet")]
    assert parts
    assert max(parts) < 12
    again, pulls = answer(start(tmp_path, 300_000))
    assert again == EVERYTHING - sum(parts)
    assert answer(start(tmp_path, 300_000)) == [0, pulls]


def test_a_full_disk_loses_nothing_and_says_what_to_do(tmp_path):
    full = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))"
    (words,) = answer(start(tmp_path, 300, full))
    assert words.startswith("cannot write ")
    assert words.endswith(
        f"; make room there: what was finished is in {tmp_path}, and the same command goes on from "
        "there."
    )
    assert not list(tmp_path.glob(".*"))
    again, _ = answer(start(tmp_path, 300))
    assert 0 < again <= EVERYTHING - 2 * 12


def test_lost_workers_lose_nothing_and_say_what_to_do(tmp_path, played, monkeypatch):
    usual = sweeps.run_missing

    def lose(experiments, missing, executor, workers, progress, receive):
        one = [numbers[:1] for numbers in missing]
        usual(experiments, one, executor, workers, progress, receive)
        raise WorkersLost("the scheduler is gone.")

    monkeypatch.setattr(sweeps, "run_missing", lose)
    with pytest.raises(WorkersLost) as loss:
        run_sweep(CELLS, tmp_path)
    assert str(loss.value) == (
        f"the scheduler is gone; what was finished is in {tmp_path}, and the same command goes on "
        "from there."
    )
    monkeypatch.setattr(sweeps, "run_missing", usual)
    played.clear()
    run_sweep(CELLS, tmp_path)
    assert len(played) == 3 * 2 * 4 - 2


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnwritableOutput, match="it is a file"):
        run_sweep(CELLS, tmp_path / "file")
