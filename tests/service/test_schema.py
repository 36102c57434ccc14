"""Requests made from the OpenAPI document: no answer of status 500, and answers as it says."""

import schemathesis
from hypothesis import HealthCheck, Phase, seed, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.responses import JSONResponse

from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application
from armrace.service.http.endpoints import make_document
from serving import LOCAL

service = Service(MemoryStore())
service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1)
application = create_application(service, declared_open=True)
DOCUMENT = make_document("")
del DOCUMENT["security"]  # without keys, a request without one is no invalid request


async def lasting(scope, receive, send):
    """The application, which does not end with each request."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
    elif scope["path"] == "/openapi.json":
        await JSONResponse(DOCUMENT)(scope, receive, send)
    else:
        await application({**scope, "client": LOCAL}, receive, send)


schema = schemathesis.openapi.from_asgi("/openapi.json", lasting)
requests = schema.exclude(path_regex="/events$").parametrize()
"""Streams do not end."""


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
    if isinstance(case.body, dict) and isinstance(case.body.get("arms"), list):
        case.body["policy"] = "ucb1"  # each new policy would be compiled
    response = case.call(headers={"Host": "127.0.0.1"})
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]
    if response.status_code != 413:  # is a refusal too, of which schemathesis does not know
        checks.append(negative_data_rejection)
    case.validate_response(response, checks=checks)
