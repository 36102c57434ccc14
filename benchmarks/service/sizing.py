"""What a server needs: memory for experiments and open visits, and disk for visits."""

from __future__ import annotations

from pathlib import Path

import armrace
from armrace_client.operations import Visit
from benchmarks.service.servers import free_port, own, processor_seconds, server

_BATCH = 1000


def measure(folder: Path, experiments: int, visits: int) -> None:
    """Print the memory and the disk of a server with experiments, and after visits."""
    store, port = folder / "size.db", free_port()
    with armrace.open(store) as service:
        for number in range(experiments):
            service.create(f"ads {number}", list("abcd"), 0, window=3600, seed=number)
        disk = _disk(store) / experiments
    with server(own(port, "--store", str(store)), port) as process:
        client = armrace.Client(f"http://127.0.0.1:{port}", timeout=300)
        client.decide("ads 0")
        memory = _memory(process.pid)
        print(f"a server with one experiment: {memory / 2**20:.0f} MiB")
        for number in range(experiments):
            client.describe(f"ads {number}")
        more = (_memory(process.pid) - memory) / experiments / 1024
        print(f"an experiment: {more:.0f} KiB in memory, {disk / 1024:.1f} KiB on disk")
        memory, disk, used = _memory(process.pid), _disk(store), processor_seconds([process.pid])
        for first in range(0, visits, _BATCH):
            asked = [Visit(unit=f"{first + each}", source="web") for each in range(_BATCH)]
            made = client.decide_batch("ads 0", asked).made()
            client.reward_many([(each, 1.0) for each in made[::4]])
        print(f"an open visit: {(_memory(process.pid) - memory) / visits:.0f} B of memory")
        print(f"a visit, one in four rewarded: {(_disk(store) - disk) / visits:.0f} B of disk")
        each = 1e6 * (processor_seconds([process.pid]) - used) / visits
        print(f"a visit in batches of {_BATCH}: {each:.0f} us of processor time")


def _memory(pid: int) -> int:
    """Return the bytes that a process has in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def _disk(store: Path) -> int:
    return sum(each.stat().st_size for each in store.parent.glob(f"{store.name}*"))
