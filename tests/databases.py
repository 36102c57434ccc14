"""A PostgreSQL of the tests' own, on a socket in a folder."""

import os
import pwd
import shutil
import subprocess
from pathlib import Path

_PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [
    Path(found).parent for found in [shutil.which("initdb")] if found
]


class Postgres:
    """A server that can be stopped and started."""

    def __init__(self, folder: Path) -> None:
        assert _PROGRAMS, "PostgreSQL is not installed; make setup installs it on Debian as root"
        self.folder = folder
        self.bin = _PROGRAMS[-1]
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "armrace", "-N")
        self.place = f"postgresql://armrace@/postgres?host={folder}"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self.bin / program), *arguments]
        user = self.user if os.getuid() == 0 else None
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            cwd=self.folder,
            user=user,
            timeout=60,
        )

    def start(self) -> None:
        """Start it, listening on a socket in its folder and nowhere else."""
        options = f"-k {self.folder} -c listen_addresses='' -c shared_buffers=16MB"
        log = str(self.folder / "log")
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-o", options, "-l", log, "-w", "start"
        )

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", "immediate", "-w", "stop")
