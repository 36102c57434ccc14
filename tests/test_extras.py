"""A package that is not installed is named in one sentence, with the extra that brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
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
    command = [sys.executable, "-c", SCRIPT, package, use]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0
    sentence = f"needs the package {package}; install it with: pip install 'armrace[{extra}]'."
    assert done.stderr.splitlines()[-1].endswith(sentence)
