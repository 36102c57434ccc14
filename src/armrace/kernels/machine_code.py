"""A cache of machine code on disk that is verified before use and never required.

Numba can cache compiled functions itself, but trusts what it reads: a damaged index stops every
later run, a damaged object takes the process down, and a folder that cannot be written is
fatal. This module replaces that cache. Every compiled function is one file, named by all that
it depends on and sealed with a digest. What does not match its digest counts as absent, and
what cannot be stored is compiled again by the next process.

The folder is ``NUMBA_CACHE_DIR`` if that is set, else one in the user's cache directory. Where
it cannot be written, or other users can write to it, a private folder among the temporary files
takes its place. Files that another user could have written are not read: they would be executed.

A wheel can bring machine code along, in a folder of the package that is read after those. It is
made for the processors of :data:`PACKAGED`, which nearly all of the last ten years are.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding
import numba
import numba.cpython.hashing  # defines symbols that machine code may refer to
from llvmlite.binding import Linkage
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.runtime import rtsys
from numba.core.serialize import dumps
from numba.np.numpy_support import numpy_version

from armrace.files.private import (
    check_private,
    create_private,
    make_private_folder,
    open_private,
)

PACKAGED = "x86-64-v3"
"""The processors, as LLVM names them, that the package's own machine code is for."""
_FEATURES = "cx16 sahf popcnt sse3 sse4.1 sse4.2 ssse3 avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
"""What they have beyond the first processors of 64 bits."""
_PACKAGED_FOLDER = Path(__file__).parent.parent / "_machine_code" / PACKAGED
_SUFFIX = ".nbc"
_MAGIC = b"armrace machine code 1\n"
_DIGEST_SIZE = hashlib.sha256().digest_size
_SECONDS_KEPT = 60 * 24 * 3600.0
_BYTES_KEPT = 2**31
"""The age of unused code, and the total size, beyond which code is removed when more is stored."""


class MachineCode(_Cache):  # type: ignore[misc]  # Numba is untyped
    """The cache that a Numba dispatcher reads before it compiles and writes to afterwards."""

    def __init__(self, function: Any) -> None:
        self._function = function
        self._name = function.__qualname__.replace("<", "").replace(">", "")

    @property
    def cache_path(self) -> str:
        return str(folders()[0])

    def is_stored(self, codegen: Any) -> bool:
        """Whether the function is on disk for this process and processor, and undamaged."""
        start = self._start_of_names(codegen.magic_tuple())
        found = [file for folder in trusted_folders() for file in _files(folder, start)]
        # The signature that will be asked for is not known here, so that no file may be damaged.
        if found:
            return all(_payload(file) is not None for file in found)
        target = packaged_target(codegen)
        return target is not None and any(_files(_PACKAGED_FOLDER, self._start_of_names(target)))

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, or None to have it compiled."""
        # Machine code needs the runtime only. Numba's own cache loads all declarations of what it
        # can compile as well, which takes longer than everything else that a short command does.
        rtsys.initialize(target_context)
        codegen = target_context.codegen()
        payload = _read(self._file_name(sig, codegen.magic_tuple()))
        target = packaged_target(codegen)
        if payload is None and target is not None:
            payload = _payload(_PACKAGED_FOLDER / self._file_name(sig, target), is_packaged=True)
        if payload is None:
            return None
        try:
            found = CompileResult._rebuild(target_context, *pickle.loads(payload))
            found.library._shared_module = None  # to link the stubs is an error
            # Types that print alike may differ.
            return found if tuple(found.signature.args) == tuple(sig) else None
        except Exception:  # written by another Numba, or for classes that have moved
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled function if that is possible."""
        if any(not lifted.can_cache for lifted in data.lifted) or data.library.has_dynamic_globals:
            return
        _write(self._file_name(sig, data.codegen.magic_tuple()), dumps(_reduced(data)))

    def _start_of_names(self, target: tuple[str, str, str]) -> str:
        """Return how the names of all files begin that a processor, with our libraries, can use."""
        depends_on = (
            numba.__version__,
            llvmlite.__version__,
            numpy_version,  # as far as Numba tells versions apart
            EXTENSION_SUFFIXES[0],  # the version and the build of Python
            target,
            self._function.__module__,
            self._name,
            self._function.__code__.co_code,
        )
        return f"{self._name}-{_short_digest(depends_on)}"

    def _file_name(self, sig: Any, target: tuple[str, str, str]) -> str:
        """Return the name of the file for a signature."""
        return f"{self._start_of_names(target)}-{_short_digest(str(tuple(sig)))}{_SUFFIX}"

    def enable(self) -> None:
        """Do nothing: the cache is always on."""

    def disable(self) -> None:
        """Do nothing: the cache is always on."""

    def flush(self) -> None:
        """Remove what is stored of this function."""
        for folder in folders():
            for file in _files(folder, self._name):
                with suppress(OSError):
                    file.unlink()


def _short_digest(parts: Any) -> str:
    """Return 16 hexadecimal digits that differ wherever the printed form of ``parts`` does."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


@cache
def packaged_target(codegen: Any) -> tuple[str, str, str] | None:
    """Return what the package's machine code was compiled for, if this processor can run it."""
    triple, _, features = codegen.magic_tuple()
    has = set(features.split(","))
    can = _PACKAGED_FOLDER.is_dir() and all(f"+{each}" in has for each in _FEATURES.split())
    return (triple, PACKAGED, "") if can else None


def _reduced(result: Any) -> tuple[Any, ...]:
    """Return what a process needs of a compiled function that Python calls.

    Left out are three quarters of it: the intermediate code, which only a compiled caller would
    link, but for the names that it defines, and the annotated source, which names our folders.
    """
    (name, kind, (code, _)), *others = result._reduce()
    others[5] = ""
    module = result.library._final_module
    stubs = [f'define void @"{name}"() {{ unreachable }}' for name in _defined(module.functions)]
    stubs += [f'@"{name}" = global i8 0' for name in _defined(module.global_variables)]
    bitcode = llvmlite.binding.parse_assembly("\n".join(stubs)).as_bitcode()
    return (name, kind, (code, bitcode)), *others


def _defined(values: Any) -> list[str]:
    return [
        each.name
        for each in values
        if not each.is_declaration and each.linkage not in {Linkage.private, Linkage.internal}
    ]


@cache
def folders() -> list[Path]:
    """Return the folders in which machine code is looked for; the first writable one stores it."""
    return [Path(numba.config.CACHE_DIR or _users_folder()), *_substitutes()]


def _users_folder() -> Path:
    """Return the user's cache directory, which need not exist."""
    if sys.platform == "win32":
        place = os.environ.get("LOCALAPPDATA", tempfile.gettempdir())
    elif sys.platform == "darwin":
        place = "~/Library/Caches"
    else:
        place = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(place).expanduser() / "armrace"
    except RuntimeError:  # there is no home directory
        return Path("/nonexistent/armrace")


def _substitutes() -> Iterator[Path]:
    """A folder among the temporary files that only this user can write."""
    try:
        root = Path(tempfile.gettempdir())
    except OSError:  # there is no place for temporary files either
        return
    yield root / f"armrace-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"


def _files(folder: Path, start: str) -> Iterator[Path]:
    with suppress(OSError):
        yield from folder.glob(f"{start}-*{_SUFFIX}")


def trusted_folders() -> Iterator[Path]:
    """The folders that are there and that no other user can write."""
    for folder in folders():
        with suppress(OSError):
            check_private(folder)
            yield folder


def _payload(file: Path, is_packaged: bool = False) -> bytes | None:
    """Return what a file stores, if it is there and matches its digest.

    A file of the package is trusted as the code beside it is, whoever owns it.
    """
    try:
        with file.open("rb") if is_packaged else os.fdopen(open_private(file), "rb") as stored:
            return unsealed(stored.read())
    except OSError:
        return None


def unsealed(data: bytes) -> bytes | None:
    """Return the payload of a file's contents if it matches its digest."""
    start = len(_MAGIC) + _DIGEST_SIZE
    return data[start:] if data[:start] == _MAGIC + hashlib.sha256(data[start:]).digest() else None


def _read(name: str) -> bytes | None:
    """Return what was stored under a name, if it is present and undamaged."""
    for folder in trusted_folders():
        payload = _payload(folder / name)
        if payload is not None:
            # The time of modification serves as that of the last use, by which files are pruned.
            with suppress(OSError):
                os.utime(folder / name)
            return payload
    return None


def _write(name: str, payload: bytes) -> None:
    """Store under a name in the first writable folder; warn once if that is a substitute."""
    data = _MAGIC + hashlib.sha256(payload).digest() + payload
    reason, follows = "", "every process compiles again"
    for folder in folders():
        try:
            make_private_folder(folder)
            _write_file(folder / name, data)
        except OSError as error:
            reason = reason or error.strerror or str(error)
            continue
        _prune(folder)
        follows = f"{folder} takes its place"
        break
    if reason:
        _say_once(
            f"cannot store compiled code in {folders()[0]} ({reason}), so {follows}; set "
            "NUMBA_CACHE_DIR to a folder that lasts and that only you can write."
        )


def _write_file(file: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    # Renaming replaces atomically, so another process never reads half of a file.
    temporary = file.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        with os.fdopen(create_private(temporary), "wb") as output:
            output.write(data)
        temporary.replace(file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@cache
def _say_once(sentence: str) -> None:
    """Tell the user; worker processes leave that to the process that started them."""
    if multiprocessing.parent_process() is None and sys.stderr is not None:
        print(f"armrace: {sentence}", file=sys.stderr)


@cache
def _prune(folder: Path) -> None:
    """Remove files long unused, and the oldest beyond the limit; once per process."""
    with suppress(OSError):
        found = [(file.stat(), file) for file in folder.glob(f"*{_SUFFIX}")]
        oldest, total = time.time() - _SECONDS_KEPT, 0
        for state, file in sorted(found, key=lambda pair: pair[0].st_mtime, reverse=True):
            total += state.st_size
            if state.st_mtime < oldest or total > _BYTES_KEPT:
                file.unlink(missing_ok=True)
