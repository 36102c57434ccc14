"""A PostgreSQL of the tests' own, in a temporary folder, stopped at the end."""

import tempfile
from pathlib import Path

import psycopg
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


@pytest.fixture
def place(postgres):
    """A database of the test's own."""
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("CREATE DATABASE own")
    yield postgres.place.replace("/postgres?", "/own?")
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("DROP DATABASE own WITH (FORCE)")
