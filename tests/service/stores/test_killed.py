"""A process that is killed at any moment has kept everything that it acknowledged."""

from __future__ import annotations

from torture.kills import kill_writers

KILLS = 3


def test_killed_writers_lose_nothing_that_they_acknowledged(tmp_path):
    _, rewarded = kill_writers(tmp_path / "clicks.db", KILLS)
    assert rewarded > 5 * KILLS
