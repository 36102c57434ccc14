"""Compiling ahead: in several processes, shown while it lasts, found on disk afterwards."""

import os
import shutil

import pytest

import armrace
from armrace.errors import InvalidParameter, UnknownName
from armrace.kernels.machine_code import trusted_folders
from armrace.policies import POLICIES
from armrace.simulation import compilation, make_experiment
from armrace.simulation.compilation import Unit, compile_units
from armrace.specification import is_importable
from forking import Nursery

PROBE = """
from armrace.simulation import make_experiment
from armrace.kernels.compiling import is_stored
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.replication import make_parts, runner_for
from constant_policies import First, Second

def is_compiled(experiment):
    return is_stored(runner_for(make_parts(experiment, 0)))

policies = [First(), Second()]  # with an attack, as many units as are worth processes
experiments = [make_experiment(policy=each, environment=[0.5, 0.4], horizon=9) for each in policies]
print([is_compiled(experiment) for experiment in experiments])
compile_experiments(experiments)
print([is_compiled(experiment) for experiment in experiments])
compile_experiments(experiments)
"""
PREPARATION = """
import armrace.cli.main, armrace.cli.simulate, armrace.learner, armrace.simulation.simulate, numba

numba.njit(lambda x: x + 1)(1)  # loads the compiler
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a script with a cache in a process of its own."""
    # Machine code may be among the temporary files too, left by a run without a home.
    temporary = tmp_path_factory.mktemp("temporary")
    with Nursery.started(PREPARATION) as nursery:

        def run(script, cache):
            own = {"NUMBA_CACHE_DIR": str(cache), "TMPDIR": str(temporary)}
            environment = {**os.environ, **own}
            answer = nursery.run(script, environment=environment)
            assert answer.returncode == 0, answer.stderr
            return answer

        yield run


@pytest.fixture(scope="module")
def probed(tmp_path_factory, run):
    """A cache that the probe has filled, and its answer; later tests add what they compile.

    It begins with the code that draws rewards, which is no part of what is asked for.
    """
    armrace.simulate("ucb1", [0.5, 0.4], horizon=10, replications=1)
    cache = tmp_path_factory.mktemp("cache")
    for folder in trusted_folders():
        for file in folder.glob("flip_and_count*.nbc"):
            shutil.copy(file, cache)
    return cache, run(PROBE, cache)


def test_one_line_says_what_is_compiled_and_one_when_it_is(probed, run):
    cache, answer = probed
    assert answer.stdout.splitlines() == [str([False] * 2), str([True] * 2)]
    first, *_, last = answer.stderr.splitlines()
    assert first.startswith("armrace: compiling 1 attack and 2 policies, once; about ")
    assert last.startswith("armrace: compiled in ")
    again = run(PROBE, cache)
    assert again.stdout.splitlines() == [str([True] * 2)] * 2
    assert again.stderr == ""


def note(file):
    with open(file, "a") as notes:  # noqa: PTH123
        notes.write(f"{os.getpid()}\n")


def fail(file):
    note(file)
    raise ValueError("cannot be compiled")


def end(file):
    note(file)
    os._exit(1)


def units(file, call, number):
    return [Unit("policy", f"p{n}", 0.1, call, file, True) for n in range(number)]


def test_several_units_are_compiled_by_other_processes(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    file = tmp_path / "notes"
    compile_units(units(file, note, 6), False)
    processes = file.read_text().split()
    assert len(processes) == 6
    assert str(os.getpid()) not in processes
    assert len(set(processes)) <= 2


@pytest.mark.parametrize("call", [fail, end])
def test_what_other_processes_fail_at_is_left_to_its_use(tmp_path, call):
    file = tmp_path / "notes"
    compile_units(units(file, call, compilation._WORTH_PROCESSES), False)
    assert str(os.getpid()) not in file.read_text().split()


def test_few_units_start_no_process(tmp_path):
    file = tmp_path / "notes"
    compile_units(units(file, note, compilation._WORTH_PROCESSES - 1), False)
    assert set(file.read_text().split()) == {str(os.getpid())}


def test_warm_up_leaves_nothing_to_compile(probed, run):
    cache, _ = probed
    script = """
import os
import armrace
from armrace.learner import Learner

policy = "constant_policies:First"  # whose loop the probe has compiled
armrace.warm_up([policy], ["zero-best"])
print(sorted(os.listdir(os.environ["NUMBA_CACHE_DIR"])))
armrace.simulate(policy, [0.6, 0.4], "zero-best", 5.0, horizon=100, replications=1)
learner = Learner(policy, 2, horizon=100)
learner.learn(learner.decide(), 1.0)
"""
    first = run(script, cache)
    lines = first.stderr.splitlines()  # others in between, where it takes minutes
    assert lines[0].startswith("armrace: compiling 1 attack and 1 learner, once; ")
    assert lines[-1].startswith("armrace: compiled in ")
    stored = str(sorted(file.name for file in cache.iterdir()))
    assert first.stdout.strip() == stored
    again = run(script, cache)
    assert again.stderr == ""
    assert again.stdout.strip() == stored
    assert str(sorted(file.name for file in cache.iterdir())) == stored


def test_the_command_says_where_the_machine_code_is(probed, run):
    cache, _ = probed
    script = """
import sys
from armrace.cli.main import run

sys.exit(run(["warm-up", "--policies", "constant_policies:First", "--attacks", "outage",
              "--no-learners"]))
"""
    first, *_, last = run(script, cache).stderr.splitlines()
    assert first.startswith("armrace: compiling ")
    assert last == f"The machine code is in {cache}."
    assert run(script, cache).stderr.splitlines() == [last]


def test_wrong_requests_are_refused():
    with pytest.raises(InvalidParameter, match="policies must be a list"):
        armrace.warm_up("ucb1")
    with pytest.raises(InvalidParameter, match="adversaries must be a list"):
        armrace.warm_up(["ucb1"], [])
    with pytest.raises(UnknownName, match="did you mean 'ucb1'"):
        armrace.warm_up(["ubc1"])


def test_numbers_make_no_difference_to_what_is_compiled():
    from armrace.simulation.compilation import _kind

    def made(**changes):
        given = {"policy": "ucb1", "environment": [0.6, 0.4], "horizon": 100, **changes}
        return _kind(make_experiment(**given))

    assert made() == made(seed=4, horizon=1000, environment=[0.5, 0.4, 0.3])
    assert made() != made(policy="exp3")
    assert made() != made(audit=0.05)
    assert made() != made(horizon=10**8)


def test_a_policy_inside_another_is_compiled_ahead_too():
    kinds = {
        compilation._kind(
            make_experiment(
                policy={"name": "guarded", "base": {"name": "robust-ucb", "estimator": estimator}},
                environment=[0.5, 0.4],
                horizon=10,
            )
        )
        for estimator in ("catoni", "truncated")
    }
    assert len(kinds) == 2


def test_what_another_process_cannot_import_is_compiled_here():
    class Local(POLICIES["ucb1"], frozen=True, tag="local"):
        pass

    class OfAScript(POLICIES["ucb1"], frozen=True, tag="of-a-script"):
        pass

    OfAScript.__module__, OfAScript.__qualname__ = "__main__", "OfAScript"
    guarded = POLICIES["guarded"]
    assert is_importable(guarded(base=POLICIES.make("ucb1")))
    for own in (Local(), OfAScript()):
        assert not is_importable(own)
        assert not is_importable(guarded(base=own))
        made = make_experiment(policy=guarded(base=own), environment=[0.5, 0.4], horizon=10)
        assert not compilation._unit(made.policy, 1.0, print, made).elsewhere
