"""What goes into a paper: a table in LaTeX, a paragraph on methods, and the references.

Catalogue entries name their papers in words, such as "Auer and Chiang (2016)"; an entry of the
bibliography belongs to them if its authors and its year occur there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from armrace import FIGURES, __version__
from armrace.adversaries import ADVERSARIES
from armrace.environments import ENVIRONMENTS
from armrace.formatting import count, figure, listed
from armrace.policies import POLICIES
from armrace.simulation import Comparison
from armrace.specification import Specification, display_name, with_nested

_SOFTWARE = (
    "@software{armrace, author = {{The armrace contributors}}, title = {armrace: multi-armed "
    f"bandits whose feedback may be partly corrupted}}, version = {{{__version__}}}, "
    "year = {2026}}"
)
_MODEL = "lykouris2018stochastic"


class Entry(NamedTuple):
    """An entry of the bibliography."""

    key: str
    authors: str
    """Surnames as references have them: ``A, B and C``."""
    year: str
    text: str
    """In BibTeX."""

    def is_named(self, reference: str) -> bool:
        """Whether a reference in words names it."""
        alone = "" if " and " in self.authors else r"(?<!, )(?<!and )"
        pattern = rf"{alone}\b{re.escape(self.authors)}( \({self.year}\)|, [^;]*\b{self.year}\))"
        return re.search(pattern, reference) is not None


@cache
def bibliography() -> tuple[Entry, ...]:
    """Return all entries."""
    text = files("armrace.reports").joinpath("references.bib").read_text(encoding="utf-8")
    return tuple(map(_entry, text.splitlines()))


def _entry(line: str) -> Entry:
    key = line[line.index("{") + 1 : line.index(",")]
    people = re.search(r"author = \{(.*?)\}, title", line)
    year = re.search(r"year = \{(\d+)\}", line)
    assert people is not None
    assert year is not None
    *first, last = (person.partition(",")[0] for person in people[1].split(" and "))
    authors = f"{', '.join(first)} and {last}" if first else last
    return Entry(key, authors, year[1], line)


def entries_for(members: Iterable[type[Specification]]) -> list[Entry]:
    """Return the entries that some classes of policies or attacks name, each once."""
    references = [member.reference for member in members]
    return [e for e in bibliography() if any(e.is_named(reference) for reference in references)]


def bibtex(entries: Iterable[Entry]) -> str:
    """Write entries, and one for this library, each field on a line of its own."""
    texts = [*(entry.text for entry in entries), _SOFTWARE]
    return "\n\n".join(re.sub(r", (?=[a-z]+ = \{)", ",\n  ", text) for text in texts)


def cite(names: Sequence[str]) -> str:
    """Return BibTeX for policies and attacks by name, and for this library."""
    members: list[type[Specification]] = []
    for name in names:
        catalogue = ADVERSARIES if name in ADVERSARIES and name not in POLICIES else POLICIES
        members.append(catalogue.find(name))
    return bibtex(entries_for(members))


def _used(comparison: Comparison) -> tuple[list[type[Specification]], type[Specification]]:
    """Return the classes of the policies, with those inside them, and that of the attack."""
    results = list(comparison.results.values())
    policies = [POLICIES.make(result.spec["policy"]) for result in results]
    nested = [type(each) for policy in policies for each in with_nested(policy)]
    return list(dict.fromkeys(nested)), type(ADVERSARIES.make(results[0].spec["adversary"]))


def comparison_bibtex(comparison: Comparison) -> str:
    """Return BibTeX of what a comparison used."""
    policies, attack = _used(comparison)
    model = [entry for entry in bibliography() if entry.key == _MODEL]
    return bibtex(dict.fromkeys([*model, *entries_for([*policies, attack])]))


def comparison_latex(comparison: Comparison, measure: str | None = None, label: str = "") -> str:
    """Return a table for LaTeX; policies that cannot be told apart from the best are bold."""
    measure = measure or comparison.measure
    best = {comparison.best(measure), *comparison.tied(measure)}
    rows = []
    for row in comparison.table(measure).iter_rows(named=True):
        interval = f"[{figure(row['low'])}, {figure(row['high'])}]"
        cells = [_escaped(row["policy"]), figure(row["mean"]), interval, figure(row["p95"])]
        if row["policy"] in best:
            cells[:2] = (rf"\textbf{{{cell}}}" for cell in cells[:2])
        rows.append("    " + " & ".join(cells) + r" \\")
    runs = next(iter(comparison.results.values())).replications
    caption = (
        f"Mean {measure.replace('_', '-')} of {count(runs)} runs with 95\\% intervals, and the "
        "95th percentile. Bold: the least mean, and what cannot be told apart from it (paired "
        "differences, 5\\% level, jointly)."
    )
    mark = rf"\label{{{label}}}" if label else ""
    return "\n".join(
        [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"  \centering",
            rf"  \caption{{{caption}}}{mark}",
            r"  \begin{tabular}{lrrr}",
            r"    \toprule",
            r"    policy & mean & 95\% interval & 95th percentile \\",
            r"    \midrule",
            *rows,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
    )


_SPECIAL = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


def _escaped(text: str) -> str:
    """Write a text so that LaTeX shows it as it is."""
    return " ".join(text.split()).translate(_SPECIAL)


def _named(member: type[Specification], name: str) -> str:
    keys = ",".join(entry.key for entry in entries_for([member]))
    shown = rf"\texttt{{{_escaped(name)}}}"
    return rf"{shown} \citep{{{keys}}}" if keys else shown


def methods(comparison: Comparison) -> str:
    r"""Return a paragraph for LaTeX that says what was run, with citations.

    Raises:
        InvalidParameter: policies met different attacks or settings.
    """
    spec = comparison.spec
    policies = [
        _named(type(POLICIES.make(result.spec["policy"])), label)
        for label, result in comparison.results.items()
    ]
    attack = type(ADVERSARIES.make(spec["adversary"]))
    arms = ENVIRONMENTS.make(spec["environment"])
    means = ", ".join(figure(mean) for mean in arms.mean_rewards(int(spec["horizon"])))
    result = next(iter(comparison.results.values()))
    forged = "Rewards were not corrupted."
    if spec["budget"] > 0:
        counted = (
            "the sum over rounds of the largest change of any arm's reward"
            if spec.get("account", "largest") == "largest"
            else "the sum of the changes of the rewards that were shown"
        )
        forged = (
            f"Rewards were corrupted by {_named(attack, display_name(spec['adversary']['name']))} "
            rf"within a budget of {figure(spec['budget'])}, {counted} \citep{{{_MODEL}}}."
        )
    did, compared = "ran", ""
    if len(policies) > 1:
        did = "compared"
        compared = (
            "; policies are compared by paired differences on the same replications, jointly at "
            "the 5\\% level (Bonferroni)"
        )
    return (
        f"We {did} {listed(policies)} on {arms.arms} {_escaped(arms.tag())} arms with means "
        f"{means}, over {count(spec['horizon'])} rounds in {count(result.replications)} "
        f"replications (seed {spec['seed']}). {forged} Intervals of means are at 95\\%{compared}. "
        "Simulations were run with armrace "
        rf"{__version__} \citep{{armrace}}, whose figures have the number {FIGURES}."
    )
