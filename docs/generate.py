"""Write what repeats declarations of the code: reference pages, bounds and the list of decisions.

``python docs/generate.py`` writes them; a test checks that they are up to date.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evidence_tables import with_evidence
from service_pages import error_page, service_page
from signature_pages import signature_page
from typer.main import get_command

from armrace.adversaries import ADVERSARIES
from armrace.catalogue import Catalogue
from armrace.cli.main import app
from armrace.environments import ENVIRONMENTS
from armrace.policies import POLICIES, Policy
from armrace.simulation import SCENARIOS
from armrace.specification import Specification

PAGES = Path(__file__).parent / "reference"
DECISIONS = Path(__file__).parent / "decisions"

_NOTICE = "<!-- Written by docs/generate.py; do not edit. -->\n"
_HORIZON = 10**9
_CORRUPTIONS = (0, 100, 1_000, 10_000)

_FAMILIES = {
    ("policy", "paper"): "of the paper",
    ("policy", "robust"): "robust to corruption",
    ("policy", "adversarial"): "adversarial, best of both worlds",
    ("policy", "contextual"): "for visitors who differ",
    ("policy", "published"): "of published experiments",
    ("attack", "paper"): "simple, and of the paper",
    ("attack", "literature"): "from the literature",
    ("attack", "daily life"): "from daily life",
    ("environment", "law"): "drawn from a law",
    ("environment", "record"): "given round by round",
    ("environment", "visitors"): "of visitors who differ",
}
"""What a family is called; by its own name where there is no entry."""

_POLICIES = """# Policies

Which one to take: [Choose a policy](../guide/choose-a-policy.md). How each one decides, its
parameters, what is proven in general, and whether it was compared with the printed paper:
[Rules](rules.md). A parameter is set by `--set` or on the class in `armrace.policies`.
"""
_BOUNDS = """## Bounds

What `guarantee` of a class proves with all constants, on the pseudo-regret: ten arms, nine gaps of
0.1, T = 10^9, of 10^8 that can be lost, under a corruption of C. "nothing" means that the bound
says nothing at this size. Policies that are not in the table compute no constants.
"""
_ATTACKS = """# Attacks

An attack never spends more than its budget: see [the model](../guide/the-model.md#the-budget).
What each one does in detail, its parameters, and where it comes from: [Rules](rules.md#attacks). A
parameter is set by `--attack-set` or on the class in `armrace.adversaries`. Attacks marked * look
at the learner's distribution.
"""
_ENVIRONMENTS = """# Environments

Where the honest rewards come from: classes of `armrace.environments`, whose parameters are among
the [rules](rules.md#environments). A list of means in place of an environment stands for
`bernoulli` arms.
"""
_RULES = """# Rules of policies and attacks

What each [policy](policies.md), [attack](attacks.md) and [environment](environments.md) does, from
the docstrings of the classes, and its parameters. T is the horizon, K the number of arms, C the
corruption; an arm's gap is the best arm's mean minus its own.
"""
_COMMANDS = """# Command line

`armrace COMMAND --help` says more about a command and its options, with examples. Bad input is
refused with one sentence on standard error and exit code 2; nothing is overwritten then.
"""


def catalogue_page(title: str, catalogue: Catalogue[Any]) -> str:
    """A page with a row for each member.

    Args:
        title: the head of the page.
        catalogue: the members.
    """
    families: dict[str, list[str]] = {}
    for tag, member in _shipped(catalogue).items():
        star = " \\*" if getattr(member, "sees_weights", False) else ""
        summary = " ".join((inspect.getdoc(member) or "").partition("\n\n")[0].split())
        row = f"| `{tag}`{star} | {summary.replace('``', '`')} |"
        families.setdefault(member.family, []).append(row)
    lines = [_NOTICE, title]
    for family, rows in families.items():
        heading = _FAMILIES.get((catalogue.kind, family), family).capitalize()
        lines += [f"## {heading}", "", "| | |", "|---|---|", *rows, ""]
    if catalogue is POLICIES:
        lines += [_BOUNDS, *_guarantees(_shipped(catalogue)), ""]
    return "\n".join(lines)


def _shipped(catalogue: Catalogue[Any]) -> dict[str, type[Specification]]:
    """The members that come with the package, without those of installed extensions."""
    return {tag: m for tag, m in catalogue.items() if m.__module__.startswith("armrace.")}


def _guarantees(policies: dict[str, Any]) -> Iterator[str]:
    """A table of what is proven with all constants, at some sizes."""
    yield f"| policy | holds | {' | '.join(f'C = {c:,}' for c in _CORRUPTIONS)} |"
    yield f"|---|---|{'---:|' * len(_CORRUPTIONS)}"
    for tag, member in policies.items():
        if member.guarantee is not Policy.guarantee:
            cells = list(_proven(member))
            if cells.count("") < len(_CORRUPTIONS):
                yield f"| `{tag}` | {' | '.join(cells)} |"


def _proven(member: type[Policy]) -> Iterator[str]:
    """How sure the guarantee of a policy is, and its value for each corruption."""
    found = [
        member(**_told(member, corruption)).guarantee([0.1] * 9, _HORIZON, corruption)
        for corruption in _CORRUPTIONS
    ]
    failure = max(0.0 if each is None else each.failure for each in found)
    yield f"with probability {1 - failure:g}" if failure else "in expectation"
    for each in found:
        vacuous = each is None or each.pseudo_regret >= 0.1 * _HORIZON
        yield "nothing" if vacuous else f"{each.pseudo_regret:,.0f}"


def _told(member: type[Policy], corruption: float) -> dict[str, float]:
    """The corruption, for a policy that must be told."""
    names = [parameter.name for parameter in member.parameters()]
    return {"corruption": float(corruption)} if "corruption" in names else {}


def rules_page() -> str:
    """A page on which mkdocstrings shows the docstrings of all members of the catalogues."""
    lines = [_NOTICE, _RULES]
    catalogues = {"Policies": POLICIES, "Attacks": ADVERSARIES, "Environments": ENVIRONMENTS}
    for title, catalogue in catalogues.items():
        lines += [f"## {title}", ""]
        for member in _shipped(catalogue).values():
            lines += [f"::: {member.__module__}.{member.__name__}", "    options:"]
            lines += ["      members: false", "      show_root_full_path: false"]
            lines += [f"      heading: {member.tag()}", f"      toc_label: {member.tag()}", ""]
    return "\n".join(lines)


def commands() -> dict[str, Any]:
    """The commands by name."""
    return dict(get_command(app).commands)


def command_page() -> str:
    """A page with a section for each command, and the scenarios."""
    own = [option for option in get_command(app).params if option.name == "version"]
    shared = _shared_options()
    sections = [_command_section(name, command, shared) for name, command in commands().items()]
    heading = ["## Shared options", "", "What these mean wherever they are offered:", ""]
    options = [*_options(own), "", *heading, *_options(shared.values()), ""]
    return "\n".join([_NOTICE, _COMMANDS, *options, *sections, *_scenarios()])


def _shared_options() -> dict[tuple[str, ...], Any]:
    """The options that mean the same in two or more commands, by what the page says of them."""
    found: dict[tuple[str, ...], list[Any]] = {}
    for command in commands().values():
        for option in command.params:
            if option.param_type_name == "option" and option.name != "help":
                found.setdefault(tuple(_option_cells(option)), []).append(option)
    return {cells: same[0] for cells, same in found.items() if len(same) > 1}


def _command_section(name: str, command: Any, shared: dict[tuple[str, ...], Any]) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([name, *(p.metavar or p.name.upper() for p in arguments)])
    lines = [f"## `armrace {usage}`", "", _plain(command.help).partition("\n\n")[0], ""]
    if name == "serve":
        lines += ["Options: [settings of the server](service.md#settings-of-the-server).", ""]
        return "\n".join(lines)
    for argument in arguments:
        default = f" By default `{argument.default}`." if argument.default else ""
        lines += [f"`{argument.metavar}`: {_plain(argument.help)}{default}", ""]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    own = [option for option in options if tuple(_option_cells(option)) not in shared]
    others = [_option_cells(option)[0] for option in options if option not in own]
    lines += [*_options(own), ""] if own else []
    lines += [f"[Shared](#shared-options): {', '.join(others)}."] if others else []
    return "\n".join([*lines, ""])


def _options(options: Iterable[Any]) -> Iterator[str]:
    yield "| option | meaning | default |"
    yield "|---|---|---|"
    for option in options:
        yield f"| {' | '.join(_option_cells(option))} |"


def _option_cells(option: Any) -> list[str]:
    """The names of an option, what its help says first, and its default."""
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    default = "" if option.default in (None, False, [], ()) else f"`{option.default}`"
    return [names, _plain(option.help).partition(". ")[0].rstrip("."), default]


def _scenarios() -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in SCENARIOS)
    yield f"## Scenarios\n\n{names}. `armrace scenarios` says what each one is about.\n"


def _plain(text: str | None) -> str:
    """Text of the command line's help: one paragraph a line, its markup turned into code."""
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(text or "").split("\n\n")]
    plain = "\n\n".join(paragraphs).replace("``", "`")
    return re.sub(r"\[/?bold\]", "`", plain)


def decision_index(text: str) -> str:
    """The index of decisions with a row for each page, whose title it repeats."""
    head = text.split("| | |\n", maxsplit=1)[0]
    rows = ["| | |", "|---|---|"]
    for page in sorted(DECISIONS.glob("[0-9]*.md")):
        title = page.read_text(encoding="utf-8").splitlines()[0].partition(": ")[2]
        rows.append(f"| [{page.name[:3]}]({page.name}) | {title} |")
    return head + "\n".join(rows) + "\n"


def pages() -> dict[Path, str]:
    """Each file with generated text and what it should hold."""
    guide = Path(__file__).parent / "guide" / "choose-a-policy.md"
    return {
        guide: with_evidence(guide.read_text(encoding="utf-8")),
        PAGES / "policies.md": catalogue_page(_POLICIES, POLICIES),
        PAGES / "attacks.md": catalogue_page(_ATTACKS, ADVERSARIES),
        PAGES / "environments.md": catalogue_page(_ENVIRONMENTS, ENVIRONMENTS),
        PAGES / "rules.md": rules_page(),
        PAGES / "command-line.md": command_page(),
        PAGES / "service.md": service_page(_NOTICE, commands()["serve"]),
        PAGES / "errors.md": error_page(_NOTICE),
        PAGES / "signatures.md": signature_page(_NOTICE),
        DECISIONS / "index.md": decision_index(
            (DECISIONS / "index.md").read_text(encoding="utf-8")
        ),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.relative_to(PAGES.parents[1])}")
