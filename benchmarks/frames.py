"""Frames of the dashboard while a large race changes: ``python -m benchmarks.frames``.

A page with the matrix of 30 arms and some 20 layers is sent 25 times a second, and a browser counts
what it paints. At least 20 updates and 30 frames a second are aimed at. It needs chromium and
playwright.
"""

from __future__ import annotations

import shutil
import socket
import threading
import time

import uvicorn
from playwright.sync_api import CDPSession, sync_playwright

from armrace.dashboard.pages import Dashboard
from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application

_UPDATES = 25
_SECONDS = 10
_COUNT = """(milliseconds) => new Promise((resolve) => {
    let frames = 0, changes = 0, longest = 0, last = performance.now();
    const observer = new MutationObserver(() => { changes += 1; });
    const watched = { subtree: true, characterData: true, childList: true };
    observer.observe(document.getElementById("part-matrix"), watched);
    const end = last + milliseconds;
    const count = (now) => {
      frames += 1;
      longest = Math.max(longest, now - last);
      last = now;
      if (now < end) requestAnimationFrame(count);
      else resolve({ frames, changes, longest });
    };
    requestAnimationFrame(count);
})"""


def main() -> None:
    """Serve, look and print."""
    service = Service(MemoryStore())
    arms = [f"arm {number}" for number in range(30)]
    service.create("large", arms, 1.0, policy="sharp-race", horizon=10**7, window=0.001, seed=1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    application = create_application(
        service, pages=lambda inside: Dashboard(inside, 1 / _UPDATES, rest=0.0).routes()
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
        seen = _look(f"http://127.0.0.1:{port}/experiment?name=large")
    finally:
        stop.set()
        playing.join()
        server.should_exit = True
        serving.join()
    updates, frames = seen["changes"] / _SECONDS, seen["frames"] / _SECONDS
    print(f"{seen['cells']} cells, {updates:.1f} updates and {frames:.0f} frames a second")
    print(f"the longest frame took {seen['longest']:.0f} ms")
    busy = 1000 * seen["busy"] / seen["changes"]
    print(f"an update takes {busy:.1f} ms of the page's processor time, all frames included")


def _play(service: Service, stop: threading.Event) -> None:
    while not stop.wait(0.5 / _UPDATES):  # so that every update has something to show
        service.decide_many("large", 5)


def _look(address: str) -> dict[str, float]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(address)
        cells = page.locator("table.matrix tbody td").count()
        page.locator("table.matrix").scroll_into_view_if_needed()
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = _busy(session)
        found: dict[str, float] = page.evaluate(_COUNT, 1000 * _SECONDS)
        found["busy"] = _busy(session) - before
        browser.close()
    return {**found, "cells": cells}


def _busy(session: CDPSession) -> float:
    """Return the seconds of processor time that the page's thread has used."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


if __name__ == "__main__":
    main()
