"""A griffe extension for mkdocstrings: doctests become code, declarations follow the text.

The parameters of a policy or an attack, what its constants were compared with and where it comes
from are declared beside the docstring of its class.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from typing import Any

import griffe
import msgspec

from armrace.specification import Specification

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
                text = "\n\n".join([_with_fields(obj, text), *_declared(obj)])
            obj.docstring.value = text


def _fenced(match: re.Match[str]) -> str:
    return f"```python\n{match[0].rstrip()}\n```\n"


def _with_fields(kind: griffe.Class, text: str) -> str:
    """The text about an operation of the service, with a table in place of its ``Args:``."""
    said, found, arguments = text.partition("\nArgs:\n")
    if not (found and kind.path.startswith("armrace_client.operations.")):
        return text
    member = getattr(importlib.import_module(kind.module.path), kind.name)
    defaults = {
        each.name: "required" if each.required else f"`{each.default!r}`"
        for each in msgspec.structs.fields(member)
    }
    rows = ["| field | default | meaning |", "|---|---|---|"]
    for name, meaning in re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", arguments, re.MULTILINE):
        rows.append(f"| `{name}` | {defaults[name]} | {' '.join(meaning.split())} |")
    return "\n".join([said, *rows])


def _declared(kind: griffe.Class) -> list[str]:
    """The parameters of a policy, an attack or an environment, and what it says of its source."""
    if not kind.path.startswith(("armrace.policies.", "armrace.adversaries.", "armrace.environ")):
        return []
    member = getattr(importlib.import_module(kind.module.path), kind.name, None)
    if not (isinstance(member, type) and issubclass(member, Specification)):
        return []
    found = ["\n".join(_parameters(member))]
    if member.source_kind in _KINDS:
        found.append(f"**{_KINDS[member.source_kind]}:** {member.source_note}")
    return [*found, *([f"Reference: {member.reference}."] if member.reference else [])]


def _parameters(member: type[Specification]) -> Iterator[str]:
    parameters = member.parameters()
    if parameters:
        yield "| parameter | default | limits | meaning |"
        yield "|---|---|---|---|"
    for each in parameters:
        limits = each.limits or each.type.replace("numpy.", "").replace(" | ", " or ")
        default = "" if each.default is None else f"{each.default}"
        yield f"| `{each.name}` | {default} | {limits} | {each.meaning} |"
