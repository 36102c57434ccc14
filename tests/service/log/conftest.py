"""A PostgreSQL of the tests' own, in a temporary folder, stopped at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from databases import Postgres


@pytest.fixture(scope="session")
def postgres():
    with tempfile.TemporaryDirectory(prefix="armrace-pg-") as folder:
        server = Postgres(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
