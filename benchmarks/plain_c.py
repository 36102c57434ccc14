"""The same algorithms as plain C programs: compiled here, run as processes of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.problem import BUILD, Run

__all__ = ["COMMAND", "compile_program", "compiler", "run_program"]

SOURCES = Path(__file__).parent / "c"
COMMAND = ("gcc", "-std=c11", "-O3", "-march=native", "-Wall", "-Wextra")


def compiler() -> str | None:
    """Where the compiler is, if there is one."""
    return shutil.which(COMMAND[0])


def compile_program(name: str) -> Path:
    """Compile ``c/NAME.c``; what its headers or itself say wrong is an error here."""
    BUILD.mkdir(exist_ok=True)
    program = BUILD / f"bench-{name}"
    subprocess.run(
        [*COMMAND, "-o", str(program), str(SOURCES / f"{name}.c"), "-lm"],
        check=True,
        capture_output=True,
        text=True,
    )
    return program


def run_program(
    program: Path, problem: Sequence[object], horizon: int, replications: int, seed: int
) -> Run:
    """Some replications; the program times its own loop. What a problem holds ends the command."""
    words = [horizon, replications, seed, *problem]
    finished = subprocess.run(
        [str(program), *map(str, words)], check=True, capture_output=True, text=True
    )
    rows = json.loads(finished.stdout)
    return Run(
        np.array([row["pulls"] for row in rows]),
        sum(row["seconds"] for row in rows) / replications,
    )
