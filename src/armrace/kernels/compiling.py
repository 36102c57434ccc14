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

import enum
import hashlib
import inspect
import types
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.extending import register_jitable

__all__ = ["entry", "fingerprint", "inlined", "kept_on_disk", "outlined"]

F = TypeVar("F", bound=Callable[..., Any])
Update = Callable[[bytes], None]

_SCRIPT = "script_"


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


def entry(code: str, holds_lock: bool = False) -> Callable[[F], F]:
    """Compile the decorated function on first call, cached on disk under the name of ``code``.

    What a script itself defines has another identity in every process, so that Numba would
    never find it again: it is not put on disk. To let go of the interpreter lock costs more than
    a call of a microsecond takes, so that short calls keep it (``holds_lock``).
    """
    kept = not code.startswith(_SCRIPT)

    def compile_lazily(function: F) -> F:
        function.__qualname__ = f"{function.__name__}.{code}"
        return cast(
            "F", numba.njit(cache=kept, nogil=not holds_lock, error_model="numpy")(function)
        )

    return compile_lazily


def kept_on_disk(compiled: Any) -> bool:
    """Whether an entry's machine code is on disk already."""
    file = getattr(compiled._cache, "_cache_file", None)  # none for what is never kept
    return file is not None and Path(file._index_path).exists()


def fingerprint(functions: Collection[Callable[..., Any]]) -> str:
    """Name the code that an entry reaches: the kernels, and the implementations it will call.

    An implementation of this package stands for its whole file; a foreign one is followed
    through whatever it names, closes over or defaults to.
    """
    digest = hashlib.sha256(_kernels_digest())
    seen: set[int] = set()
    for function in functions:
        if function.__module__.startswith("armrace."):
            digest.update(_file_digest(inspect.getfile(function)))
        else:
            _digest_value(function, [], digest.update, seen)
    in_script = any(function.__module__ == "__main__" for function in functions)
    return (_SCRIPT if in_script else "") + digest.hexdigest()[:16]


@cache
def _kernels_digest() -> bytes:
    rooms = (Path(__file__).parent, Path(__file__).parents[1] / "policies")
    sources = sorted(source for room in rooms for source in room.rglob("*.py"))
    return b"".join(_file_digest(str(source)) for source in sources)


@cache
def _file_digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


def _digest_function(function: types.FunctionType, update: Update, seen: set[int]) -> None:
    """Follow a function through all it names, closes over and defaults to, down to constants."""
    if id(function) in seen or _is_stable(function.__module__):
        return
    seen.add(id(function))
    update(f"{function.__module__}.{function.__qualname__}".encode())
    names = _digest_code(function.__code__, update)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    for value in (*cells, *(function.__defaults__ or ()), function.__kwdefaults__):
        _digest_value(value, names, update, seen)
    for name in names:
        if name in function.__globals__:
            update(name.encode())
            _digest_value(function.__globals__[name], names, update, seen)


def _digest_value(value: Any, names: list[str], update: Update, seen: set[int]) -> None:
    value = getattr(value, "py_func", value)
    if isinstance(value, types.FunctionType):
        _digest_function(value, update, seen)
    elif isinstance(value, types.ModuleType):
        if not _is_stable(value.__name__):
            for name in names:
                if hasattr(value, name):
                    _digest_value(getattr(value, name), names, update, seen)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _digest_value(item, names, update, seen)
    elif isinstance(value, np.ndarray):
        update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    elif isinstance(value, type) and issubclass(value, enum.Enum):
        update(repr(list(value)).encode())
    elif isinstance(value, (bool, int, float, complex, str, bytes, np.generic, dict)):
        update(repr(value).encode())


def _is_stable(module: str) -> bool:
    """Whether Numba compiles a module's functions by rules of its own."""
    return module.partition(".")[0] in ("numpy", "numba", "math", "builtins")


def _digest_code(code: types.CodeType, update: Update) -> list[str]:
    """Digest the code and that of the functions within; return the names that it uses."""
    update(code.co_code)
    update(repr(code.co_names).encode())
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _digest_code(constant, update)
        else:
            update(repr(constant).encode())
    return names
