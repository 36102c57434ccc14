"""A process that is killed at any moment has kept everything that it acknowledged."""

from __future__ import annotations

from torture.kills import kill_often

KILLS = 8


def test_killed_servers_and_writers_lose_nothing_that_they_acknowledged(tmp_path):
    found = kill_often(tmp_path, range(KILLS))
    assert (found["server"], found["writer"]) == (6, 2)
    assert found["rewarded"] > 5 * KILLS
