"""Fingerprints see what the code of a state cannot show: how its classes are laid out."""

import textwrap
import types
from dataclasses import dataclass
from functools import cache

import msgspec
import numpy as np
import pytest

from armrace.kernels.fingerprints import fingerprint


def module_of(source, **members):
    module = types.ModuleType("users_own")
    vars(module).update(members)
    exec(textwrap.dedent(source), vars(module))
    return module


LAYOUT = """
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


COUNTING = {
    "a method": "class C:\n def start(self): return {}",
    "a constant": "class C:\n CONSTANT = {}",
    "a base": "class B:\n def start(self): return {}\nclass C(B): pass",
    "a helper of a property": "def g(): return {}\nclass C:\n @property\n def p(self): return g()",
    "a function of a table": "def g(): return {}\nT = [g]\nclass C:\n def m(self): return T",
    "a function in a set": "def g(): return {}\nUSED = {{g}}\nclass C:\n def m(self): return USED",
    "a set": "USED = {{1, {} + 2}}\nclass C:\n def m(self): return USED",
    "a set among the constants": "class C:\n def m(self, x): return x in {{'one', '{}'}}",
    "a struct": "class S(Struct):\n n: int\nUSED = S({})\nclass C:\n def m(self): return USED.n",
    "a dataclass": "@dataclass\nclass S:\n n: int\nU = S({})\nclass C:\n def m(self): return U",
    "an object": "class S: pass\nUSED = S()\nUSED.n = {}\nclass C:\n def m(self): return USED",
    "its class": "class S:\n def n(self): return {}\nU = S()\nclass C:\n def m(self): return U",
    "a cached function": "@cache\ndef g(): return {}\nclass C:\n def m(self): return g()",
    "an array of objects": "USED = array([object(), {}])\nclass C:\n def m(self): return USED",
}


@pytest.mark.parametrize("source", COUNTING.values(), ids=COUNTING)
def test_a_class_counts_with(source):
    used = {"Struct": msgspec.Struct, "dataclass": dataclass, "cache": cache, "array": np.array}
    modules = [module_of(source.format(n), **used) for n in (1, 1, 2)]
    one, again, two = (fingerprint([module.C]) for module in modules)
    assert one == again
    assert one != two


def test_a_set_counts_alike_in_every_process():
    """Two orders of the same items stand for the orders that two seeds of hashing give."""
    # Multiples of 8 compete for one place in the table of a small set.
    one, other = set(range(0, 64, 8)), set(range(56, -1, -8))
    assert list(one) != list(other)
    source = "class C:\n    def m(self): return USED"
    assert len({fingerprint([module_of(source, USED=used).C]) for used in (one, other)}) == 1
    code = module_of("def f(x): return x in {0, 8, 16, 24, 32, 40, 48, 56}").f
    before = fingerprint([code])
    constants = [
        frozenset(other) if isinstance(c, frozenset) else c for c in code.__code__.co_consts
    ]
    code.__code__ = code.__code__.replace(co_consts=tuple(constants))
    assert fingerprint([code]) == before
