"""Which function implements a generic one, by the class of the state that it is called with.

From Python a generic function looks its implementation up at each call, with :func:`find`; in
compiled code Numba does so at compile time, so that dispatch costs nothing at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

from numba.core import types
from numba.extending import overload

from armrace.kernels.compiling import CALLEE_OPTIONS, inlined

F = TypeVar("F", bound=Callable[..., Any])
_GENERICS: list[str] = []
_REGISTRY: dict[tuple[str, type], Callable[..., Any]] = {}
_DEFAULTS: dict[str, Callable[..., Any]] = {}


def dispatched(function: F) -> F:
    """Let the decorated function have implementations, found by the class of its first argument."""
    _GENERICS.append(function.__name__)
    _dispatch_when_compiling(function)
    return function


def by_default(generic: Callable[..., Any]) -> Callable[[F], F]:
    """Take the decorated function as ``generic`` for states without one of their own."""

    def register(function: F) -> F:
        _DEFAULTS[generic.__name__] = function
        return function

    return register


def implement(generic: Callable[..., Any], state_class: type) -> Callable[[F], F]:
    """Register the decorated function as ``generic`` for states of ``state_class``.

    It has the parameters of the generic function, of which those with a default may be left out.

    Args:
        generic: one of the generic functions, such as :func:`armrace.extending.choose`.
        state_class: the class of the states.
    """
    parameters = inspect.signature(generic).parameters
    expected = list(parameters)
    needed = [name for name, each in parameters.items() if each.default is each.empty]

    def register(function: F) -> F:
        given = list(inspect.signature(function).parameters)
        if given != [name for name in expected if name in {*needed, *given}]:
            raise TypeError(
                f"an implementation of {generic.__name__} takes ({', '.join(expected)}); "
                f"{function.__name__} takes ({', '.join(given)})"
            )
        if (generic.__name__, state_class) in _REGISTRY:
            # Numba keeps what it compiled for a class of states and would go on using it.
            raise TypeError(
                f"{state_class.__name__} already has an implementation of {generic.__name__}; "
                f"define the class of the state again with the new one"
            )
        _REGISTRY[generic.__name__, state_class] = function
        return function

    return register


def find(generic: Callable[..., Any], state_class: type) -> Callable[..., Any]:
    """The implementation of ``generic`` for ``state_class``."""
    name = generic.__name__
    found = _REGISTRY.get((name, state_class)) or _DEFAULTS.get(name)
    if found is None:
        raise TypeError(f"{state_class.__name__} has no implementation of {name}")
    return found


def implements(generic: Callable[..., Any], state_class: type) -> bool:
    """Whether ``generic`` is registered for ``state_class``."""
    return (generic.__name__, state_class) in _REGISTRY


def implementations(state: Any) -> list[Callable[..., Any]]:
    """All implementations registered for a state and for the states within it."""
    keys = ((name, type(state)) for name in _GENERICS)
    found = [_REGISTRY[key] for key in keys if key in _REGISTRY]
    for member in state:
        if isinstance(member, tuple):
            found += implementations(member)
    return found


def call(generic: Callable[..., Any], state: Any, **arguments: Any) -> Any:
    """Call the implementation of ``generic`` from Python, with the arguments that it takes."""
    implementation = find(generic, type(state))
    taken = _parameters(implementation)
    return implementation(state, *(arguments[name] for name in taken[1:]))


@cache
def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _with_parameters(of: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt an implementation that leaves out parameters to the generic's signature.

    The arguments that it does not take are ``None`` there, or say nothing to it.
    """
    parameters = inspect.signature(of).parameters
    names = [
        name if each.default is each.empty else f"{name}=None" for name, each in parameters.items()
    ]
    passed = ", ".join(_parameters(function))
    scope: dict[str, Any] = {"inner": inlined(function), "__name__": __name__}
    exec(f"def adapted({', '.join(names)}): return inner({passed})", scope)
    return cast("Callable[..., Any]", scope["adapted"])


def _dispatch_when_compiling(generic: Callable[..., Any]) -> None:
    """Make ``generic`` callable from compiled code, by the class of its first argument."""
    expected = _parameters(generic)

    def resolve(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
        # Numba calls this with types, not values, while it compiles the caller. What is returned
        # is compiled in place of the generic, so nothing is looked up at run time.
        state = arguments[0] if arguments else named["state"]
        if not isinstance(state, (types.NamedTuple, types.NamedUniTuple)):
            return None  # not a state: Numba then reports the call as an error of its caller
        found = find(generic, state.instance_class)
        return found if _parameters(found) == expected else _with_parameters(generic, found)

    # Not strict, since the resolver serves all generics and does not have their parameters' names.
    # Inlined into the caller, so that LLVM sees which parts of a ticket or a state are not used.
    overload(
        generic,
        strict=False,
        jit_options={"forceinline": True, **CALLEE_OPTIONS},
    )(resolve)
