"""Connections that send too much, too slowly or nothing, and streams when the server stops."""

import socket
from contextlib import ExitStack

import pytest

from armrace.service.http import server
from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from hosting import running
from serving import HEAD, answer_on


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(server, "_SECONDS", 0.4)


def connect(address):
    return socket.create_connection(address, timeout=20)


def received(connection) -> bytes:
    """All that comes until the server closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def asked(connection, path: str) -> bytes:
    """The answer to a request without a key."""
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return answer_on(connection)


def test_a_body_that_does_not_come_is_answered_408(impatient, address):
    with connect(address) as slow:
        slow.sendall(HEAD + b"\r\n{")
        answer = received(slow)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code":"timed-out"' in answer
    with connect(address) as quick:
        quick.sendall(HEAD + b"\r\n{}")
        assert quick.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("begin", [b"", HEAD], ids=["nothing", "half a head"])
def test_a_head_that_does_not_come_ends_the_connection(impatient, address, begin):
    with connect(address) as slow:
        slow.sendall(begin)
        assert received(slow) == b""


@pytest.mark.parametrize("part", [b"X-%d: x\r\n", b"x" * 1000])
def test_a_head_that_does_not_end_is_refused(address, part):
    """Many headers, or one without an end: what is kept of it must have a limit."""
    with connect(address) as greedy:
        greedy.sendall(HEAD + b"X-Long: ")
        try:
            for number in range(200_000):
                greedy.sendall(part % number if b"%" in part else part)
        except OSError:  # closed by the server, as it should be
            pass
        else:
            pytest.fail("the server took it all")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n{}"], ids=["without an end", "whole"])
def test_a_head_that_is_too_large_is_told_so(address, end):
    with connect(address) as greedy:
        greedy.sendall(HEAD + b"X-Long: " + b"x" * 70_000 + end)
        answer = received(greedy)
    assert answer.startswith(b"HTTP/1.1 431")
    assert b'"code":"headers-too-large"' in answer


def test_more_connections_than_allowed_are_told_to_come_back(service, monkeypatch):
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    with (
        running(Server(create_application(service, declared_open=True), "127.0.0.1", 0)) as address,
        ExitStack() as several,
    ):
        some = [several.enter_context(connect(address)) for _ in range(4)]
        *answers, refused = [asked(one, "/v1/experiments") for one in some]
        assert all(answer.startswith(b"HTTP/1.1 200") for answer in answers)
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1" in refused
        assert b'"code":"overloaded"' in refused
        for path in ("/healthz", "/readyz"):
            with connect(address) as supervisor:
                assert asked(supervisor, path).startswith(b"HTTP/1.1 200"), "room is reserved"
        assert asked(some[0], "/v1/experiments").startswith(b"HTTP/1.1 200"), "it has its place"


def test_what_is_no_http_is_told_so_in_the_same_shape(address):
    with connect(address) as confused:
        confused.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the greeting of TLS
        answer = received(confused)
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b'"code":"bad-request"' in answer


def test_a_server_that_stops_ends_its_streams(address):
    """The fixture fails if the server has not ended within five seconds."""
    with connect(address) as follower:
        follower.sendall(b"GET /v1/experiments/ads/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert follower.recv(65536).startswith(b"HTTP/1.1 200")


class Written:
    """A transport that keeps what is written to it, part by part."""

    parts: list[bytes]

    def __init__(self, transport):
        self._transport = transport

    def __getattr__(self, name):
        return getattr(self._transport, name)

    def write(self, data):
        self.parts.append(data)
        self._transport.write(data)


def test_an_answer_is_written_at_once_and_a_stream_from_its_head_on(address, monkeypatch):
    made = server.Connection.connection_made
    monkeypatch.setattr(
        server.Connection, "connection_made", lambda self, transport: made(self, Written(transport))
    )
    monkeypatch.setattr(Written, "parts", [], raising=False)
    with connect(address) as client:
        for _ in range(2):
            client.sendall(HEAD + b"\r\n{}")
            assert answer_on(client) == Written.parts.pop()
        client.sendall(b"HEAD /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
        head = client.recv(65536)  # which is all, though it names the length of a body
        assert b"content-length: 1" in head
        assert [head] == Written.parts
        Written.parts.clear()
        client.sendall(b"GET /v1/experiments/ads/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while b"event: state" not in client.recv(65536):
            pass
        assert Written.parts[0].endswith(b"\r\n\r\n")
        assert len(Written.parts) > 1
