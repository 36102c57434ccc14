"""One tenant's heavy requests must not hold up another tenant's decisions."""

import http.client
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import numpy as np
import pytest

from armrace.service.service import open_service
from hosting import free_port
from processes import started

MANY = 10_000
LARGE = [str(arm) for arm in range(MANY)]
KINDS = ["audit", "list", "draw", "eligible", "export", "retract"]
SERVER = """
import sys
from armrace.service.http.server import ServerSettings, serve

serve(ServerSettings(sys.argv[1], port=int(sys.argv[2])), "", print)
"""
NEIGHBOUR = """
import http.client, itertools, json, sys

port, key, kinds = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + key}
names = [str(arm) for arm in range(1000)]
# As many names at once as a body can have; a thousand times a thousand is several of them.
batch = json.dumps({"decisions": [{"eligible": names}] * 37}).encode()
whole = json.dumps({"decisions": [{"eligible": names}] * 1000}).encode()
wanted = {
    "audit": [("GET", "/audit", None)],
    "list": [("GET", "", None), ("GET", "/history", None)],
    "draw": [("POST", "/decide", b"{}")] * 20
    + [("POST", "/decide/batch", json.dumps({"decisions": [{}] * 1000}).encode())],
    "eligible": [("POST", "/decide/batch", batch)] * 27 + [("POST", "/decide/batch", whole)],
    "export": [("GET", "/export", None)],
    "retract": [("POST", action, b'{"sources": ["bots"]}') for action in ("/retract", "/release")],
}
connection = http.client.HTTPConnection("127.0.0.1", port)
for kind in itertools.cycle(kinds):
    for method, path, body in wanted[kind]:
        connection.request(method, "/v1/experiments/large" + path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status not in (200, 413):
            sys.exit(content.decode())
        print(kind, flush=True)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    place = tmp_path_factory.mktemp("neighbours") / "log.db"
    with open_service(place) as service:
        service.create("small", ["a", "b", "c"], 0, window=0.5, seed=1)
        keys = [service.keyring.create(["admin"], tenant)[1] for tenant in ("main", "other")]
    with open_service(place, tenant="other") as service:
        service.create("large", LARGE, 0, window=0.5, most_open=10_000_000, seed=1)
        for _ in range(3):
            made = service.decide_many("large", 5000)
            service.reward_many([(each, 1.0) for each in made[::3]], source="bots")
    listening = free_port()
    with started([sys.executable, "-c", SERVER, place, str(listening)]):
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            try:
                decide_for((listening, keys[0]), 1)
            except OSError:
                time.sleep(0.1)
            else:
                break
        decide_for((listening, keys[0]), 200)
        yield listening, *keys


def decide_for(server, count, seconds=0.0):
    """How long each of ``count`` decisions took, or of those that were made in some seconds."""
    port, key = server[:2]
    found, headers = [], {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
    end = time.perf_counter() + seconds
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while len(found) < count or time.perf_counter() < end:
            began = time.perf_counter()
            connection.request("POST", "/v1/experiments/small/decide", b"{}", headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            found.append(time.perf_counter() - began)
            time.sleep(0.001)
    return 1e3 * np.array(found)


@contextmanager
def neighbour(server, *kinds):
    command = [sys.executable, "-c", NEIGHBOUR, str(server[0]), server[2], *kinds]
    with started(command, stdout=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        assert first.strip() in kinds, first
        yield
        assert process.poll() is None


def p99(times):
    return float(np.quantile(times, 0.99))


@pytest.mark.long
@pytest.mark.parametrize("kinds", [*([kind] for kind in KINDS), KINDS], ids="+".join)
def test_each_kind_of_heavy_request(server, kinds):
    quiet = decide_for(server, 500, seconds=5)
    with neighbour(server, *kinds):
        busy = decide_for(server, 500, seconds=15)
    ratio = p99(busy) / p99(quiet)
    print(f"{kinds}: p99 {p99(quiet):.2f} ms quiet, {p99(busy):.2f} ms beside, {ratio:.1f} times")
    assert ratio <= 5
