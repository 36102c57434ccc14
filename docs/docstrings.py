"""A griffe extension that turns docstrings into Markdown: doctests into code, roles into names."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^>>>.*\n?|^ +.*\n?)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`~?(?:[\w.]*\.)?([^`]*)`")


class Markdown(griffe.Extension):
    """Rewrites every docstring that has a doctest or a role."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value)
            obj.docstring.value = _DOCTEST.sub(_fenced, text)


def _fenced(match: re.Match[str]) -> str:
    return f"```python\n{match[0].rstrip()}\n```\n"
