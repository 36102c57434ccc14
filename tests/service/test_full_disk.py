"""A server whose disk is full says which file it is about, and stops without a traceback."""

import http.client
import json
import subprocess
import sys
import time

import pytest

from armrace.service.service import open_service
from hosting import free_port
from processes import started

SERVER = """
import sys
from armrace.service.http import server
from armrace.service.log.sqlite import SqliteStore

class Full(SqliteStore):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        pages = self._connection.pragma("page_count") + int(sys.argv[3])
        self._connection.execute(f"PRAGMA max_page_count = {pages}")

server.open_store = lambda place, keyring: Full(place, secrets=(keyring.store_secret(),))
settings = server.ServerSettings(sys.argv[1], port=int(sys.argv[2]))
sys.exit(0 if server.serve(settings, "", print) is None else 1)
"""


@pytest.mark.parametrize(("pages", "stops"), [(8, "by itself"), (12, "when told to")])
def test_a_full_disk_is_named_and_ends_without_a_traceback(tmp_path, pages, stops):
    place, port = tmp_path / "clicks.db", free_port()
    with open_service(place) as service:
        service.create("ads", [f"arm {arm}" for arm in range(200)], 0, seed=1)
        key = service.keyring.create(["admin"])[1]
    command = [sys.executable, "-c", SERVER, str(place), str(port), str(pages)]
    with started(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        while "Listening" not in server.stderr.readline():
            assert server.poll() is None, server.stderr.read()
        answer = decide(port, key, 1000 if stops == "by itself" else 1)
        if stops == "when told to":
            assert answer == 200
            server.terminate()
        _, said = server.communicate(timeout=30)
    assert "Traceback" not in said
    if stops == "by itself":
        last = json.loads(said.splitlines()[-1])["message"]
        assert f"{place} cannot be used: database or disk is full" in last
        assert last.endswith("; the service stops, and replays its log next time.")
        assert server.returncode == 1
    else:
        assert json.loads(said)["event"] == "stop"


def decide(port, key, count):
    """Ask for decisions, and return the status of the last answer."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    body = json.dumps({"decisions": [{}] * count})
    for _ in range(100):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.request("POST", "/v1/experiments/ads/decide/batch", body, headers)
            status = connection.getresponse().status
        except ConnectionError:
            time.sleep(0.1)
        else:
            if status != 200 or count == 1:
                return status
        finally:
            connection.close()
    return None
