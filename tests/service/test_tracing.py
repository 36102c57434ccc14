"""OpenTelemetry's middleware around the service, as the guide shows it."""

import json
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import httpx2
from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from docs.test_examples import blocks
from hosting import free_port, running
from processes import started

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "serving.md"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADERS = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
CONSOLE = """
import runpy, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

provider = TracerProvider()
exporter = ConsoleSpanExporter(formatter=lambda span: "SPAN " + span.to_json(indent=None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
sys.argv.pop(0)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_each_request_is_a_span_in_the_trace_of_its_client(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    wrap = partial(OpenTelemetryMiddleware, tracer_provider=provider)
    server = Server(create_application(service, declared_open=True), "127.0.0.1", 0, wrap=wrap)
    with running(server) as (host, port):
        address = f"http://{host}:{port}/v1/experiments"
        assert httpx2.post(f"{address}/ads/decide", json={}, headers=HEADERS).status_code == 200
        assert httpx2.get(f"{address}/none").status_code == 404
        # What the service itself refuses about connections passes by, and it still does.
        assert httpx2.get(address, headers={"X-Long": "x" * 70_000}).status_code == 431
    decided, missed, *_ = (
        each for each in exporter.get_finished_spans() if each.kind is SpanKind.SERVER
    )
    assert format(decided.context.trace_id, "032x") == TRACE
    assert format(decided.parent.span_id, "016x") == PARENT
    assert decided.name == "POST /v1/experiments/ads/decide"
    assert decided.attributes["http.status_code"] == 200
    assert missed.attributes["http.status_code"] == 404
    assert missed.parent is None


def test_the_program_of_the_guide_serves_and_traces(tmp_path):
    (program,) = [each for each in blocks(GUIDE, "python") if each.startswith("# traced.py")]
    (tmp_path / "traced.py").write_text(program)
    (tmp_path / "console.py").write_text(CONSOLE)
    port = free_port()
    command = [sys.executable, "console.py", "traced.py", "clicks.db", str(port)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started(command, cwd=tmp_path, **pipes) as server:
        while '"event":"start"' not in (line := server.stderr.readline()):
            assert line
        for _ in range(600):
            try:
                answer = httpx2.get(f"http://127.0.0.1:{port}/healthz", headers=HEADERS)
                break
            except httpx2.TransportError:
                time.sleep(0.05)
        assert answer.status_code == 200
        server.send_signal(signal.SIGTERM)
        said, errors = server.communicate(timeout=60)
    assert json.loads(errors.splitlines()[-1])["event"] == "stop"
    spans = [json.loads(each[5:]) for each in said.splitlines() if each.startswith("SPAN ")]
    asked = [each for each in spans if each["kind"] == "SpanKind.SERVER"]
    assert [each["name"] for each in asked] == ["GET /healthz"]
    assert asked[0]["context"]["trace_id"] == f"0x{TRACE}"
