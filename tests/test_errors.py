"""One base error with stable codes, and one sentence for a package that is not installed."""

import subprocess
import sys

import pytest

from armrace import errors
from armrace.errors import ArmraceError, UnknownName
from armrace.policies import POLICIES

CODES = """
    broken-policy damaged-file foreign-ticket already-exists not-running outdated overloaded
    too-many-open request-failed reward-conflict decision-expired service-unreachable store-in-use
    store-failed invalid-parameter unknown-name bad-feature missing-feature unknown-feature
    unwritable-output workers-lost
"""
"""Of errors; each is named as its class is."""


def test_the_codes_are_stable():
    codes = {getattr(errors, name).code for name in errors.__all__}
    assert codes == {"error", *CODES.split(), "broken-extension"}


@pytest.mark.parametrize("code", CODES.split())
def test_every_error_is_named_as_its_code_and_can_be_caught_as_ours(code):
    kind = getattr(errors, code.title().replace("-", ""))
    assert kind.code == code
    with pytest.raises(ArmraceError, match="a sentence"):
        raise kind("a sentence.")


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("InvalidParameter", ValueError),
        ("UnknownName", LookupError),
        ("UnwritableOutput", OSError),
        ("DamagedFile", ValueError),
        ("ForeignTicket", ValueError),
        ("WorkersLost", RuntimeError),
    ],
)
def test_every_error_can_be_caught_as_what_python_would_raise(name, builtin):
    assert issubclass(getattr(errors, name), builtin)


def test_an_unknown_name_suggests_the_nearest():
    error = UnknownName.among("policy", "ubc1", ["exp3", "ucb1"])
    assert str(error) == "there is no policy named 'ubc1'; did you mean 'ucb1'?"


@pytest.mark.parametrize("name", [None, 5, ["ucb1"]])
def test_a_name_that_is_no_text_is_unknown(name):
    with pytest.raises(UnknownName, match="there is no policy named "):
        POLICIES.find(name)


def test_an_unknown_name_far_from_all_lists_them():
    error = UnknownName.among("policy", "qqqq", ["ucb1", "exp3"])
    assert str(error) == "there is no policy named 'qqqq'; there are exp3, ucb1."


WITHOUT_PACKAGE = """
import sys
sys.modules[sys.argv[1]] = None  # as if it were not installed
exec(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("package", "use", "extra"),
    [
        ("apsw", "import armrace; armrace.open('x.db')", "service"),
        ("psycopg", "import armrace; armrace.open('postgresql://x/y', keys='x-keys')", "postgres"),
        ("starlette", "from armrace.cli.main import run; sys.exit(run(['serve']))", "service"),
        (
            "distributed",
            "import armrace; armrace.simulate('ucb1', [0.5, 0.4], horizon=10, replications=2, "
            "executor='dask', progress=False)",
            "dask",
        ),
    ],
)
def test_a_missing_package_is_named_with_its_extra(package, use, extra, tmp_path):
    command = [sys.executable, "-c", WITHOUT_PACKAGE, package, use]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0
    sentence = f"needs the package {package}; install it with: pip install 'armrace[{extra}]'."
    assert done.stderr.splitlines()[-1].endswith(sentence)
