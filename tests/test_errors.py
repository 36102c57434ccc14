"""One base error with stable codes, and one sentence for a package that is not installed."""

import subprocess
import sys

import pytest

from armrace import errors
from armrace.errors import ArmraceError, UnknownName
from armrace.policies import POLICIES

CODES = {
    "ArmraceError": "error",
    "BrokenPolicy": "broken-policy",
    "DamagedFile": "damaged-file",
    "ForeignTicket": "foreign-ticket",
    "AlreadyExists": "already-exists",
    "NotRunning": "not-running",
    "Outdated": "outdated",
    "Overloaded": "overloaded",
    "TooManyOpen": "too-many-open",
    "RequestFailed": "request-failed",
    "RewardConflict": "reward-conflict",
    "DecisionExpired": "decision-expired",
    "ServiceUnreachable": "service-unreachable",
    "StoreInUse": "store-in-use",
    "StoreFailed": "store-failed",
    "InvalidParameter": "invalid-parameter",
    "UnknownName": "unknown-name",
    "BadFeature": "bad-feature",
    "MissingFeature": "missing-feature",
    "UnknownFeature": "unknown-feature",
    "UnwritableOutput": "unwritable-output",
    "WorkersLost": "workers-lost",
}
WARNINGS = {"BrokenExtension": "broken-extension"}


def test_the_codes_are_stable():
    codes = {name: getattr(errors, name).code for name in errors.__all__}
    assert codes == CODES | WARNINGS


@pytest.mark.parametrize("name", CODES)
def test_every_error_can_be_caught_as_ours(name):
    with pytest.raises(ArmraceError, match="a sentence"):
        raise getattr(errors, name)("a sentence.")


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
