"""Every public function and class describes its parameters, as CONTRIBUTING asks.

The fields of specifications and records are described where they are declared, and the reference
lists them; an ``__init__`` that is written by hand is described by its class.
"""

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from public_modules import PUBLIC

ARGUMENTS = re.compile(r"^Args:\n((?:    .*\n|\n)*)", re.MULTILINE)
UNDESCRIBED = {"admits", "from_outcomes"}
"""Methods that only the library calls."""
OBVIOUS = {
    "armrace.service.": {"name", "arm", "count", "tenant", "log", "sequence"},
    "armrace.errors": {"message"},
}
"""Modules, by how their names begin, and parameters that are the same in all of their methods:
the experiment's name, its tenant, its log, a record of it, an arm, and how many decisions; the text
of an error. A function that has no other parameters need not describe them."""
ELSEWHERE = re.compile(r"\b[Aa]s (for )?:(meth|class|func):")
"""What a docstring says whose parameters are those of another function."""
OF_THE_LIBRARY = {"armrace.service.engine.Engine", "armrace_client.queue.Outbox"}
"""Classes whose methods only the library calls."""


def described(function: Any) -> set[str]:
    """The parameters that the documentation of a function or class describes."""
    section = ARGUMENTS.search(f"{inspect.getdoc(function)}\n")
    return set() if section is None else set(re.findall(r"^    (\w+):", section[1], re.MULTILINE))


def named(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def undescribed(function: Any, *documented: Any) -> set[str]:
    """The parameters that neither the function nor what it stands for describes.

    A public module may describe what is the same in all of its functions.
    """
    parameters = named(function)
    home = function.__module__
    if any(home.startswith(module) and parameters <= OBVIOUS[module] for module in OBVIOUS):
        return set()
    if ELSEWHERE.search(function.__doc__ or ""):
        return set()
    return parameters - described(function).union(*map(described, documented))


def is_own(thing: Any) -> bool:
    return (getattr(thing, "__module__", None) or "").startswith("armrace")


def things() -> dict[str, tuple[Any, ModuleType]]:
    """All public functions and classes of the package by their names, each with its module."""
    found = {}
    for name in PUBLIC:
        module = importlib.import_module(name)
        for thing in (getattr(module, each) for each in module.__all__):
            if is_own(thing) and (inspect.isfunction(thing) or inspect.isclass(thing)):
                full = f"{thing.__module__}.{thing.__qualname__}"
                if full not in OF_THE_LIBRARY:
                    found[full] = thing, module
    return found


def methods(owner: type) -> Iterator[tuple[Any, list[Any]]]:
    """The public methods of a class, each with those of the same name that it replaces."""
    bases = [
        base
        for base in owner.__mro__
        if is_own(base) and f"{base.__module__}.{base.__qualname__}" not in OF_THE_LIBRARY
    ]
    for base in bases:
        for name, member in vars(base).items():
            plain = _plain(member)
            private = name.startswith("_") or name in UNDESCRIBED
            if inspect.isfunction(plain) and not private and plain.__doc__:
                others = [_plain(vars(each)[name]) for each in bases if name in vars(each)]
                yield plain, others


def _plain(member: Any) -> Any:
    return member.__func__ if isinstance(member, (classmethod, staticmethod)) else member


def lacking(thing: Any, *documented: Any) -> dict[str, set[str]]:
    """What a function or class leaves undescribed, by the name of the function."""
    if inspect.isfunction(thing):
        return {thing.__qualname__: undescribed(thing, *documented)}
    found = {
        method.__qualname__: undescribed(method, *others, *documented)
        for method, others in methods(thing)
    }
    start = vars(thing).get("__init__")
    # A dataclass has an __init__ that is not in its file: its fields are described there.
    if inspect.isfunction(start) and not start.__code__.co_filename.startswith("<"):
        found[start.__qualname__] = undescribed(start, thing, *documented)
    return found


@pytest.mark.parametrize("name", sorted(things()))
def test_whatever_is_public_describes_its_parameters(name: str) -> None:
    assert {each: lacks for each, lacks in lacking(*things()[name]).items() if lacks} == {}


def test_what_is_not_described_is_found() -> None:
    def add(first: int, second: int) -> int:
        """Return the sum.

        Args:
            first: a number.
        """
        return first + second

    assert lacking(add) == {add.__qualname__: {"second"}}
