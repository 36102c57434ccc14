"""The distribution of the client is small and starts fast."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import armrace_client
from processes import python

PROJECT = Path(__file__).parents[2] / "client"
HEAVY = {"armrace", "numpy", "numba", "scipy", "polars", "matplotlib"}
MOST_BYTES = 20 * 2**20


def loaded(program):
    names = f"{program}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = python("-c", names, check=True)
    return set(done.stdout.split())


def test_everything_is_exported():
    for name in armrace_client.__all__:
        assert getattr(armrace_client, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'client'"):
        armrace_client.client  # noqa: B018


def test_the_client_imports_nothing_heavy():
    assert not loaded("from armrace_client import *") & HEAVY


def test_the_declarations_alone_do_not_import_http():
    assert not loaded("import armrace_client.operations, armrace_client.leases") & {
        "httpx2",
        *HEAVY,
    }


@pytest.mark.long
def test_the_distribution_with_its_dependencies_is_small(tmp_path):
    python = tmp_path / "environment" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    base = folder_size(tmp_path)
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-compile", PROJECT],
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"the package index cannot be reached: {done.stderr[-300:]}")
    assert folder_size(tmp_path) - base <= MOST_BYTES
    program = "import armrace_client; print(armrace_client.Client('http://localhost').names)"
    subprocess.run([python, "-c", program], env={}, check=True, cwd=tmp_path)


def folder_size(folder):
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
