"""What browsers send with forms, checked before it is used."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

from armrace.errors import InvalidParameter
from armrace.service.http.access import is_of_another_site
from armrace.service.http.bodies import read_body
from armrace.service.http.problems import Forbidden

__all__ = ["decision_number", "page_to_return_to", "read_form"]

_LONGEST_DECISION = 19
_LONGEST_FORM = 8192


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; of a field that is sent twice, the last counts.

    Raises:
        Forbidden: a page of another site sent the form.
        TooLarge: the form is too long.
        ClientGone: it did not come.
        InvalidParameter: it is not a form.
    """
    # Sign-in has no token yet: another site could sign a visitor in with a key of its own.
    if is_of_another_site(request.scope, dict(request.scope["headers"])):
        raise Forbidden(
            "a form must be sent by a page of this service; a proxy must pass Host and "
            "X-Forwarded-Proto on."
        )
    content = await read_body(request.receive, _LONGEST_FORM, "form")
    try:
        found = parse_qs(content.decode(), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise InvalidParameter("the form cannot be read.") from None
    return {name: values[-1] for name, values in found.items()}


def page_to_return_to(request: Request) -> str:
    """Return the page that asks, or that holds the form; forms themselves cannot be opened."""
    asked = request.url
    if request.method != "GET":
        page = urlsplit(request.headers.get("referer", ""))
        if page.netloc != request.headers.get("host", "") or not page.path.startswith("/"):
            return "/"
        return f"{page.path}?{page.query}" if page.query else page.path
    return f"{asked.path}?{asked.query}" if asked.query else asked.path


def decision_number(text: str) -> int:
    """Return the number of a decision, or refuse what is not one."""
    if not text.isdecimal() or len(text) > _LONGEST_DECISION:
        raise InvalidParameter(
            f"decision must be a number of at most {_LONGEST_DECISION} digits; got {text[:40]!r}."
        )
    return int(text)
