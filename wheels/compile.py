"""Compile the catalogue for the processors of a wheel: ``python wheels/compile.py FOLDER``.

The code of every policy and attack, for simulations with and without an audit, for long runs and
for learners, is stored as a user's is, in FOLDER/x86-64-v3. It must not name a folder of this
machine, nor a function that a user's machine may not have: to load it would end the process.

Where a function of Numba's raises an error, such as that of an empty maximum, the code names the
file of the function, for tracebacks. The folder is overwritten there by as many characters.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import struct
import subprocess
import sys
from pathlib import Path

from armrace.kernels import machine_code

ROOT = Path(__file__).resolve().parents[1]
LONG = 10**8
"""A horizon from which races skip rounds, which is another loop."""
C_LIBRARY = """
acos asin atan atan2 ceil cos erfc exp exp2 expm1 fabs floor fmod ldexp lgamma log log10 log1p log2
nearbyint pow rint round sin sqrt tan tanh tgamma trunc memcmp memcpy memmove memset
"""
"""What the C library of every Linux has."""
MOST_BYTES = 60 * 2**20
HERE = {str(ROOT), sys.prefix, sys.base_prefix, str(Path.home()), str(Path.cwd())} - {"/"}
"""Folders of this machine."""


def compile_catalogue(folder: Path) -> None:
    """Compile everything that the wheel brings, in processes that think they have its processor."""
    variables = {
        "NUMBA_CPU_NAME": machine_code.PACKAGED,
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(folder),
    }
    for options in (["--audit"], ["--audit", "--no-learners", f"--horizon={LONG}"]):
        subprocess.run(
            [sys.executable, "-m", "armrace", "warm-up", *options],
            env={**os.environ, **variables},
            check=True,
        )


def without_folders(data: bytes) -> bytes:
    """Return what is stored of a function with the folders of this machine overwritten."""
    payload = payload_of(data)
    start = data[: -len(payload) - hashlib.sha256().digest_size]
    for place in sorted(HERE, key=len, reverse=True):
        payload = payload.replace(f"{place}/".encode(), b"." * len(place.encode()) + b"/")
    return start + hashlib.sha256(payload).digest() + payload


def check(folder: Path) -> None:
    """Refuse code that names what another machine may lack."""
    files = sorted(folder.iterdir())
    for file in files:
        data = file.read_bytes()
        found = [path for path in HERE if path.encode() in data]
        missing = {name for name in undefined(object_in(data)) if not is_everywhere(name)}
        if found or missing:
            raise SystemExit(f"{file.name} names {sorted(missing) + found}.")
    total = sum(file.stat().st_size for file in files)
    if not files or total > MOST_BYTES:
        raise SystemExit(f"{folder} has {len(files)} files of {total:,} bytes.")
    print(f"{len(files)} functions, {total / 2**20:.1f} MiB")


def payload_of(data: bytes) -> bytes:
    """Return what was stored of a function, without its digest."""
    payload = machine_code.unsealed(data)
    if payload is None:
        raise SystemExit("a file is damaged.")
    return payload


def object_in(data: bytes) -> bytes:
    """Return the object file in what was stored of a function."""
    (_, _, (code, _)), *_ = pickle.loads(payload_of(data))
    return code


def undefined(code: bytes) -> set[str]:
    """Return the symbols that an object file of 64 bits in ELF needs from elsewhere."""
    (sections,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections + size * i) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, *_ in headers:
        if kind == 2:  # the table of symbols, whose names are in another section
            for at in range(offset + 24, offset + length, 24):
                name, _, _, section = struct.unpack_from("<IBBH", code, at)
                if section == 0:
                    start = headers[link][4] + name
                    names.add(code[start : code.index(b"\0", start)].decode())
    return names


def is_everywhere(symbol: str) -> bool:
    """Whether Python, Numba or any C library defines a symbol."""
    known = symbol.startswith(("Py", "_Py", "NRT_", "numba_", ".numba."))
    return known or symbol in C_LIBRARY.split()


if __name__ == "__main__":
    target = Path(sys.argv[1]).resolve() / machine_code.PACKAGED
    target.mkdir(parents=True, mode=0o755, exist_ok=True)
    compile_catalogue(target)
    for file in target.iterdir():
        file.write_bytes(without_folders(file.read_bytes()))
    check(target)
