"""``armrace serve``: the service, also as a demonstration with simulated visitors."""

from __future__ import annotations

import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from armrace import __version__
from armrace.cli import options
from armrace.cli.arguments import number, whole
from armrace.cli.outputs import say
from armrace.errors import InvalidParameter, missing_package


def serve_demo(settings: dict[str, Any], speed: float) -> None:
    """Serve the demonstration until the process is told to stop, and leave nothing behind."""
    from armrace.dashboard.demo import DemoClock, simulated_visitors, temporary_store
    from armrace.dashboard.pages import Dashboard
    from armrace.limits import Limits, check_number
    from armrace.service import Service
    from armrace.service.http.server import ServerSettings, serve

    check_number("demo-speed", speed, Limits("times as fast as usual", 0.1, 50))
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


_SETTINGS = (
    "store",
    "keys",
    "host",
    "port",
    "rate",
    "per_address",
    "log",
    "trust_user_header",
    "trusted_proxies",
)

EPILOG = """\
[bold]Examples[/bold]

armrace serve --store clicks.db

armrace serve --store postgresql://armrace@db/armrace --keys /etc/armrace/keys --host 0.0.0.0

armrace serve --demo
"""

Place = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="PLACE",
        envvar="ARMRACE_STORE",
        help="The file of the log, or postgresql://...; by default a file among the user's data.",
    ),
]
Host = Annotated[
    str | None,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        envvar="ARMRACE_HOST",
        help="Where to listen; by default 127.0.0.1.",
    ),
]
Port = Annotated[
    str | None,
    typer.Option(
        "--port",
        metavar="NUMBER",
        envvar="ARMRACE_PORT",
        help="The port to listen on; by default 8380.",
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="EVENTS",
        envvar="ARMRACE_RATE",
        help="How many events a second each key may send; by default no limit.",
    ),
]
PerAddress = Annotated[
    str | None,
    typer.Option(
        "--per-address",
        metavar="NUMBER",
        envvar="ARMRACE_PER_ADDRESS",
        help="How many connections that show no key may be open from one address of another "
        "machine; by default 100.",
    ),
]
Log = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="WHICH",
        envvar="ARMRACE_LOG",
        help="Which requests to log: all, problems or none.",
    ),
]
TrustUserHeader = Annotated[
    str | None,
    typer.Option(
        "--trust-user-header",
        metavar="NAME",
        envvar="ARMRACE_TRUST_USER_HEADER",
        help="The header in which trusted proxies say which person sends a request.",
    ),
]
TrustedProxies = Annotated[
    str | None,
    typer.Option(
        "--trusted-proxies",
        metavar="ADDRESSES",
        envvar="ARMRACE_TRUSTED_PROXIES",
        help="The addresses or networks of these proxies, between commas.",
    ),
]
Open = Annotated[
    bool,
    typer.Option(
        "--open",
        help="Need no key of programs on this machine; a proxy in front opens it to the world.",
    ),
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="ARMRACE_CONFIG",
        help="A TOML file with these settings; options and environment variables override it.",
    ),
]
Demo = Annotated[
    bool,
    typer.Option(
        "--demo", help="Show the dashboard with simulated visitors; nothing is kept afterwards."
    ),
]
DemoSpeed = Annotated[
    str,
    typer.Option("--demo-speed", metavar="TIMES", help="How many times faster the demo runs."),
]


def serve(
    store: Place = None,
    keys: options.KeysFile = None,
    host: Host = None,
    port: Port = None,
    rate: Rate = None,
    per_address: PerAddress = None,
    log: Log = None,
    trust_user_header: TrustUserHeader = None,
    trusted_proxies: TrustedProxies = None,
    open: Open = False,
    config: Config = None,
    demo: Demo = False,
    demo_speed: DemoSpeed = "1",
) -> None:
    """Serve decisions over HTTP, and a dashboard.

    An answer is sent once its event is on disk. The first start makes a key and prints it.
    """
    try:
        from armrace.dashboard.pages import Dashboard
        from armrace.service.http.server import ServerSettings
        from armrace.service.http.server import serve as run
    except ModuleNotFoundError as error:
        raise InvalidParameter(missing_package(error)) from None
    given = (
        store,
        keys,
        host,
        port,
        rate,
        per_address,
        log,
        trust_user_header,
        trusted_proxies,
    )
    said = dict(zip(_SETTINGS, given, strict=True))
    values = {**_read(config), **{name: value for name, value in said.items() if value is not None}}
    checked = _checked(values)
    if not demo:
        run(
            ServerSettings(**checked, open=open),
            __version__,
            say,
            lambda api: Dashboard(api).routes(),
        )
        return
    serve_demo(checked, number("demo-speed", demo_speed))


def _read(config: str | None) -> dict[str, Any]:
    """Return the settings of a TOML file."""
    if config is None:
        return {}
    try:
        found = tomllib.loads(Path(config).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {config}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{config} is not a TOML file: {error}.") from None
    unknown = sorted(found.keys() - set(_SETTINGS))
    if unknown:
        raise InvalidParameter(f"{config} has the unknown setting {unknown[0]!r}.")
    return found


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    checked = {name: str(value) for name, value in values.items()}
    found: dict[str, Any] = dict(checked)
    if "port" in checked:
        found["port"] = whole("port", checked["port"])
        if not 0 < found["port"] < 2**16:
            raise InvalidParameter(f"port must be in [1, 65535]; got {found['port']}.")
    if "rate" in checked:
        found["rate"] = float(whole("rate", checked["rate"]))
        if found["rate"] <= 0:
            raise InvalidParameter(f"rate must be at least 1; got {found['rate']:g}.")
    if "per_address" in checked:
        found["per_address"] = whole("per-address", checked["per_address"])
        if found["per_address"] < 1:
            raise InvalidParameter(f"per-address must be at least 1; got {found['per_address']}.")
    if checked.get("log", "all") not in ("all", "problems", "none"):
        raise InvalidParameter(f"log must be one of all, problems, none; got {checked['log']!r}.")
    return found
