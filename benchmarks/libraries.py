"""Other libraries, each in a virtual environment of its own, playing on the same arms."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.figures import Figure
from benchmarks.live import learner_microseconds
from benchmarks.problem import BUILD, HARD, run_armrace
from benchmarks.speed import HORIZON

__all__ = ["PEERS", "Peer", "Unavailable", "against_peers", "interpreter", "play", "run_script"]

_SCRIPTS = Path(__file__).parent / "peers"
_ROUNDS = 20_000
_REPEATS = 5
_TIMES_AS_FAST = 100.0
_LIMIT = 5.0


class Peer(NamedTuple):
    """A library: its name, the script that plays it, what to import and what to install."""

    name: str
    script: str
    module: str
    packages: tuple[str, ...]


PEERS = (
    Peer("PyMAB", "play_pymab.py", "pymab", ("pymab",)),
    Peer("river", "play_river.py", "river.bandit", ("river",)),
    # its last release came before the SciPy, NumPy and pandas of today
    Peer(
        "SMPyBandits",
        "play_smpybandits.py",
        "SMPyBandits.Policies",
        ("SMPyBandits", "scipy<1.12", "numpy<2", "pandas<3"),
    ),
    Peer("mabby", "play_mabby.py", "mabby", ("mabby",)),
    Peer("MABWiser", "play_mabwiser.py", "mabwiser.mab", ("mabwiser",)),
)


class Unavailable(Exception):
    """A peer cannot be installed or run here."""


def against_peers() -> Iterator[Figure]:
    """Rounds a second of armrace over those of each peer; the quickest carries the target."""
    regret, spread = _expected_regret()
    times: list[float] = []
    rows: list[tuple[Peer, dict[str, Any]]] = []
    for seed, peer in enumerate(PEERS):
        times.append(run_armrace("ucb1", HARD, HORIZON, 4, seed).nanoseconds(HORIZON))
        try:
            rows.append((peer, play(peer, "ucb1", _ROUNDS, _REPEATS)))
        except Unavailable as reason:
            yield Figure(f"UCB1 against {peer.name}", None, "", note=str(reason))
    ours = min(times)
    rows.sort(key=lambda row: min(row[1]["seconds"]))
    for position, (peer, measured) in enumerate(rows):
        nanoseconds = min(measured["seconds"]) / _ROUNDS * 1e9
        yield Figure(
            f"UCB1 against {peer.name} {measured['version']}",
            ours,
            "ns a round",
            against=f"{peer.name}: {nanoseconds / 1000:.2f} us",
            ratio=nanoseconds / ours,
            target=_TIMES_AS_FAST if position == 0 else None,
            at_least=True,
            note=_remark(measured, regret, spread, ours),
        )
        yield from _live(peer, measured)


def _live(peer: Peer, measured: dict[str, Any]) -> Iterator[Figure]:
    """One decision and its reward, where the peer has a way to do that quickly."""
    for arms, theirs in measured.get("live", {}).items():
        ours = learner_microseconds("ucb1", int(arms), blocks=50)
        yield Figure(
            f"decide + learn, UCB1, K = {arms}",
            ours,
            "us",
            against=f"{peer.name}: {theirs:.2f} us",
            ratio=theirs / ours,
        )


def _expected_regret() -> tuple[float, float]:
    """Mean and spread of the regret that UCB1 has after as many rounds as peers play."""
    pulls = run_armrace("ucb1", HARD, _ROUNDS, 200, seed=1).pulls
    regrets = (_ROUNDS - pulls[:, 0]) * (HARD.best - HARD.others)
    return float(regrets.mean()), float(regrets.std(ddof=1))


def _remark(measured: dict[str, Any], expected: float, spread: float, ours: float) -> str:
    regrets = np.array(measured["regrets"])
    distance = abs(regrets.mean() - expected) / (spread / np.sqrt(regrets.size))
    verdict = "as expected" if distance < _LIMIT else f"not the {expected:.0f} expected"
    remark = f"regret {regrets.mean():.0f}, {verdict}"
    if "core_seconds" in measured:
        core = min(measured["core_seconds"]) / _ROUNDS * 1e9
        remark += f"; {core / 1000:.2f} us of it in compiled code, {core / ours:.1f} times ours"
    return remark


def play(peer: Peer, algorithm: str, rounds: int, repeats: int) -> dict[str, Any]:
    """What a peer takes for an algorithm, by armrace's name; ``has`` says whether it has it."""
    return run_script(peer, peer.script, algorithm, str(rounds), str(repeats))


def run_script(peer: Peer, script: str, *arguments: str) -> dict[str, Any]:
    """What a script in ``peers`` prints last, read as JSON, run by the peer's interpreter."""
    finished = subprocess.run(
        [interpreter(peer), _SCRIPTS / script, *arguments],
        capture_output=True,
        text=True,
        cwd=BUILD,
        check=False,
    )
    if finished.returncode:
        (BUILD / "peers" / f"{peer.name}.run.log").write_text(finished.stderr)
        raise Unavailable(f"does not run here: see build/peers/{peer.name}.run.log")
    printed: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return printed


def interpreter(peer: Peer) -> Path:
    """The interpreter of the peer's environment, made when first needed."""
    folder = BUILD / "peers" / peer.name
    python = folder / "bin" / "python"
    ready = folder / ".ready"
    if not ready.exists():
        venv.create(folder, with_pip=True, clear=True)
        installed = subprocess.run(
            [python, "-m", "pip", "install", "--disable-pip-version-check", *peer.packages],
            capture_output=True,
            text=True,
            check=False,
        )
        if installed.returncode:
            folder.with_suffix(".install.log").write_text(installed.stdout + installed.stderr)
            raise Unavailable(f"not to be installed: see build/peers/{peer.name}.install.log")
        ready.touch()
    return python
