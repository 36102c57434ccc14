"""Bad input: exit code 2, one sentence on standard error, nothing on standard output."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from armrace.cli.main import run

RACE = ["simulate", "multi-layer-race"]
PLAN = ["plan", "--means", "0.5,0.4", "--traffic", "1000"]

REFUSED = [
    ([*RACE, "--means", "0.5"], "means must name at least 2 arms; got 1."),
    ([*RACE, "--means", "0.5,1.2"], "each of means must be in [0, 1]; got 1.2."),
    ([*RACE, "--means", "0.5,x"], "each of means must be a number; got 'x'."),
    ([*RACE, "--horizon", "0"], "horizon must be in [1, 1e+15]; got 0."),
    ([*RACE, "--horizon", "abc"], "horizon must be a whole number; got 'abc'."),
    ([*RACE, "--delta", "0"], "delta must be in (0, 1); got 0."),
    ([*RACE, "--delta", "0.1", "--set", "delta=0.2"], "delta is given twice"),
    (["simulate", "ucb1", "--delta", "0.1"], "ucb1 has no delta; leave --delta out."),
    ([*RACE, "--budget", "-1"], "budget must be at least 0; got -1."),
    ([*RACE, "--replications", "0"], "replications must be in [1, "),
    ([*RACE, "--seed", "-1"], "seed must be in [0, "),
    ([*RACE, "--workers", "0"], "workers must be at least 1; got 0."),
    (["simulate", "multilayer-race"], "did you mean 'multi-layer-race'?"),
    ([*RACE, "--attack", "zero-bst"], "did you mean 'zero-best'?"),
    (["compare", "click"], "did you mean 'click-fraud'?"),
    (["compare", "--policies", "ubc1"], "did you mean 'ucb1'?"),
    (["compare", "--policies", ","], "policies must name at least one; got ','."),
    ([*RACE, "--set", "delta"], "--set takes key=value, such as delta=0.1; got 'delta'."),
    ([*RACE, "--set", "delta="], "--set takes key=value"),
    ([*RACE, "--set", "delta=0.1", "--set", "delta=0.2"], "--set gives delta twice."),
    ([*RACE, "--set", "gamma=1"], "multi-layer-race has no parameter 'gamma'"),
    ([*RACE, "--set", "name=ucb1"], "--set sets parameters, and name is not one of them."),
    (["compare", "--policies", "ucb1", "--set", "ucb1.name=exp3"], "name is not one of them."),
    ([*RACE, "--set", "layers=100"], "layers must be in [1, 60]; got 100."),
    ([*RACE, "--attack", "swap-best", "--attack-set", "decoy=9"], "decoy must be an arm in [0, 2]"),
    ([*RACE, "--environment", "bet"], "did you mean 'beta'?"),
    ([*RACE, "--environment", "beta", "--means", "0.1,0.2"], "--means makes Bernoulli arms"),
    ([*RACE, "--environment-set", "alphas=1"], "--environment-set needs --environment"),
    ([*RACE, "--json", "/nowhere/x.json"], "cannot write /nowhere/x.json: No such file"),
    ([*RACE, "--output", "/"], "cannot write /: it is a folder, not a file."),
    ([*RACE, "--output", "/dev/null"], "it is a device, not a file."),
    (["compare", "--report", "/nowhere/x.html"], "cannot write /nowhere/x.html"),
    (["compare", "--budget", "0,x"], "budget must be a number; got 'x'."),
    (["compare", "--budget", "0,-1"], "budget must be at least 0; got -1."),
    (["compare", "--attack", "zero-best,swap-bst"], "did you mean 'swap-best'?"),
    (
        ["compare", "--attack", "swap-best,outage", "--attack-set", "decoy=1"],
        "--attack-set needs a single --attack; got swap-best, outage.",
    ),
    (["arena", "--quick", "--full"], "--quick and --full exclude each other"),
    (["arena", "--folder", "/dev/null"], "cannot write into /dev/null: it is a file."),
    (["plan"], "traffic is missing; give --traffic, or --time with a --log."),
    ([*PLAN, "--traffic", "much"], "traffic must be a number; got 'much'."),
    ([*PLAN, "--forged", "1.5%%"], "forged must be a number; got '1.5%'."),
    ([*PLAN, "--arms", "2"], "means say all of the arms"),
    ([*PLAN, "--report", "-"], "only --json takes - for standard output; give the name of a file."),
    (["compare", "--report", "-"], "only --json takes - for standard output"),
    ([*RACE, "--output", "-"], "only --json takes - for standard output"),
    (["compare", "--folder", ""], "invalid value for '--folder': its name is empty; see armrace"),
    ([*PLAN, "--report", ""], "invalid value for '--report': its name is empty; see armrace"),
    (["attacks", "--json", ""], "invalid value for '--json': its name is empty; see armrace"),
    ([*RACE, "--attack", ""], "there is no attack named ''; there are "),
    ([*RACE, "--budget", ""], "budget must be a number; got ''."),
    ([*RACE, "--means", "5%,x%"], "each of means must be a number; got 'x'."),
    ([*RACE, "--delta", "100%"], "delta must be in (0, 1); got 1."),
    (["compare", "--policies", "all,ucb1"], "there is no policy named 'all'"),
    (["compare", "--measure", "speed"], "there is no measure named 'speed'; there are "),
    (["compare", "--set", "delta=1"], "--set takes policy.key=value here, such as sharp-race"),
    (["compare", "--set", "moss.x=1"], "--set must name one of the policies that are compared"),
    (["compare", "--set", "ucb1.x=1"], "ucb1 has no parameter 'x'"),
    (["compare", "--environment-set", "a=1"], "--environment-set needs --environment"),
    ([*RACE, "--output", "/tmp/x.txt"], "output must end in .parquet, .csv, .json or .ndjson; got"),
    ([*RACE, "--set", f"x={'[' * 5000}"], "x must not nest lists deeper than 20; got '[[["),
    ([*RACE, "--means", "1e-999999999999999999999%,2"], "each of means must be in [0, 1]; got 2."),
    (["policies", "--json", "/nowhere/x.json"], "cannot write /nowhere/x.json"),
    (["simulate"], "missing argument 'POLICY'; see armrace simulate --help."),
    (["simulat"], "did you mean 'simulate'?"),
    ([*RACE, "--qqq"], "no such option: --qqq; see armrace simulate --help."),
    ([*RACE, "--horizn", "5"], "no such option: --horizn; did you mean --horizon?"),
    ([*RACE, "--horizon"], "requires an argument"),
    ([*RACE, "more"], "unexpected extra argument"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSED, ids=lambda part: str(part)[-40:])
def test_is_refused_with_one_sentence(arguments, sentence, capsys):
    assert run(arguments) == 2
    output, error = capsys.readouterr()
    assert output == ""
    assert sentence in error
    assert error.startswith("armrace: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "row", [0, 18, 47, *(pytest.param(row, marks=pytest.mark.long) for row in (5, 33, 49))]
)
def test_is_refused_by_the_program_itself(row):
    arguments, sentence = REFUSED[row]
    program = Path(sys.executable).with_name("armrace")
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_link_to_itself_is_refused(tmp_path, capsys):
    link = tmp_path / "loop.parquet"
    link.symlink_to(link)
    for option in ("--json", "--output"):
        assert run([*RACE, option, str(link)]) == 2
        error = capsys.readouterr().err
        assert error == f"armrace: cannot write {link}: its links form a circle.\n"


PROGRAM = [sys.executable, "-m", "armrace"]


def test_a_full_standard_output_is_refused():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "policies", "--json", "-"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "armrace: cannot write standard output: No space left on device.\n"


def test_a_closed_standard_output_is_refused():
    command = shlex.join([*PROGRAM, "policies"]) + " >&-"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "armrace: cannot write standard output: it is closed.\n"


@pytest.mark.parametrize("more", ["", "--json -"])
def test_a_reader_that_has_gone_ends_the_program_quietly(more):
    command = f"{shlex.join(PROGRAM)} policies {more} | true"
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, text=True, check=False)
    assert done.stderr == ""


def test_nothing_is_overwritten_by_a_refused_run(tmp_path, capsys):
    kept = tmp_path / "figures.json"
    kept.write_text("precious")
    refused = [
        [*RACE, "--horizon", "0", "--json", str(kept)],
        [*RACE, "--json", str(kept), "--output", str(tmp_path)],
        [*RACE, "--json", str(kept), "--output", str(kept)],
        ["compare", "--json", str(kept), "--report", "/nowhere/x.html"],
    ]
    for arguments in refused:
        assert run(arguments) == 2
    assert kept.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [kept]
    assert capsys.readouterr().err.count("\n") == len(refused)
