"""The page of signatures, on which mkdocstrings shows docstrings of functions and classes."""

from __future__ import annotations

_LAST_IN_SEARCH = "---\nsearch:\n  boost: 0.3\n---\n"
_SIGNATURES = """# Signatures

The main functions and classes with all parameters, from their docstrings. [Python](python.md) lists
every public name.
"""
_ROOMS = {
    "Simulation": (
        "armrace.simulation.simulate.simulate",
        "armrace.simulation.simulate.compare",
        "armrace.simulation.results.Result",
        "armrace.simulation.comparison.Comparison",
        "armrace.compilation.warm_up",
    ),
    "The red team": ("armrace.red_team.hunt.redteam", "armrace.red_team.verdict.Verdict"),
    "Live use": ("armrace.online.learner.Learner",),
    "The service": (
        "armrace.service.opening.open",
        "armrace.service.service.Service",
        "armrace_client.clients.Client",
    ),
    "Planning and verifying": (
        "armrace.planning.question.make_question",
        "armrace.verification.verify.verify",
    ),
    "Your own": (
        "armrace.policies.base.Policy",
        "armrace.adversaries.base.Adversary",
        "armrace.catalogue.register",
    ),
}
_WITH_INHERITED = {"armrace.online.learner.Learner"}
"""Classes of which some public methods are defined in a base class that is not public itself."""


def signature_page(notice: str) -> str:
    """A page with a directive of mkdocstrings for each name."""
    lines = [_LAST_IN_SEARCH, notice, _SIGNATURES]
    for title, names in _ROOMS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += [f"::: {name}"]
            if name in _WITH_INHERITED:
                lines += ["    options:", "      inherited_members: true"]
            lines += [""]
    return "\n".join(lines)
