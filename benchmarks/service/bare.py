"""What the service is compared with: Starlette and msgspec, with nothing behind them."""

from __future__ import annotations

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_ANSWER = {
    "decision": "A" * 60,
    "experiment": "ads",
    "arm": "a",
    "probability": 0.25,
    "repeated": False,
}


class _Body(msgspec.Struct):
    decision: str | None = None
    value: float | None = None


_decoder = msgspec.json.Decoder(_Body)
_encoder = msgspec.json.Encoder()


async def _answer(request: Request) -> Response:
    body = _decoder.decode(await request.body())
    answer = _ANSWER if body.decision is None else {"status": "accepted"}
    return Response(_encoder.encode(answer), media_type="application/json")


application = Starlette(
    routes=[
        Route("/v1/experiments/{name}/decide", _answer, methods=["POST"]),
        Route("/v1/rewards", _answer, methods=["POST"]),
    ]
)
