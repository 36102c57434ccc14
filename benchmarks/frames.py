"""Frames of the dashboard while a large race changes: ``python -m benchmarks.frames``.

A page with the matrix of 30 arms and some 20 layers is sent 25 times a second, and a browser counts
what it paints in each second. There must be 20 updates a second, and no second may have fewer than
30 frames: otherwise the program says what was missed and ends with 1. It needs chromium and
playwright.
"""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
from statistics import mean
from typing import NamedTuple

import uvicorn
from playwright.sync_api import CDPSession, Page, sync_playwright

from armrace.dashboard.pages import Dashboard
from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application

_UPDATES = 25
_SECONDS = 10
_CELLS, _LEAST_UPDATES, _LEAST_FRAMES = 600, 20, 30
_COUNT = """(seconds) => new Promise((resolve) => {
    const frames = Array(seconds).fill(0), updates = Array(seconds).fill(0);
    let longest = 0, last = performance.now();
    const start = last, second = (now) => Math.floor((now - start) / 1000);
    const observer = new MutationObserver(() => { updates[second(performance.now())] += 1; });
    const watched = { subtree: true, characterData: true, childList: true };
    observer.observe(document.getElementById("part-matrix"), watched);
    const count = (now) => {
      longest = Math.max(longest, now - last);
      last = now;
      if (second(now) >= seconds) {
        observer.disconnect();
        resolve({ frames, updates, longest });
        return;
      }
      if (now >= start) frames[second(now)] += 1;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
})"""


class Seen(NamedTuple):
    """What a browser has painted."""

    cells: int
    """Of the matrix."""
    frames: list[int]
    updates: list[int]
    """For each second."""
    longest: float
    """The longest frame, in milliseconds."""

    def misses(self, frames: float, updates: float) -> list[str]:
        """Say which targets are missed.

        Args:
            frames: the frames a second to be judged, such as those of the worst second.
            updates: the updates a second.
        """
        targets = (
            ("cells", self.cells, _CELLS),
            ("frames a second", frames, _LEAST_FRAMES),
            ("updates a second", updates, _LEAST_UPDATES),
        )
        return [f"{found:g} {what}, not {least}" for what, found, least in targets if found < least]


def watch(page: Page, seconds: int) -> Seen:
    """Count what a page with a large matrix paints in each second."""
    cells = page.locator("table.matrix tbody td").count()
    page.locator("table.matrix").scroll_into_view_if_needed()
    found = page.evaluate(_COUNT, seconds)
    return Seen(cells, found["frames"], found["updates"], found["longest"])


def main() -> int:
    """Serve, look and print; return 1 if a target is missed."""
    service = Service(MemoryStore())
    arms = [f"arm {number}" for number in range(30)]
    service.create("large", arms, 1.0, policy="sharp-race", horizon=10**7, window=0.001, seed=1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    application = create_application(
        service,
        pages=lambda api: Dashboard(api, 1 / _UPDATES, rest=0.0).routes(),
        declared_open=True,
    )
    server = uvicorn.Server(uvicorn.Config(application, port=port, log_level="error", ws="none"))
    serving = threading.Thread(target=server.run)
    serving.start()
    stop = threading.Event()
    playing = threading.Thread(target=_play, args=(service, stop))
    playing.start()
    try:
        while not server.started:
            time.sleep(0.01)
        seen, busy = _look(f"http://127.0.0.1:{port}/experiment?name=large")
    finally:
        stop.set()
        playing.join()
        server.should_exit = True
        serving.join()
    updates = mean(seen.updates)
    print(f"{seen.cells} cells, {updates:.1f} updates a second, {min(seen.frames)} frames or more")
    print(f"the longest frame took {seen.longest:.0f} ms")
    each = 1000 * busy / sum(seen.updates)
    print(f"an update takes {each:.1f} ms of the page's processor time, all frames included")
    missed = seen.misses(min(seen.frames), updates)
    for words in missed:
        print(f"missed: {words}")
    return 1 if missed else 0


def _play(service: Service, stop: threading.Event) -> None:
    while not stop.wait(0.5 / _UPDATES):  # so that every update has something to show
        service.decide_many("large", 5)


def _look(address: str) -> tuple[Seen, float]:
    """Return what was painted, and the seconds of processor time that it took."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium") or shutil.which("chromium-headless-shell")
        browser = playwright.chromium.launch(executable_path=program)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        watch(page, 1)  # the first second is that of opening
        before = _busy(session)
        seen = watch(page, _SECONDS)
        busy = _busy(session) - before
        browser.close()
    return seen, busy


def _busy(session: CDPSession) -> float:
    """Return the seconds of processor time that the page's thread has used."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


if __name__ == "__main__":
    sys.exit(main())
