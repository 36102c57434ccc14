"""Servers and writers that are killed while they work, and what they had acknowledged.

``python -m torture.kills --kills 1000`` is the campaign. Three in four kills are of an HTTP server
with clients on several connections, the others of a process that uses the store itself in several
threads and keeps one experiment in memory; some come while the store is opened. All of a
part are on one store. Both decide, reward, void, and report draws of leases, in two experiments.
"""

import json
import random
import socket
import tempfile
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import armrace
from armrace_client.leases import Draws
from serving import is_replay
from torture.campaign import Campaign
from torture.zygote import EXPERIMENTS, SETTINGS, Zygote

_CLIENTS = 4
_MOST = 1000
"""How many rewards a request may hold."""


class _Acknowledged:
    """What was acknowledged on one store: arms, rewards and voids of decisions."""

    def __init__(self) -> None:
        self.arms: dict[str, str] = {}
        self.rewards: dict[str, float] = {}
        self.recent: dict[str, float] = {}
        """The rewards since the last check."""
        self.voided: set[str] = set()
        self.unanswered: dict[str, str] = {}
        """Requests for decisions without an answer, which are repeated, by their experiment."""

    def note_decisions(self, decisions: list[dict[str, Any]]) -> None:
        for each in decisions:
            assert self.arms.setdefault(each["decision"], each["arm"]) == each["arm"]

    def note_reward(self, decision: str, value: float) -> None:
        self.rewards[decision] = self.recent[decision] = value


class _Connection:
    """A connection to the server, on which each request must be answered with 200."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, path: str, body: object) -> Any:
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status in (200, 201), content
        return json.loads(content)

    def close(self) -> None:
        self._connection.close()


class _Client(threading.Thread):
    """Decides and rewards until the server is gone."""

    def __init__(self, port: int, seed: int, known: _Acknowledged) -> None:
        super().__init__()
        self._port, self._rng, self._known = port, random.Random(seed), known
        self.error: BaseException | None = None

    def run(self) -> None:
        connection = _Connection(self._port)
        try:
            while True:
                self._visit(connection)
        except (OSError, HTTPException):
            pass  # killed
        except BaseException as error:
            self.error = error
        finally:
            connection.close()

    def _visit(self, connection: _Connection) -> None:
        rng, known, name = self._rng, self._known, self._rng.choice(EXPERIMENTS)
        if rng.random() < 0.1:
            self._use_lease(connection, f"/v1/experiments/{name}/leases")
        requests = [f"{rng.getrandbits(60):x}" for _ in range(rng.choice([1, 1, 5, 20]))]
        asked = [{"request": each} for each in requests]
        known.unanswered.update(dict.fromkeys(requests, name))
        if len(asked) == 1:
            made = [connection.ask(f"/v1/experiments/{name}/decide", asked[0])]
        else:
            body = {"decisions": asked}
            made = connection.ask(f"/v1/experiments/{name}/decide/batch", body)["decisions"]
        known.note_decisions(made)
        for each in requests:
            del known.unanswered[each]
        if rng.random() < 0.1:
            chosen = made.pop()["decision"]
            connection.ask(f"/v1/experiments/{name}/void", {"decisions": [chosen]})
            known.voided.add(chosen)
        value = rng.choice([0.0, 1.0])
        rewards = [{"decision": each["decision"], "value": value} for each in made]
        if len(rewards) == 1:
            answers = [connection.ask("/v1/rewards", rewards[0])]
        else:
            answers = connection.ask("/v1/rewards/batch", {"rewards": rewards})["rewards"]
        for each, answer in zip(made, answers, strict=True):
            assert answer["status"] == "accepted", answer
            known.note_reward(each["decision"], value)

    def _use_lease(self, connection: _Connection, path: str) -> None:
        lease = connection.ask(path, {"visits": 5})
        seed = bytes.fromhex(lease["seed"])
        visits = [{"draw": number, "value": 1.0} for number in range(5)]
        body = {"lease": lease["lease"], "visits": visits}
        for number, said in enumerate(connection.ask(f"{path}/report", body)["visits"]):
            assert said["status"] == "accepted", said
            arm = lease["arms"][Draws(seed, lease["stream"], lease["weights"]).arm(number)]
            self._known.note_decisions([{"decision": said["decision"], "arm": arm}])
            self._known.note_reward(said["decision"], 1.0)


def kill_often(folder: Path, numbers: range) -> Counter[str]:
    """Start and kill processes on one store; check that nothing acknowledged is lost.

    Returns:
        How many kills there were of each form, and how much had been acknowledged.
    """
    known, store, port = _Acknowledged(), folder / "clicks.db", free_port()
    found: Counter[str] = Counter()
    with Zygote.started() as zygote:
        for number in numbers:
            rng = random.Random(number)
            if number % 4:
                found["server"] += 1
                _kill_server(zygote, store, port, rng, known)
            else:
                found["writer"] += 1
                _kill_writer(zygote, store, folder / f"output-{number}", rng, known)
    _check(store, known)
    found.update(decided=len(known.arms), rewarded=len(known.rewards), voided=len(known.voided))
    return found


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _kill_server(
    zygote: Zygote, store: Path, port: int, rng: random.Random, known: _Acknowledged
) -> None:
    process = zygote.fork_server(store, port)
    clients: list[_Client] = []
    try:
        if rng.random() < 0.1:
            time.sleep(rng.uniform(0.0, 0.3))  # it has not finished starting
            return
        connection = _wait_for(port)
        for name in EXPERIMENTS:
            connection.ask("/v1/experiments", {"name": name, **SETTINGS})
        _repeat(connection, known)
        connection.close()
        clients += [_Client(port, rng.getrandbits(60), known) for _ in range(_CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(rng.uniform(0.0, 0.4))
    finally:
        zygote.kill(process)
        for client in clients:
            client.join()
    for client in clients:
        if client.error is not None:
            raise client.error


def _wait_for(port: int) -> _Connection:
    """Wait until the server is ready, and return a connection."""
    until = time.monotonic() + 60
    while True:
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return _Connection(port)
        except OSError:
            time.sleep(0.005)
        finally:
            connection.close()
        assert time.monotonic() < until, "the server does not become ready"


def _repeat(connection: _Connection, known: _Acknowledged) -> None:
    """Say again what was acknowledged of late, and ask again what was not answered."""
    recent = list(known.recent.items())
    for start in range(0, len(recent), _MOST):
        part = recent[start : start + _MOST]
        rewards = [{"decision": each, "value": value} for each, value in part]
        answers = connection.ask("/v1/rewards/batch", {"rewards": rewards})["rewards"]
        assert {answer["status"] for answer in answers} == {"duplicate"}
    known.recent.clear()
    for request, name in sorted(known.unanswered.items()):
        made = connection.ask(f"/v1/experiments/{name}/decide", {"request": request})
        known.note_decisions([made])
    known.unanswered.clear()


def _kill_writer(
    zygote: Zygote, store: Path, output: Path, rng: random.Random, known: _Acknowledged
) -> None:
    process = zygote.fork_writer(store, output)
    try:
        if rng.random() < 0.1:
            time.sleep(rng.uniform(0.0, 0.2))
        else:
            until = time.monotonic() + 60
            while not (output.exists() and output.stat().st_size):
                assert time.monotonic() < until, "the writer does not become ready"
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.4))
    finally:
        zygote.kill(process)
    lines = output.read_text().splitlines(keepends=True) if output.exists() else []
    for kind, decision, said in (line.split() for line in lines[1:] if line.endswith("\n")):
        if kind == "d":
            known.arms[decision] = said
        elif kind == "r":
            known.note_reward(decision, float(said))
        else:
            known.voided.add(decision)


def _check(store: Path, known: _Acknowledged) -> None:
    """Read the logs and compare."""
    with armrace.open(store) as service:
        rows = {
            (service.engine.locate("main", name), row.decision): row
            for name in EXPERIMENTS
            for row in service.rows(name)
        }
        keys = service.keyring.signing_keys()
        found = {each: rows[keys.read("main", each)[:2]] for each in known.arms}
        assert {each: row.arm for each, row in found.items()} == known.arms
        assert {each: found[each].reward for each in known.rewards} == known.rewards
        assert all(found[each].void for each in known.voided), "a visit is back"
        asked = Counter(each.request for each in rows.values() if not each.void)
        del asked[None]
        assert set(asked.values()) <= {1}, "a request led to several decisions"
        assert all(is_replay(service, name) for name in EXPERIMENTS)


def _run(numbers: range) -> Counter[str]:
    with tempfile.TemporaryDirectory() as folder:
        return kill_often(Path(folder), numbers)


def main() -> None:
    """Run a campaign and print its figures."""
    campaign = Campaign("torture.kills", "kills", 100, "Kill servers and writers of a store.")
    asked = campaign.read_arguments()
    found = campaign.carry_out(_run, together=50)
    print(
        f"{asked.count} kills, {found['server']} of servers and {found['writer']} of writers; "
        f"{found['decided']} decisions, {found['rewarded']} rewards and {found['voided']} voids "
        "acknowledged, 0 lost."
    )


if __name__ == "__main__":
    main()
