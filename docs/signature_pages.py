"""The page of signatures, on which mkdocstrings shows docstrings of functions and classes."""

from __future__ import annotations

from inspect import getmro
from typing import Any

import armrace
import armrace_client
from armrace import audit, learner, offline, planning, service, verification

_LAST_IN_SEARCH = "---\nsearch:\n  boost: 0.3\n---\n"
_SIGNATURES = """# Signatures

The main functions and classes with all arguments and members, from their docstrings.
[Python](python.md) lists every public name.
"""
SHOWN: dict[str, tuple[Any, ...]] = {
    "Simulation": (
        armrace.simulate,
        armrace.compare,
        armrace.Result,
        armrace.Comparison,
        armrace.warm_up,
    ),
    "The red team": (armrace.redteam, armrace.Verdict),
    "Logs of other systems": (offline.open_log, offline.Log, offline.replay, offline.Replay),
    "Live use": (learner.Learner,),
    "Audits": (audit.audit, audit.Audit),
    "The service": (
        armrace.open,
        service.Service,
        armrace_client.Client,
        armrace_client.LeasedExperiment,
    ),
    "Planning and verifying": (
        planning.make_question,
        planning.Plan,
        verification.verify,
        verification.Verification,
    ),
    "Your own": (armrace.Policy, armrace.Adversary, armrace.register),
}
"""What the page shows, by topic."""

_PLAIN_RECORDS = (offline.Replay, verification.Verification)
"""Records whose fields explain themselves."""

_MODULES = {
    "Operations of the service": "armrace_client.operations",
    "Answers of the service": "armrace_client.answers",
}
"""Modules that the page shows whole."""


def signature_page(notice: str) -> str:
    """A page with a directive of mkdocstrings for each name."""
    lines = [_LAST_IN_SEARCH, notice, _SIGNATURES]
    for title, things in SHOWN.items():
        lines += [f"## {title}", ""]
        for thing in things:
            lines += [f"::: {thing.__module__}.{thing.__qualname__}"]
            bases = getmro(thing)[1:] if isinstance(thing, type) else ()
            if any(base.__module__.startswith(("armrace.", "armrace_client.")) for base in bases):
                lines += ["    options:", "      inherited_members: true"]
                lines += ["      show_if_no_docstring: true"] if thing in _PLAIN_RECORDS else []
            lines += [""]
    for title, module in _MODULES.items():
        lines += [f"## {title}", "", f"::: {module}", "    options:"]
        shown = "true" if module.endswith("answers") else "false"  # fields of answers are members
        lines += ["      show_root_heading: false", f"      show_if_no_docstring: {shown}"]
        lines += ["      show_root_toc_entry: false", ""]
    return "\n".join(lines)
