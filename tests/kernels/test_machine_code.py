"""Machine code on disk: shared by processes, and never trusted, needed or fatal."""

import os
import random
import shutil

import llvmlite.binding
import pytest

from armrace.kernels import machine_code
from armrace.kernels.machine_code import trusted_folders
from forking import Nursery
from processes import python

SCRIPT = """
import resource, sys
from armrace.kernels.compiling import entry, is_stored

if "full-disk" in sys.argv:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

@entry("0123456789abcdef")
def add(x, y):
    return x + y

print(add(1, 2), add(1.5, 2), sum(add.stats.cache_hits.values()), is_stored(add))
"""

PREPARATION = """
import armrace.cli.main, armrace.kernels.compiling, numba

numba.njit(lambda x: x + 1)(1)  # loads the compiler
"""


@pytest.fixture(scope="module")
def nursery():
    with Nursery.started(PREPARATION) as nursery:
        yield nursery


class Machine:
    """Processes with a cache, a home and temporary files of their own."""

    def __init__(self, root, nursery):
        self.nursery = nursery
        self.cache, self.home, self.temporary = root / "cache", root / "home", root / "tmp"
        self.home.mkdir()
        self.temporary.mkdir()
        usual = {k: v for k, v in os.environ.items() if k not in {"XDG_CACHE_HOME", "HOME"}}
        self.environment = {
            **usual,
            "NUMBA_CACHE_DIR": str(self.cache),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
        }

    def run(self, *arguments, script=SCRIPT, **environment):
        """What the script prints on standard output and standard error."""
        given = {**self.environment, **environment}
        answer = self.nursery.run(script, *arguments, environment=given)
        answer.check_returncode()
        return answer.stdout.strip(), answer.stderr.strip()

    def start(self, script=SCRIPT, **environment):
        """As :meth:`run`, in an interpreter that starts from nothing."""
        answer = python("-c", script, env={**self.environment, **environment}, check=True)
        return answer.stdout.strip(), answer.stderr.strip()

    def files(self):
        return sorted(self.cache.rglob("*.nbc"))


@pytest.fixture
def machine(tmp_path, nursery):
    return Machine(tmp_path, nursery)


@pytest.fixture(scope="module")
def stored(tmp_path_factory, nursery):
    """A cache in which the script's machine code is stored."""
    machine = Machine(tmp_path_factory.mktemp("stored"), nursery)
    assert machine.run() == COMPILED
    return machine.cache


@pytest.fixture
def used_machine(machine, stored):
    """A machine on which the script has run before."""
    shutil.copytree(stored, machine.cache)
    return machine


COMPILED, LOADED = ("3 3.5 0 True", ""), ("3 3.5 2 True", "")


def test_the_next_process_finds_what_one_has_compiled(machine):
    assert machine.start() == COMPILED
    assert len(machine.files()) == 2
    assert machine.start() == LOADED
    assert not list(machine.cache.rglob("*.tmp"))


BEFORE_USE = (
    SCRIPT.rpartition("print")[0]
    + """
import numba

print(is_stored(add))
numba.__version__ += ".later"
print(is_stored(add))
"""
)


def test_only_code_that_this_process_can_use_counts_as_stored(used_machine):
    """Or ``warm-up`` would skip a function that the first run then compiles without a word."""
    assert used_machine.run(script=BEFORE_USE)[0].split() == ["True", "False"]
    file = used_machine.files()[0]
    file.write_bytes(file.read_bytes()[:-1])
    assert used_machine.run(script=BEFORE_USE)[0].split() == ["False", "False"]


def test_the_users_cache_directory_is_used_unless_another_is_named(machine):
    assert machine.run(NUMBA_CACHE_DIR="") == COMPILED
    assert list((machine.home / ".cache" / "armrace").glob("*.nbc"))
    assert machine.run(NUMBA_CACHE_DIR="") == LOADED


DAMAGES = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "random bytes": lambda data: random.Random(1).randbytes(len(data)),
    "a flipped bit": lambda data: data[:-100] + bytes([data[-100] ^ 1]) + data[-99:],
    "longer": lambda data: data + b"x",
    "a pickle that ends the process": lambda data: b"cos\n_exit\n(I3\ntR.",
}


SEVERAL = (
    SCRIPT.rpartition("print")[0]
    + """
import numpy as np

for kind in (np.int8, np.int16, np.int32, np.int64, np.float32, np.float64):
    print(add(kind(1), kind(2)), add.stats.cache_hits[add.signatures[-1]])
"""
)
assert len(DAMAGES) == 6


def test_damaged_files_are_compiled_again(machine):
    def found():
        lines = [line.split() for line in machine.run(script=SEVERAL)[0].splitlines()]
        assert [float(total) for total, _ in lines] == [3.0] * 6
        return [int(hits) for _, hits in lines]

    assert found() == [0] * 6
    for file, damage in zip(machine.files(), DAMAGES.values(), strict=True):
        file.write_bytes(damage(file.read_bytes()))
    assert found() == [0] * 6
    assert found() == [1] * 6


def test_what_is_no_file_is_not_read(used_machine):
    """Reading a pipe waits forever, and reading a device may never end."""
    pipe, device = used_machine.files()
    pipe.unlink()
    os.mkfifo(pipe)
    device.unlink()
    device.symlink_to("/dev/zero")
    assert used_machine.run() == COMPILED
    assert used_machine.run() == LOADED


def test_a_full_disk_costs_the_cache_only(machine):
    found, words = machine.run("full-disk")
    assert found == "3 3.5 0 False"
    assert words == (
        f"armrace: cannot store compiled code in {machine.cache} (File too large), so every "
        "process compiles again; set NUMBA_CACHE_DIR to a folder that lasts and that only you "
        "can write."
    )
    assert not [file for file in machine.cache.iterdir() if file.stat().st_size]


@pytest.mark.parametrize("chosen", [{"NUMBA_CACHE_DIR": "/proc/none"}, {"NUMBA_CACHE_DIR": ""}])
def test_a_container_without_a_place_to_write_uses_a_temporary_folder(machine, chosen):
    nowhere = {**chosen, "HOME": "/proc/none"}
    found, words = machine.run(**nowhere)
    assert found == "3 3.5 0 True"
    (substitute,) = machine.temporary.iterdir()
    assert words.startswith("armrace: cannot store compiled code in /proc/none")
    assert words.endswith(
        f"so {substitute} takes its place; set NUMBA_CACHE_DIR to a folder that lasts and that "
        "only you can write."
    )
    assert "\n" not in words
    assert substitute.stat().st_mode & 0o777 == 0o700
    assert machine.run(**nowhere) == LOADED


def test_a_cache_that_others_can_write_is_not_trusted(used_machine):
    """What is read is executed, so that another user's file would run as this user."""
    used_machine.cache.chmod(0o777)
    found, words = used_machine.run()
    assert found == COMPILED[0]
    (substitute,) = used_machine.temporary.iterdir()
    assert words == (
        f"armrace: cannot store compiled code in {used_machine.cache} (other users can write to "
        f"it), so {substitute} takes its place; set NUMBA_CACHE_DIR to a folder that lasts and "
        "that only you can write."
    )
    assert used_machine.run() == LOADED


def test_a_file_that_others_can_write_is_compiled_again(used_machine):
    for file in used_machine.files():
        file.chmod(0o666)
    assert used_machine.run() == COMPILED
    assert {file.stat().st_mode & 0o777 for file in used_machine.files()} == {0o600}
    assert used_machine.run() == LOADED


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("given_away", ["folder", "files"])
def test_what_another_user_owns_is_compiled_again(used_machine, given_away):
    paths = used_machine.files() if given_away == "files" else [used_machine.cache]
    for path in paths:
        os.chown(path, 12345, -1)
    assert used_machine.run()[0] == COMPILED[0]


def test_what_is_not_used_for_long_is_removed(used_machine):
    old = used_machine.cache / "other.fingerprint-0.nbc"
    old.write_bytes(b"old")
    os.utime(old, (0, 0))
    for file in used_machine.files():
        if file != old:
            file.unlink()
    used_machine.run()
    assert not old.exists()
    assert len(used_machine.files()) == 2


def test_a_command_survives_a_damaged_cache(machine):
    command = """
import sys
from armrace.cli.main import run

sys.exit(run(["simulate", "ucb1", "--attack", "zero-best", "--budget", "5",
              "--horizon", "100", "--replications", "2", "--json", "-"]))
"""
    # Where the tests keep machine code, so that nothing is compiled for this.
    usual = next(trusted_folders())
    good, words = machine.start(command, NUMBA_DISABLE_JIT="1", NUMBA_CACHE_DIR=str(usual))
    machine.cache.mkdir()
    damaged = {}
    for number, file in enumerate(sorted(usual.glob("*.nbc"))):
        damaged[file.name] = b"" if number % 2 else random.Random(number).randbytes(1000)
        (machine.cache / file.name).write_bytes(damaged[file.name])
    again, _ = machine.run(script=command)
    compiled = [file for file in machine.files() if file.read_bytes() != damaged[file.name]]
    assert len(compiled) == 3  # the run, its rewards and what the attack changes
    assert words.count("NUMBA_DISABLE_JIT") == 1
    assert _without_times(good) == _without_times(again)


def _without_times(printed):
    return [line for line in printed.splitlines() if "second" not in line]


IN_A_WHEEL = (
    """
import sys
from pathlib import Path
from armrace.kernels import machine_code

machine_code._PACKAGED_FOLDER = Path(sys.argv[1])
if "older-processor" in sys.argv:
    machine_code._FEATURES += " no-processor-has-this"
if "other-numpy" in sys.argv:
    machine_code.numpy_version = (99, 0)
"""
    + SCRIPT
)


@pytest.fixture(scope="module")
def packaged(tmp_path_factory, nursery):
    """A folder as a wheel brings it, with the script's machine code."""
    machine = Machine(tmp_path_factory.mktemp("packaged"), nursery)
    processor = {"NUMBA_CPU_NAME": machine_code.PACKAGED, "NUMBA_CPU_FEATURES": ""}
    assert machine.start(**processor) == COMPILED
    return machine.cache


@pytest.mark.skipif(
    not llvmlite.binding.get_host_cpu_features().get("avx2"),
    reason="the processor is older than x86-64-v3",
)
def test_machine_code_of_a_wheel_is_used_and_not_stored_again(machine, packaged):
    packaged.chmod(0o777)  # as trusted as the modules beside it, whoever owns both
    assert machine.run(str(packaged), script=IN_A_WHEEL) == LOADED
    assert not machine.files()


@pytest.mark.parametrize("change", ["older-processor", "other-numpy"])
def test_machine_code_of_a_wheel_is_left_alone_where_it_does_not_fit(machine, packaged, change):
    assert machine.run(str(packaged), change, script=IN_A_WHEEL) == COMPILED
    assert len(machine.files()) == 2


def test_damaged_machine_code_of_a_wheel_is_compiled(machine, packaged, tmp_path):
    folder = tmp_path / "damaged"
    shutil.copytree(packaged, folder)
    for file in folder.glob("*.nbc"):
        file.write_bytes(file.read_bytes()[:-1])
    assert machine.run(str(folder), script=IN_A_WHEEL) == COMPILED


def test_machine_code_names_no_folder_of_the_machine_that_made_it(packaged):
    for file in packaged.glob("*.nbc"):
        contents = file.read_bytes()
        assert os.fsencode(machine_code.__file__) not in contents
        assert b"# File" not in contents  # the annotated source, which names its file
