"""Reading the bodies of requests: not too long, and JSON.

That they come in time is the connection's concern.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import Receive

from armrace.errors import InvalidParameter
from armrace.service.http.problems import TooLarge, WrongMedia

__all__ = ["ClientGone", "read_body", "read_json"]

_JSON = b"application/json"


class ClientGone(Exception):
    """The connection was closed before the body had come."""


async def read_json(
    receive: Receive,
    headers: dict[bytes, bytes],
    limit: int,
    decoder: msgspec.json.Decoder[Any],
) -> Any:
    """Return what a body says, or refuse it.

    Args:
        receive: receives the parts of the body, as ASGI says.
        headers: the headers of the request.
        limit: the most bytes that it may have.
        decoder: turns it into an object.
    """
    body = await read_body(receive, limit)
    if body and not headers.get(b"content-type", b"").lower().startswith(_JSON):
        # A page of another site can send anything else without asking the service first.
        raise WrongMedia("the header Content-Type must be application/json.")
    return _decode(decoder, body)


async def read_body(receive: Receive, limit: int, what: str = "body") -> bytes:
    """Return a body; refuse it as soon as it is longer than the limit.

    Args:
        receive: receives the parts of the body, as ASGI says.
        limit: the most bytes that it may have.
        what: what a refusal calls it.
    """
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > limit:
            raise TooLarge(f"the {what} must have at most {limit} bytes.")
        if not message.get("more_body", False):
            return body


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidParameter(f"the body is refused: {reason[:300]}.") from None
