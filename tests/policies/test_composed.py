"""A policy that calls the functions of another: compiled, exact, and in bounded time."""

import ast
import inspect

import pytest

from armrace import extending
from armrace.policies import best_of_all_worlds, guarded


@pytest.mark.parametrize("module", [guarded, best_of_all_worlds])
def test_what_composed_policies_of_the_library_import_is_there_for_others(module):
    """What else they import is of the policies that they contain."""
    imports = [
        node
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.ImportFrom)
        and node.module.startswith(("armrace.kernels.", "armrace.policies.races."))
    ]
    names = {alias.name for node in imports for alias in node.names}
    # What the specification of a guard asks of its base, and how it makes its race.
    names -= {"is_restrictable", "make_pooled_race"}
    assert len(names) > 15
    assert names <= set(extending.__all__)
