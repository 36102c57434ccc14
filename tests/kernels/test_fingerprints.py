"""Fingerprints see what the code of a state cannot show: how its classes are laid out."""

import textwrap
import types

import pytest

from armrace.kernels.fingerprints import fingerprint


def module_of(source, **members):
    module = types.ModuleType("users_own")
    vars(module).update(members)
    exec(textwrap.dedent(source), vars(module))
    return module


LAYOUT = """
from __future__ import annotations
from typing import NamedTuple
class State(NamedTuple):
    {}: int
    {}: int
def f(state: State): return state[0]
"""


def test_the_layout_of_a_state_counts():
    orders = [("first", "second"), ("second", "first")]
    one, two = (fingerprint([module_of(LAYOUT.format(*order)).f]) for order in orders)
    assert one != two


@pytest.mark.parametrize(
    "source",
    [
        "class C:\n    def start(self): return {}",
        "class C:\n    CONSTANT = {}",
        "class B:\n    def start(self): return {}\nclass C(B): pass",
        "def g(): return {}\nclass C:\n    @property\n    def p(self): return g()",
        "def g(): return {}\nTABLE = dict(one=g)\nclass C:\n    def m(self): return TABLE",
    ],
    ids=["a method", "a constant", "a base", "a helper of a property", "a function in a table"],
)
def test_a_class_counts_with(source):
    one, again, two = (fingerprint([module_of(source.format(n)).C]) for n in (1, 1, 2))
    assert one == again
    assert one != two
