"""Try a wheel in an empty environment: ``python wheels/trial.py ENVIRONMENT``.

The environment has the wheel and its dependencies alone, and its packages cannot be written. Both
first uses run without HOME and with an empty cache of machine code. If the wheel brings machine
code that fits this processor, nothing is compiled, and all figures are those of the environment
that runs this program, which compiles for itself.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

FIGURES = Path(__file__).with_name("figures.py")
BRINGS_CODE = (
    "from numba.core.registry import cpu_target;"
    "from armrace.kernels.machine_code import packaged_target;"
    "print(packaged_target(cpu_target.target_context.codegen()) is not None)"
)


def output(command: list[str | Path], cache: str) -> str:
    """Run a program away from this folder, without HOME, and return what it prints."""
    environment = {"PATH": os.environ["PATH"], "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, cwd=cache, check=True, stdout=subprocess.PIPE)
    return done.stdout.decode()


def first_use(armrace: Path, *arguments: str) -> tuple[float, list[Path]]:
    """Return the processor time of a command with an empty cache, and what it has compiled."""
    with tempfile.TemporaryDirectory() as cache:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        output([armrace, *arguments], cache)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return seconds, sorted(Path(cache).rglob("*.nbc"))


def main() -> None:
    """Try the first uses, and compare the figures if there is machine code to try."""
    folder = Path(sys.argv[1]).resolve() / "bin"
    brings_code = output([folder / "python", "-c", BRINGS_CODE], "/tmp") == "True\n"
    for arguments in (["simulate", "multi-layer-race"], ["compare", "--no-report"]):
        seconds, compiled = first_use(folder / "armrace", *arguments)
        print(f"armrace {arguments[0]}: {seconds:.1f} s, {len(compiled)} functions compiled")
        if brings_code and compiled:
            raise SystemExit(f"compiled although the wheel brings code: {compiled}")
    if brings_code:
        with tempfile.TemporaryDirectory() as cache:
            theirs = output([folder / "python", FIGURES], cache)
            compiled = sorted(Path(cache).rglob("*.nbc"))
        ours = subprocess.check_output([sys.executable, FIGURES], text=True)
        if theirs != ours or compiled:
            differences = set(theirs.splitlines()) ^ set(ours.splitlines())
            raise SystemExit(f"other figures: {sorted(differences)}; compiled: {compiled}")
        print(f"{len(ours.splitlines())} figures are those of code compiled here, to the bit")


if __name__ == "__main__":
    main()
