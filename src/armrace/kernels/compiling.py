"""The two ways in which functions of this package become machine code.

An *inlined* function stays a plain Python function that can be called, stepped through and
tested as such; it is compiled only where compiled code calls it. An *entry* is what Python
calls: it is compiled on first use, releases the interpreter lock and is kept on disk.

Whether machine code on disk is still good depends on all code that the entry calls, perhaps in a
module of the user's. So every entry is made by a factory for a *fingerprint* of that code, which
is part of its name on disk: a changed implementation is compiled again, and the policies of one
user never get in the way of another's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numba
from numba.core.cpu import CPUTargetOptions
from numba.core.targetconfig import ConfigStack
from numba.extending import register_jitable

from armrace.kernels.fingerprints import SCRIPT
from armrace.kernels.machine_code import MachineCode
from armrace.kernels.pipelines import CalleeCompiler, EntryCompiler

F = TypeVar("F", bound=Callable[..., Any])

CALLEE_OPTIONS: dict[str, Any] = {
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": CalleeCompiler,
}
"""How functions are compiled that only compiled code calls."""


def inlined(function: F) -> F:
    """Make ``function`` callable from compiled code; from Python it runs as plain Python.

    Args:
        function: the function to mark.
    """
    return cast("F", register_jitable(forceinline=True, **CALLEE_OPTIONS)(function))


def outlined(function: F) -> F:
    """As :func:`inlined`, for what a hot loop rarely calls, so that the loop stays small.

    Args:
        function: the function to mark.
    """
    return cast("F", register_jitable(forceinline=False, **CALLEE_OPTIONS)(function))


def entry(code: str, checked: bool = False, holds_lock: bool = False) -> Callable[[F], F]:
    """Compile the decorated function on first call, and store it on disk under ``code``.

    If ``checked``, an index out of bounds raises IndexError, there and in all that it calls; else
    it reads or overwrites foreign memory. What a script itself defines has another identity in
    every process and would never be found again, so it is not stored. To release the interpreter
    lock costs more than a call of a microsecond takes, so that short calls keep it
    (``holds_lock``).
    """

    def compile_lazily(function: F) -> F:
        if checked:
            _let_checks_be_inherited()
        kind = ".checked" if checked else ""
        function.__qualname__ = f"{function.__name__}.{code}{kind}"
        compiled = numba.njit(
            nogil=not holds_lock,
            error_model="numpy",
            boundscheck=checked,
            pipeline_class=EntryCompiler,
        )(function)
        if not code.startswith(SCRIPT):
            compiled._cache = MachineCode(function)
        return cast("F", compiled)

    return compile_lazily


@cache
def _let_checks_be_inherited() -> None:
    """Make bounds checks apply to callees too; Numba itself checks the outermost function only.

    Numba keeps separate machine code for each set of the caller's flags, so that code compiled
    for a checked caller is never used by another one.
    """
    usual = CPUTargetOptions.finalize

    def finalize(self: Any, flags: Any, options: Any) -> None:
        usual(self, flags, options)
        callers = ConfigStack()
        if options.get("boundscheck") is None and callers:
            flags.boundscheck = callers.top().boundscheck

    CPUTargetOptions.finalize = finalize


def is_stored(compiled: Any) -> bool:
    """Whether an entry's machine code is on disk already, undamaged and for this machine."""
    stored = compiled._cache
    return isinstance(stored, MachineCode) and stored.is_stored(compiled.targetctx.codegen())


if numba.config.DISABLE_JIT:
    # Without the compiler there are no function pointers, so attacks cannot be called.
    numba.config.DISABLE_JIT = 0
    if sys.stderr is not None:
        print(
            "armrace: NUMBA_DISABLE_JIT is ignored, since armrace runs as machine code only.",
            file=sys.stderr,
        )
