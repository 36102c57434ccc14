"""Fingerprints of code: which functions, classes and constants an object reaches.

Code of this package counts by file: whatever a function names, directly or through others,
contributes the whole file that defines it. The kernels always count, all of them. Code of the
user counts by what it does: bytecode, constants, globals, closures and defaults are followed
down to plain values, so that a change in a helper of a helper is noticed. The fingerprint of the
same code is the same in every process.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import inspect
import re
import sys
import types
from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SCRIPT = "script_"
"""Begins the fingerprint of code that a script or an interactive session itself defines."""
_USERS = "users_"
"""Begins the fingerprint of other code that is not of this package alone."""

_PACKAGE = "armrace"
_KERNELS = Path(__file__).parent
_STABLE = {"numpy", "numba", "llvmlite", "msgspec", *sys.stdlib_module_names}
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WRAPPERS = (type(cache(len)), staticmethod, classmethod, property)
_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None), type(...), range)


def fingerprint(code: Collection[Callable[..., Any]]) -> str:
    """Name the kernels together with all code that ``code``, functions or classes, reaches."""
    digest = hashlib.sha256(_kernels_digest())
    for each in code:
        if is_own(each):
            digest.update(_own_digest(each))
        else:
            digest.update(_reached_by(each))
    in_script = any(each.__module__ == "__main__" for each in code)
    start = SCRIPT if in_script else "" if all(map(is_own, code)) else _USERS
    return start + digest.hexdigest()[:16]


def is_users(fingerprint: str) -> bool:
    """Whether a fingerprint is of code that is not of this package alone."""
    return fingerprint.startswith((SCRIPT, _USERS))


def is_own(code: Any) -> bool:
    """Whether this package defines a function or class."""
    return _root(code.__module__) == _PACKAGE


def source_files(folder: Path) -> list[Path]:
    """All Python files in a folder and the folders within it, in a fixed order."""
    return sorted(folder.rglob("*.py"))


@cache
def file_digest(path: Path) -> bytes:
    """The digest of one file's contents, read once per process."""
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def _kernels_digest() -> bytes:
    return b"".join(file_digest(source) for source in source_files(_KERNELS))


@cache
def _own_digest(code: Callable[..., Any]) -> bytes:
    """As :func:`_reached_by`, cached: the package's files do not change while a process runs."""
    return _reached_by(code)


def _reached_by(code: Callable[..., Any]) -> bytes:
    walk = _Walk()
    walk.visit(code, [])
    return walk.digest()


def _is_users(kind: type) -> bool:
    """Whether a class is neither of this package nor of an installed library."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return not is_own(kind) and (file is None or "site-packages" not in Path(file).parts)


def _root(module: str | None) -> str:
    return (module or "").partition(".")[0]


class _Walk:
    """A walk through all that code names."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._files: set[Path] = set()
        # By identity, since functions need not be hashable; held, so that no identity is reused.
        self._seen: dict[int, Any] = {}

    def digest(self) -> bytes:
        for file in sorted(self._files):
            self._digest.update(file_digest(file))
        return self._digest.digest()

    def visit(self, value: Any, names: list[str]) -> None:
        """Add a value; of a module, the members called ``names``."""
        # What Numba compiled, or something wraps, counts by the Python function that it came from.
        value = getattr(value, "py_func", value)
        if isinstance(value, _WRAPPERS):
            value = value.fget if isinstance(value, property) else value.__wrapped__
        if isinstance(value, types.ModuleType):
            if self._counts(value.__name__):
                for name in names:
                    if hasattr(value, name):
                        self.visit(getattr(value, name), names)
        elif isinstance(value, (types.FunctionType, type)):
            # Functions may name one another in a circle.
            if id(value) not in self._seen and self._counts(value.__module__):
                self._seen[id(value)] = value
                self._visit_definition(value)
        elif isinstance(value, (tuple, list, Mapping)):
            self._add(f"{type(value).__name__} of {len(value)}")
            for item in value.items() if isinstance(value, Mapping) else value:
                self.visit(item, names)
        elif isinstance(value, (set, frozenset)):
            self._visit_set(value, names)
        elif isinstance(value, np.ndarray):
            self._add(f"{value.dtype}{value.shape}")
            if value.dtype.hasobject:  # its bytes are addresses
                self.visit(value.tolist(), names)
            else:
                self._digest.update(value.tobytes())
        elif isinstance(value, enum.Enum):
            self.visit(type(value), names)
            self._add(value.name)
        elif isinstance(value, _PLAIN):
            self._add(repr(value))
        elif id(value) not in self._seen and self._counts(type(value).__module__):
            self._seen[id(value)] = value
            self._visit_fields(value, names)

    def _visit_set(self, items: Collection[Any], names: list[str]) -> None:
        """Add the items in an order of their own: that of a set differs between processes."""
        digests = []
        for item in items:
            walk = _Walk()
            walk._seen = dict(self._seen)
            walk.visit(item, names)
            self._files |= walk._files
            digests.append(walk._digest.digest())
        self._add(f"set of {len(digests)}")
        self._digest.update(b"".join(sorted(digests)))

    def _visit_fields(self, value: Any, names: list[str]) -> None:
        """Add what an object holds, and its class."""
        if hasattr(value, "__struct_fields__"):  # as classes of msgspec have
            fields = value.__struct_fields__
        elif dataclasses.is_dataclass(value):
            fields = tuple(field.name for field in dataclasses.fields(value))
        elif _is_users(type(value)):
            fields = tuple(getattr(value, "__dict__", ()))
        else:  # a library's object may reach everything that the library has
            return
        self.visit(type(value), names)
        for name in fields:
            self._add(name)
            self.visit(getattr(value, name, None), names)

    def _counts(self, module: str | None) -> bool:
        """Whether code of a module is followed; libraries and kernels are not."""
        # Versions of Numba and Python are part of a file's name, and all kernels count anyway.
        if _root(module) in _STABLE:
            return False
        return module is None or not f"{module}.".startswith(f"{_PACKAGE}.kernels.")

    def _visit_definition(self, value: types.FunctionType | type) -> None:
        self._add(f"{value.__module__}.{value.__qualname__}")
        if is_own(value):
            self._files.add(Path(inspect.getfile(value)))
        if isinstance(value, type):
            self._visit_class(value)
        else:
            self._visit_function(value)

    def _visit_function(self, function: types.FunctionType) -> None:
        names = self._visit_code(function.__code__)
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        for value in (*cells, *(function.__defaults__ or ()), function.__kwdefaults__):
            self.visit(value, names)
        self._visit_names(names, function.__globals__, names)
        self._visit_annotations(function, function.__globals__)

    def _visit_class(self, kind: type) -> None:
        """A class with its bases, its fields and, unless its file counts anyway, its members.

        The layout of a state is not in the code that uses it, so fields are followed as well.
        """
        if issubclass(kind, enum.Enum):
            self._add(repr(list(kind)))
            return
        for base in kind.__bases__:
            self.visit(base, [])
        module = sys.modules.get(kind.__module__)
        self._visit_annotations(kind, {} if module is None else vars(module))
        self._add(repr(getattr(kind, "_fields", ())))
        if not is_own(kind):
            for name, member in vars(kind).items():
                if not name.startswith("__") or name == "__post_init__":
                    self._add(name)
                    self.visit(member, [])

    def _visit_annotations(self, owner: Any, scope: Mapping[str, Any]) -> None:
        found = getattr(owner, "__annotations__", None)
        # Some classes of compiled libraries have a descriptor there.
        for name, annotation in found.items() if isinstance(found, Mapping) else ():
            words = annotation if isinstance(annotation, str) else ""
            self._add(f"{name}: {words}")
            if isinstance(annotation, type):
                self.visit(annotation, [])
            self._visit_names(_IDENTIFIER.findall(words), scope, [])

    def _visit_names(self, names: list[str], scope: Mapping[str, Any], members: list[str]) -> None:
        for name in names:
            if name in scope:
                self._add(name)
                self.visit(scope[name], members)

    def _visit_code(self, code: types.CodeType) -> list[str]:
        """Add the code and that of the functions within; return the names that it uses."""
        self._digest.update(code.co_code)
        self._add(repr(code.co_names))
        names = list(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                names += self._visit_code(constant)
            else:
                self.visit(constant, [])
        return names

    def _add(self, text: str) -> None:
        self._digest.update(text.encode() + b"\0")
