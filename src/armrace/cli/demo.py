"""``armrace serve --demo``: the service on a temporary store, with simulated visitors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from armrace import __version__
from armrace.cli.outputs import say
from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number

__all__ = ["serve_demo"]

_SPEED = Limits("times as fast as usual", 0.1, 50)


def serve_demo(settings: dict[str, Any], speed: float) -> None:
    """Serve the demonstration until the process is told to stop, and leave nothing behind."""
    from armrace.dashboard.demo import DemoClock, simulated_visitors, temporary_store
    from armrace.dashboard.pages import Dashboard
    from armrace.service import Service
    from armrace.service.http.server import ServerSettings, serve

    check_number("demo-speed", speed, _SPEED)
    for name in ("store", "keys"):
        if name in settings:
            raise InvalidParameter(f"{name} must be left out: the demo has a store of its own.")
    # By default SIGTERM would end the process before the temporary folder is removed.
    signal.signal(signal.SIGTERM, _leave)
    clock = DemoClock()
    with temporary_store() as place:
        wanted = ServerSettings(store=place, **{**settings, "open": True})

        @contextmanager
        def visitors(service: Service) -> Iterator[None]:
            with simulated_visitors(service, clock, speed):
                say("")
                say("Watch it here:")
                say(f"  {wanted.address}/")
                yield

        serve(
            wanted,
            __version__,
            say,
            lambda api: Dashboard(api, note=clock.note).routes(),
            clock,
            visitors,
        )


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
