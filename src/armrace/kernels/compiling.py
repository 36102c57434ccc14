"""The two ways in which functions of this package become machine code.

An *inlined* function stays a plain Python function that can be called, stepped through and
tested as such; it is compiled only where compiled code calls it. An *entry* is what Python
calls: it is compiled on first use, releases the interpreter lock and is kept on disk.

Whether machine code on disk is still good depends on all code that the entry calls, perhaps in a
module of the user's. So every entry is made by a factory for a *fingerprint* of that code, which
is part of its name on disk: a changed implementation is compiled again, and the policies of one
user never get in the way of another's.

Only entries become machine code. Numba optimises every function that it compiles, and turns it into
machine code, although ours are called by other compiled functions only: a function that is nested
ten calls deep is optimised ten times, as a part of each of its callers. Here a function that
compiled code calls stays intermediate code. An entry collects the code of everything that it
reaches, and optimises it once.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar, cast

import numba
from numba import _dynfunc
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, _LowerResult
from numba.core.compiler_machinery import register_pass
from numba.core.cpu import CPUTargetOptions
from numba.core.environment import lookup_environment
from numba.core.targetconfig import ConfigStack
from numba.core.typed_passes import NativeLowering
from numba.extending import register_jitable

from armrace.kernels.fingerprints import SCRIPT
from armrace.kernels.machine_code import MachineCode

_ENVIRONMENT = "_ZN08NumbaEnv"
"""Begins the names of variables that hold the environments (Python constants) of functions."""


class _CalleeLibrary(JITCodeLibrary):  # type: ignore[misc]  # Numba is untyped
    """The intermediate code of one function, and the libraries that it calls."""

    def finalize(self) -> None:
        """Close the library without optimising it: the entry that links it does that."""
        self._finalized = True

    def own_module(self) -> Any:
        """The function's own code, without that of its callees, for linking any number of times."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """The code together with that of all callees, for functions that others compile."""
        module = self.own_module().clone()
        for library in _reached(self._linking_libraries):
            module.link_in(_linked_module(library), preserve=True)
        return module


class _EntryLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of an entry with everything that it reaches."""

    def add_ir_module(self, module: Any) -> None:
        """Tell the compiler that nothing writes to the memory of states while the entry runs.

        Not in callees, whose arguments are the entry's own: the compiler would have to keep track
        of what it was told about each of them.
        """
        for function in module.functions:
            for argument in function.args:
                if argument.attributes.dereferenceable:  # a state, see handles
                    argument.add_attribute("noalias")
        super().add_ir_module(module)

    def finalize(self) -> None:
        """Link what the entry reaches, optimise all of it and make machine code."""
        libraries = _reached(self._linking_libraries)
        for library in libraries:
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(_linked_module(library), preserve=True)
        self._linking_libraries.clear()
        super().finalize()
        self._linking_libraries.extend(libraries)

    def _verify_declare_only_symbols(self) -> None:
        """Refuse code in which a compiled function is missing: to call it would be fatal."""
        for function in self._final_module.functions:
            if function.is_declaration and function.name.startswith("_ZN"):
                raise AssertionError(f"{function.name} is called and was not linked")


def _reached(libraries: Iterable[Any]) -> list[Any]:
    """All libraries that some libraries call, directly or not, callers before callees.

    The order matters: LLVM links a function only if the code linked before it calls it.
    """
    finished: list[Any] = []
    seen: set[Any] = set()
    waiting = [(library, False) for library in libraries]
    while waiting:
        library, callees_are_done = waiting.pop()
        if callees_are_done:
            finished.append(library)
        elif library not in seen:
            seen.add(library)
            waiting.append((library, True))
            if isinstance(library, _CalleeLibrary):
                waiting += [(callee, False) for callee in library._linking_libraries]
    return finished[::-1]


def _linked_module(library: Any) -> Any:
    if isinstance(library, _CalleeLibrary):
        return library.own_module()
    return library._get_module_for_linking()


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerCallee(NativeLowering):  # type: ignore[misc]
    """Lowering without machine code."""

    _name = "armrace_lower_callee"

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        state.library = _CalleeLibrary(codegen, state.func_id.func_qualname)
        flags, usual = state.flags, state.flags.no_compile
        flags.no_compile = True
        try:
            super().run_pass(state)
        finally:
            flags.no_compile = usual
        lowered = state["cr"]
        # Callers look the function up by this object. It has no address, and is never called.
        key = _dynfunc.make_function(
            lowered.fndesc.lookup_module(), "callee", "", 0, lowered.env, (state.library,)
        )
        state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
        state.reload_init.extend(state.library._reload_init)
        state["cr"] = _LowerResult(lowered.fndesc, lowered.call_helper, cfunc=key, env=lowered.env)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _LowerEntry(NativeLowering):  # type: ignore[misc]
    """Lowering to machine code of an entry and all that it calls."""

    _name = "armrace_lower_entry"

    def run_pass(self, state: Any) -> bool:
        codegen = state.targetctx.codegen()
        state.library = _EntryLibrary(codegen, state.func_id.func_qualname)
        state.library.enable_object_caching()
        super().run_pass(state)
        # Numba does this for each function when it gets an address, which callees never do.
        for variable in state.library._final_module.global_variables:
            if variable.name.startswith(_ENVIRONMENT):
                environment = lookup_environment(variable.name)
                if environment is not None:
                    codegen.set_env(variable.name, environment)
        return True


class _Compiler(CompilerBase):  # type: ignore[misc]
    lowering: Any

    def define_pipelines(self) -> list[Any]:
        manager = DefaultPassBuilder.define_nopython_pipeline(self.state)
        manager.passes = [
            (self.lowering if each is NativeLowering else each, told)
            for each, told in manager.passes
        ]
        manager._finalized = False
        manager.finalize()
        return [manager]


class CalleeCompiler(_Compiler):
    """Compiles functions that only compiled code calls, into intermediate code."""

    lowering = _LowerCallee


class EntryCompiler(_Compiler):
    """Compiles functions that Python calls, with all that they reach, into machine code."""

    lowering = _LowerEntry

    def compile_extra(self, function: Any) -> Any:
        """Compile with the garbage collector off: it would search millions of live objects.

        Numba holds a lock of the whole process here, so that two compilations never overlap.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(function)
        finally:
            if collects:
                gc.enable()


class NotCompiled(Exception):
    """Something would have been compiled where that is refused."""

    def __init__(self, function: Any, argument_types: tuple[Any, ...]) -> None:
        super().__init__(f"{function.py_func.__name__} is not compiled.")
        self._function = function
        self._argument_types = argument_types

    def compile(self) -> None:
        """Compile it now."""
        self._function.compile(self._argument_types)


class _Refused(threading.local):
    depth = 0


_refused = _Refused()


@contextmanager
def compiling_refused() -> Iterator[None]:
    """Make every compilation in this thread raise :class:`NotCompiled` before it begins."""
    _refused.depth += 1
    try:
        yield
    finally:
        _refused.depth -= 1


class _Listener(event.Listener):  # type: ignore[misc]
    """Numba tells it about every compilation, in the thread that is about to compile."""

    def on_start(self, event: Any) -> None:
        if _refused.depth:
            raise NotCompiled(event.data["dispatcher"], event.data["args"])

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Listener())


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
