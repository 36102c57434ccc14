"""The disk cache: kept between processes, and never stale when code of the user's changes."""

import os
import shutil
import textwrap
import types

import pytest

import armrace
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.machine_code import trusted_folders
from forking import Nursery


def fingerprint_of(source, **modules):
    """The fingerprint of the function ``f`` of a module made of ``source``."""
    module = types.ModuleType("users_own")
    for name, content in modules.items():
        other = types.ModuleType(name)
        exec(textwrap.dedent(content), vars(other))
        setattr(module, name, other)
    exec(textwrap.dedent(source), vars(module))
    return fingerprint([module.f])


REPLACEMENTS = {
    "a constant in the code": "def f(x): return x + {}",
    "a global number": """
        K = {}
        def f(x): return x + K
        """,
    "a global numpy number": """
        import numpy as np
        K = np.int64({})
        def f(x): return x + K
        """,
    "a global array": """
        import numpy as np
        K = np.array([{}, 5])
        def f(x): return x + K[0]
        """,
    "a helper's helper": """
        def h(x): return x + {}
        def g(x): return h(x)
        def f(x): return g(x)
        """,
    "a helper's global": """
        K = {}
        def g(x): return x + K
        def f(x): return g(x)
        """,
    "a compiled helper": """
        import numba
        @numba.njit
        def g(x): return x + {}
        def f(x): return g(x)
        """,
    "a helper within a comprehension": """
        def g(x): return x + {}
        def f(x): return [g(y) for y in x]
        """,
    "a value closed over": """
        def make(k):
            def f(x): return x + k
            return f
        f = make({})
        """,
    "a function closed over": """
        def g(x): return x + {}
        def make(k):
            def f(x): return k(x)
            return f
        f = make(g)
        """,
    "a default": "def f(x, k={}): return x + k",
    "a recursive helper": """
        def f(x): return g(x)
        def g(x): return f(x - 1) if x else {}
        """,
    "an enumeration": """
        import enum
        class E(enum.IntEnum):
            A = {}
        def f(x): return x + E.A
        """,
}


@pytest.mark.parametrize("source", REPLACEMENTS.values(), ids=REPLACEMENTS)
def test_the_fingerprint_changes_with(source):
    one, again, two = (fingerprint_of(source.format(number)) for number in (1, 1, 2))
    assert one == again != two


@pytest.mark.parametrize(
    ("source", "content"),
    [
        ("def f(x): return helpers.g(x)", "def g(x): return x + {}"),
        ("def f(x): return x + helpers.K", "K = {}"),
    ],
    ids=["a function of a module", "a constant of a module"],
)
def test_the_fingerprint_follows_modules(source, content):
    one, two = (fingerprint_of(source, helpers=content.format(number)) for number in (1, 2))
    assert one != two


def test_an_implementation_of_this_package_stands_for_its_file():
    from armrace.policies.exp3 import exp3_choose, exp3_ix_learn, exp3_learn

    assert fingerprint([exp3_learn, exp3_choose]) == fingerprint([exp3_learn, exp3_choose])
    assert fingerprint([exp3_learn]) != fingerprint([exp3_ix_learn])


POLICY = """
from typing import NamedTuple

import numpy as np

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.policies import Policy

ARM = {arm}


class AlwaysState(NamedTuple):
    plays: np.ndarray


class Always(Policy, frozen=True, tag="always"):
    def start(self, arms, horizon):
        return AlwaysState(np.zeros(1, dtype=np.int64))


@inlined
def favourite():
    return ARM


@implement(distribution, AlwaysState)
def always_distribution(state, out):
    out.fill(0.0)
    out[favourite()] = 1.0


@implement(choose, AlwaysState)
def always_choose(state, stream):
    return make_ticket(favourite())


@implement(assign, AlwaysState)
def always_assign(state, ticket):
    return ticket


@implement(learn, AlwaysState)
def always_learn(state, ticket, reward):
    state.plays[0] += 1
"""

RUN = """
import armrace
from always import Always

result = armrace.simulate(Always(), [0.5, 0.5, 0.5], horizon=100, replications=1)
print(*result.final["pulls"].to_list()[0])
"""


PREPARATION = """
import armrace, armrace.simulation.simulate, numba, sys

sys.dont_write_bytecode = True  # a module that is changed within a second would be read from it
numba.njit(lambda x: x + 1)(1)  # loads the compiler
"""


@pytest.fixture(scope="module")
def nursery():
    with Nursery.started(PREPARATION) as nursery:
        yield nursery


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """One cache for all tests, with rewards and attacks, which are the same for all policies."""
    armrace.simulate("ucb1", [0.5, 0.5, 0.5], horizon=10, replications=1)
    cache = tmp_path_factory.mktemp("cache")
    for file in (file for folder in trusted_folders() for file in folder.glob("*.nbc")):
        if not file.name.startswith(("compiled_", "live_")):
            shutil.copy(file, cache)
    return cache


@pytest.fixture
def run_in_a_process_of_its_own(tmp_path, cache, nursery):
    """Runs a script beside the user's policy; returns what it printed and the files cached."""

    def run(script, arm):
        (tmp_path / "always.py").write_text(POLICY.replace("{arm}", str(arm)))
        before = set(cache.rglob("*compiled_run*.nbc"))
        # Machine code may be among the temporary files too, left by a run without a home.
        own = {"NUMBA_CACHE_DIR": str(cache), "TMPDIR": str(tmp_path)}
        environment = {**os.environ, **own}
        answer = nursery.run(script, folder=tmp_path, environment=environment)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout.strip(), len(set(cache.rglob("*compiled_run*.nbc")) - before)

    return run


def test_a_changed_policy_of_the_users_is_never_served_stale(run_in_a_process_of_its_own):
    assert run_in_a_process_of_its_own(RUN, arm=1) == ("0 100 0", 1)
    assert run_in_a_process_of_its_own(RUN, arm=1) == ("0 100 0", 0)
    assert run_in_a_process_of_its_own(RUN, arm=2) == ("0 0 100", 1)


def test_a_policy_in_the_users_script_does_not_fill_the_disk(run_in_a_process_of_its_own):
    script = POLICY.replace("{arm}", "1") + RUN.replace("from always import Always", "")
    assert run_in_a_process_of_its_own(script, arm=0) == ("0 100 0", 0)


def test_a_replaced_implementation_is_refused_or_takes_effect_but_is_never_stale(
    run_in_a_process_of_its_own,
):
    replacing = """
from always import AlwaysState
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import choose, make_ticket

try:
    @implement(choose, AlwaysState)
    def always_choose(state, stream):
        return make_ticket(1)
except TypeError:
    print("0 100 0")
    raise SystemExit from None
"""
    printed, _ = run_in_a_process_of_its_own(RUN + replacing + RUN, arm=0)
    assert printed == "100 0 0\n0 100 0"
