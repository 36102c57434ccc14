"""Servers and writers that are killed while they work, and what they had acknowledged.

``python -m torture.kills --kills 1000`` is the campaign. Three in four kills are of ``armrace
serve`` with clients on several connections, the others of a process that uses the store itself in
several threads; some come while the log is read at the start. All of a part are on one store.
"""

from __future__ import annotations

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
from armrace.service.events import Decided, decode
from serving import folded_bytes, live_bytes
from torture.campaign import Campaign
from torture.zygote import EXPERIMENT, Zygote

__all__ = ["free_port", "kill_often"]

_CLIENTS = 4
_MOST = 1000
"""How many rewards a request may hold."""


class _Acknowledged:
    """What was acknowledged on one store: arms of decisions, and values of rewards."""

    def __init__(self) -> None:
        self.arms: dict[str, str] = {}
        self.rewards: dict[str, float] = {}
        self.recent: dict[str, float] = {}
        """The rewards since the last check."""
        self.unanswered: set[str] = set()
        """Requests for decisions without an answer, which are repeated."""

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
        rng, known = self._rng, self._known
        names = [f"{rng.getrandbits(60):x}" for _ in range(rng.choice([1, 1, 5, 20]))]
        asked = [{"request": name} for name in names]
        known.unanswered.update(names)
        if len(asked) == 1:
            made = [connection.ask("/v1/experiments/ads/decide", asked[0])]
        else:
            body = {"decisions": asked}
            made = connection.ask("/v1/experiments/ads/decide/batch", body)["decisions"]
        known.note_decisions(made)
        known.unanswered.difference_update(names)
        value = rng.choice([0.0, 1.0])
        rewards = [{"decision": each["decision"], "value": value} for each in made]
        if len(rewards) == 1:
            answers = [connection.ask("/v1/rewards", rewards[0])]
        else:
            answers = connection.ask("/v1/rewards/batch", {"rewards": rewards})["rewards"]
        for each, answer in zip(made, answers, strict=True):
            assert answer["status"] == "accepted", answer
            known.note_reward(each["decision"], value)


def kill_often(folder: Path, numbers: range) -> Counter[str]:
    """Start and kill processes on one store; check that nothing acknowledged is lost.

    Args:
        folder: where the store is made.
        numbers: the numbers of the kills, from which times and loads follow.

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
    found.update(decided=len(known.arms), rewarded=len(known.rewards))
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
        connection.ask("/v1/experiments", EXPERIMENT)
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
    for name in sorted(known.unanswered):
        made = connection.ask("/v1/experiments/ads/decide", {"request": name})
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
        else:
            known.note_reward(decision, float(said))


def _check(store: Path, known: _Acknowledged) -> None:
    """Read the log and compare."""
    with armrace.open(store) as service:
        rows = {row.decision: row for row in service.rows("ads")}
        keys = service.keyring.signing_keys()
        for decision, arm in known.arms.items():
            assert rows[keys.read("main", decision).sequence].arm == arm
        for decision, value in known.rewards.items():
            assert rows[keys.read("main", decision).sequence].reward == value
        with service.ledger.store.turn() as turn:
            events = [decode(record.payload) for record in turn.read()]
        asked = Counter(each.request for each in events if isinstance(each, Decided))
        del asked[None]
        assert set(asked.values()) <= {1}, "a request led to several decisions"
        assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


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
        f"{found['decided']} decisions and {found['rewarded']} rewards acknowledged, 0 lost."
    )


if __name__ == "__main__":
    main()
