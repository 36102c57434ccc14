"""A griffe extension that makes the doctests in docstrings blocks of code in Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^>>>.*\n?|^ +.*\n?)*)", re.MULTILINE)


class Markdown(griffe.Extension):
    """Rewrites every docstring that has a doctest."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _DOCTEST.sub(_fenced, obj.docstring.value)


def _fenced(match: re.Match[str]) -> str:
    return f"```python\n{match[0].rstrip()}\n```\n"
