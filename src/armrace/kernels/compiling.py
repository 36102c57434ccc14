"""The two ways in which functions of this package become machine code.

An *inlined* function stays a plain Python function that can be called, stepped through and
tested as such; it is compiled only where compiled code calls it. An *entry* is what Python
calls: it is compiled on first use, releases the interpreter lock and is kept on disk.

Numba decides whether an entry on disk is still good by looking at the entry's own file. The
code an entry calls lives elsewhere, perhaps in a module of the user's. So every entry is made
by a factory for a *fingerprint* of all code that it may reach, and carries it in its name,
which Numba makes the name of the file on disk: a changed implementation is compiled anew, and
one user's policies never get in the way of another's.
"""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import register_jitable

__all__ = ["entry", "fingerprint", "inlined"]

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Let compiled code call ``function``; called from Python it stays what it is."""
    return cast(
        "F",
        register_jitable(
            forceinline=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
        )(function),
    )


def entry(code: str) -> Callable[[F], F]:
    """Compile the decorated function on first call, cached on disk under the name of ``code``."""

    def compile_lazily(function: F) -> F:
        function.__qualname__ = f"{function.__name__}.{code}"
        return cast("F", numba.njit(cache=True, nogil=True, error_model="numpy")(function))

    return compile_lazily


def fingerprint(functions: Iterable[Callable[..., Any]]) -> str:
    """Name the code that an entry reaches: the kernels, and the implementations it will call.

    An implementation of this package stands for its whole file; a foreign one is followed
    through the functions and constants that it names.
    """
    digest = hashlib.sha256(_kernels_digest())
    seen: set[int] = set()
    for function in functions:
        if function.__module__.startswith("armrace."):
            digest.update(_file_digest(inspect.getfile(function)))
        else:
            _digest_function(function, digest.update, seen)
    return digest.hexdigest()[:16]


@cache
def _kernels_digest() -> bytes:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return b"".join(_file_digest(str(source)) for source in sources)


@cache
def _file_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _digest_function(
    function: Callable[..., Any], update: Callable[[bytes], None], seen: set[int]
) -> None:
    """Follow a function through whatever it closes over or names, down to constants."""
    function = getattr(function, "py_func", function)
    if id(function) in seen or not isinstance(function, types.FunctionType):
        return
    seen.add(id(function))
    update(f"{function.__module__}.{function.__qualname__}".encode())
    _digest_code(function.__code__, update)
    names = function.__code__.co_names
    found = [*(cell.cell_contents for cell in function.__closure__ or ())]
    found += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, types.ModuleType):
            found += [vars(value)[member] for member in names if member in vars(value)]
        else:
            found.append(value)
    for value in found:
        _digest_value(value, update, seen)


def _digest_value(value: Any, update: Callable[[bytes], None], seen: set[int]) -> None:
    if isinstance(value, np.ndarray):
        update(repr((value.dtype, value.shape)).encode() + value.tobytes())
    elif isinstance(value, (bool, int, float, str, bytes, tuple, np.generic)):
        update(repr(value).encode())
    elif callable(value):
        _digest_function(value, update, seen)


def _digest_code(code: types.CodeType, update: Callable[[bytes], None]) -> None:
    update(code.co_code)
    update(repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _digest_code(constant, update)
        else:
            update(repr(constant).encode())
