"""Requests made from the OpenAPI document: no answer of status 500, and answers as it says."""

from __future__ import annotations

import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application

service = Service(MemoryStore())
service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1)
application = create_application(service)


async def lasting(scope, receive, send):
    """The application, which does not end with each request."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
    else:
        await application(scope, receive, send)


schema = schemathesis.openapi.from_asgi("/openapi.json", lasting)
requests = schema.exclude(path_regex="/events$|^/v1/experiments$").parametrize()
"""Streams do not end, and each new policy would be compiled."""


@requests
@seed(1)
@settings(
    max_examples=6,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_is_answered_with_a_failure(case):
    if "name" in case.path_parameters and len(str(case.path_parameters["name"])) % 2:
        case.path_parameters["name"] = "ads"
    response = case.call(headers={"Host": "127.0.0.1"})
    case.validate_response(
        response,
        checks=[
            not_a_server_error,
            status_code_conformance,
            content_type_conformance,
            response_schema_conformance,
        ],
    )
