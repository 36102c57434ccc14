"""One base error; every subclass has a stable code."""

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
