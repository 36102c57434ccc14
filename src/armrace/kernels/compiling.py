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

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

from armrace.kernels.fingerprints import SCRIPT, fingerprint

__all__ = ["entry", "fingerprint", "inlined", "kept_on_disk", "outlined"]

F = TypeVar("F", bound=Callable[..., Any])


def inlined(function: F) -> F:
    """Let compiled code call ``function``; called from Python it stays what it is."""
    return cast(
        "F",
        register_jitable(
            forceinline=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
        )(function),
    )


def outlined(function: F) -> F:
    """As :func:`inlined`, for what a hot loop rarely calls, so that the loop stays small."""
    return cast(
        "F",
        register_jitable(
            forceinline=False, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
        )(function),
    )


def entry(code: str) -> Callable[[F], F]:
    """Compile the decorated function on first call, cached on disk under the name of ``code``.

    What a script itself defines has another identity in every process, so that Numba would
    never find it again: it is not put on disk.
    """
    kept = not code.startswith(SCRIPT)

    def compile_lazily(function: F) -> F:
        function.__qualname__ = f"{function.__name__}.{code}"
        return cast("F", numba.njit(cache=kept, nogil=True, error_model="numpy")(function))

    return compile_lazily


def kept_on_disk(compiled: Any) -> bool:
    """Whether an entry's machine code is on disk already."""
    file = getattr(compiled._cache, "_cache_file", None)  # none for what is never kept
    return file is not None and Path(file._index_path).exists()
