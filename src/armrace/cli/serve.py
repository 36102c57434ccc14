"""``armrace serve``: the service, also as a demonstration with simulated visitors."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any, NamedTuple

import typer

from armrace import __version__
from armrace.cli import options
from armrace.cli.arguments import number, whole
from armrace.cli.options import expanded
from armrace.errors import InvalidParameter, missing_package
from armrace.files import read_toml


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
    clock = DemoClock(speed)
    with temporary_store() as place:
        wanted = ServerSettings(store=place, **{**settings, "open": True})

        @contextmanager
        def visitors(service: Service) -> Iterator[None]:
            with simulated_visitors(service, clock, speed):
                typer.echo(f"\nWatch it here:\n  {wanted.address}/")
                yield

        serve(
            wanted,
            __version__,
            typer.echo,
            lambda api: Dashboard(api, note=clock.note).routes(),
            clock,
            visitors,
        )


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


EPILOG = options.examples(
    "armrace serve --store clicks.db",
    "armrace serve --store postgresql://armrace@db/armrace --keys /etc/armrace/keys --host 0.0.0.0",
    "armrace serve --demo",
)


def _setting(flags: str, help: str) -> Any:
    """Return an option that an environment variable gives too: ARMRACE_HOST for --host."""
    variable = flags.split(maxsplit=1)[0].removeprefix("--").replace("-", "_").upper()
    return options.option(flags, help, envvar=f"ARMRACE_{variable}")


Place = Annotated[
    str | None,
    _setting(
        "--store PLACE",
        "The file of the log, or postgresql://...; by default a file among the user's data.",
    ),
]
Host = Annotated[str | None, _setting("--host ADDRESS", "Where to listen; by default 127.0.0.1.")]
Port = Annotated[str | None, _setting("--port NUMBER", "The port to listen on; by default 8380.")]
Rate = Annotated[
    str | None,
    _setting("--rate EVENTS", "How many events a second each key may send; by default no limit."),
]
PerAddress = Annotated[
    str | None,
    _setting(
        "--per-address NUMBER",
        "How many connections that show no key may be open from one address of another "
        "machine; by default 100.",
    ),
]
Log = Annotated[
    str | None, _setting("--log WHICH", "Which requests to log: all, problems or none.")
]
TrustUserHeader = Annotated[
    str | None,
    _setting(
        "--trust-user-header NAME",
        "The header in which trusted proxies say which person sends a request.",
    ),
]
TrustedProxies = Annotated[
    str | None,
    _setting(
        "--trusted-proxies ADDRESSES",
        "The addresses or networks of these proxies, between commas.",
    ),
]
Webhook = Annotated[
    str | None, _setting("--webhook URL", "Where to send alarms, signed, as they are raised.")
]
WebhookSecret = Annotated[
    str | None, _setting("--webhook-secret FILE", "The file of the secret that signs them.")
]
Url = Annotated[
    str | None,
    _setting(
        "--url URL", "Where people reach the service, for links; by default where it listens."
    ),
]


class ServeOptions(NamedTuple):
    """The settings that a file may give too, as text."""

    store: Place = None
    keys: options.KeysFile = None
    host: Host = None
    port: Port = None
    rate: Rate = None
    per_address: PerAddress = None
    log: Log = None
    trust_user_header: TrustUserHeader = None
    trusted_proxies: TrustedProxies = None
    webhook: Webhook = None
    webhook_secret: WebhookSecret = None
    url: Url = None


Open = Annotated[
    bool,
    options.option(
        "--open", "Need no key of programs on this machine; a proxy in front opens it to the world."
    ),
]
Config = Annotated[
    str | None,
    _setting(
        "--config FILE",
        "A TOML file with these settings; options and environment variables override it.",
    ),
]
Demo = Annotated[
    bool,
    options.option(
        "--demo", "Show the dashboard with simulated visitors; nothing is kept afterwards."
    ),
]
DemoSpeed = Annotated[
    str, options.option("--demo-speed TIMES", "How many times faster the demo runs.")
]


@expanded
def serve(
    *,
    settings: ServeOptions,
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
    said = {name: value for name, value in settings._asdict().items() if value is not None}
    checked = _checked({**_read(config), **said})
    if demo:
        serve_demo(checked, number("demo-speed", demo_speed))
        return
    # Standard error has lines of JSON alone, the reason of a failure included.
    served = ServerSettings(**checked, open=open)
    if run(served, __version__, typer.echo, lambda api: Dashboard(api).routes()) is not None:
        raise typer.Exit(2)


def _read(config: str | None) -> dict[str, Any]:
    """Return the settings of a TOML file."""
    if config is None:
        return {}
    found = read_toml(config)
    unknown = sorted(found.keys() - set(ServeOptions._fields))
    if unknown:
        raise InvalidParameter(f"{config} has the unknown setting {unknown[0]!r}.")
    return found


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    checked: dict[str, Any] = {name: str(value) for name, value in values.items()}
    for name, most in (("port", 2**16 - 1), ("rate", None), ("per_address", None)):
        if name in checked:
            shown = name.replace("_", "-")
            found = checked[name] = whole(shown, checked[name])
            if most is not None and not 0 < found <= most:
                raise InvalidParameter(f"{shown} must be in [1, {most}]; got {found}.")
            if found < 1:
                raise InvalidParameter(f"{shown} must be at least 1; got {found}.")
    if checked.get("log", "all") not in ("all", "problems", "none"):
        raise InvalidParameter(f"log must be one of all, problems, none; got {checked['log']!r}.")
    if "webhook_secret" in checked and "webhook" not in checked:
        raise InvalidParameter("webhook must be given if webhook-secret is: it says where to send.")
    return checked
