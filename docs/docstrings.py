"""A griffe extension for mkdocstrings: doctests become blocks of code, sources follow the text.

What the constants of a policy or an attack were compared with, and where it comes from, is declared
beside the docstring of its class, as ``source_kind``, ``source_note`` and ``reference``.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

import griffe

_DOCTEST = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)\S.*\n?|^>>>.*\n?|^ +.*\n?)*)", re.MULTILINE)
_KINDS = {
    "print": "Checked against the print",
    "restated": "Checked against restatements",
    "code": "Checked against programs",
    "derived": "Checked by derivation",
    "memory": "Not checked against a print",
}
"""How sure the constants of a policy or an attack are, by its ``source_kind``."""


class Docstrings(griffe.Extension):
    """Rewrites docstrings that have a doctest, and those of policies and attacks."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            text = _DOCTEST.sub(_fenced, obj.docstring.value)
            if isinstance(obj, griffe.Class):
                text = "\n\n".join([text, *_sources(obj)])
            obj.docstring.value = text


def _fenced(match: re.Match[str]) -> str:
    return f"```python\n{match[0].rstrip()}\n```\n"


def _sources(kind: griffe.Class) -> list[str]:
    """What a policy, an attack or an environment says of its source, inherited or not."""
    if not kind.path.startswith(("armrace.policies.", "armrace.adversaries.", "armrace.environ")):
        return []
    member = getattr(importlib.import_module(kind.module.path), kind.name, None)
    checked = _KINDS.get(getattr(member, "source_kind", ""))
    reference = getattr(member, "reference", "")
    found = [f"**{checked}:** {member.source_note}"] if member and checked else []
    return [*found, *([f"Reference: {reference}."] if reference else [])]
