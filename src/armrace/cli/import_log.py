"""``armrace import`` and ``armrace export``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from armrace.cli import options
from armrace.cli.arguments import number, place, share, whole
from armrace.cli.options import complete_policies, expanded
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, say, write_json
from armrace.errors import InvalidParameter
from armrace.service.keyring import DEFAULT_TENANT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from armrace.contexts import Schema
    from armrace.service.imports import Imported
    from armrace.service.service import Service


IMPORT_EPILOG = options.examples(
    "armrace import sample:open-bandit --arm item_id --reward click --propensity "
    "propensity_score --time timestamp --into clicks.db --name shop",
    "armrace import exported.parquet --into copy.db --name shop",
)
EXPORT_EPILOG = options.examples("armrace export shop exported.parquet --from clicks.db")

Into = Annotated[
    str,
    options.option(
        "--into PLACE",
        "The store of the service: a file, which is made if there is none, or postgresql://...",
        show_default=False,
    ),
]
From = Annotated[
    str,
    options.option(
        "--from PLACE", "The store of the service: a file, or postgresql://...", show_default=False
    ),
]
Name = Annotated[
    str | None,
    options.option("--name NAME", "The name of the experiment; by default that of the file."),
]
PolicyName = Annotated[
    str | None,
    options.option(
        "--policy NAME",
        "The policy that learns; by default the service's own.",
        autocompletion=complete_policies,
    ),
]
Window = Annotated[str, options.option("--window SECONDS", "How long a decision can be rewarded.")]
Settle = Annotated[
    str | None,
    options.option(
        "--settle NAME",
        "When a reward is learned: window, when its window has closed, or immediate; by "
        "default window if the log has times, else immediate.",
    ),
]
Missing = Annotated[
    str,
    options.option(
        "--missing REWARD",
        "What to learn if no reward arrives: a number, or drop to learn nothing.",
    ),
]
Floor = Annotated[
    str | None,
    options.option(
        "--floor NUMBER",
        "Raise smaller propensities to this, so that the policy learns from more rows, with a "
        "bias; by default the smallest of the log.",
    ),
]
Tenant = Annotated[str, options.option("--tenant NAME", "Whose experiment it is.")]


@expanded
def import_log(
    *,
    log: options.LogPlace,
    into: Into,
    name: Name = None,
    policy: PolicyName = None,
    horizon: options.Horizon = None,
    window: Window = "3600",
    settle: Settle = None,
    missing: Missing = "drop",
    columns: options.ColumnOptions,
    schema: options.SchemaFile = None,
    floor: Floor = None,
    seed: options.Seed = "0",
    tenant: Tenant = DEFAULT_TENANT,
    keys: options.KeysFile = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Feed the service from a log: a new experiment with its decisions and rewards.

    Without columns, the log is what [bold]armrace export[/bold] wrote. The policy draws an arm for
    each row and learns only where that is the arm of the row, as in [bold]armrace replay[/bold], so
    that it has learned what it would have in as many rounds of its own. All other rows are kept as
    decisions, and it learns nothing from them. Rewards are rounded to 2^-20 of their range.

    With a --schema, visitors have features. Those of an export are codes of the same schema; texts
    that fell into buckets cannot be imported, since their key stays with the first experiment.
    """
    import secrets

    from armrace.contexts import plain_schema, read_schema
    from armrace.service.imports import import_rows
    from armrace.service.model.settings import make_settings
    from armrace_client.operations import Create

    check_targets(json, force=force)
    least = None if floor is None else share("floor", floor)
    declared = read_schema(schema)
    key = b"" if declared is None else secrets.token_bytes(16)
    if columns.names_any:
        found = _read_log(log, columns, declared, key)
    else:
        found = _read_export(log, declared)
    title = name or Path(log.removeprefix("sample:")).name.split(".")[0]
    asked = Create(
        title,
        found.arms,
        "drop" if missing == "drop" else number("missing", missing),
        policy,
        None if horizon is None else whole("horizon", horizon),
        number("window", window),
        settle or ("window" if found.is_timed else "immediate"),  # type: ignore[arg-type]  # checked
        options.reward_bounds(columns.rewards),
        **({} if declared is None else plain_schema(declared)),
    )
    settings = make_settings(asked, whole("seed", seed), key)
    with _opened(into, tenant, keys) as service:
        smallest = found.least_propensity if least is None else least
        imported = import_rows(service, title, found.rows, settings, smallest)
    _tell(imported, title, into, json)


class _Found(NamedTuple):
    """What is imported of a log."""

    arms: list[str]
    rows: Iterable[Any]
    least_propensity: float | None
    """None if the log has no propensities."""
    is_timed: bool


def _read_log(
    log: str, columns: options.ColumnOptions, schema: Schema | None, key: bytes
) -> _Found:
    """Survey a log of another system, and say which rows cannot be used."""
    from armrace.offline import open_log
    from armrace.service.imports import rows_of

    opened = open_log(log, **columns.arguments(), schema=schema)
    opened.feature_key = key
    for sentence in opened.report.sentences():
        say(sentence)
    least = opened.least_propensity if opened.has_propensities else None
    return _Found(opened.arms, rows_of(opened), least, opened.columns.time is not None)


def _read_export(log: str, schema: Schema | None) -> _Found:
    """Survey what ``armrace export`` wrote, which has probabilities and times."""
    from armrace.service.imports import rows_of_export, survey_export

    try:
        arms, least = survey_export(log)
    except InvalidParameter as error:
        if not Path(log).is_file():
            raise
        raise InvalidParameter(
            f"{str(error).removesuffix('.')}; for a log of another system, give --arm and --reward."
        ) from None
    return _Found(arms, rows_of_export(log, schema), least, is_timed=True)


def _tell(found: Imported, title: str, into: str, json: Path | None) -> None:
    if json is not None:
        write_json(json, {"experiment": title, **_plain(found)})
    if json != STANDARD_OUTPUT:
        from armrace.service.service import without_password

        typer.echo(
            f"{found.rows:,} decisions with {found.rewards:,} rewards are in the experiment "
            f"{title!r} of {without_password(into)}; the policy has learned from "
            f"{found.learned:,} of them."
        )


def _plain(found: Imported) -> dict[str, Any]:
    import msgspec

    return msgspec.structs.asdict(found)


def _opened(store: str, tenant: str, keys: str | None) -> Service:
    from armrace.service.service import open_service

    return open_service(store, tenant, keys)


Experiment = Annotated[str, options.argument("NAME", "The experiment.", show_default=False)]
Target = Annotated[
    Path,
    options.argument("FILE", "Ends in .parquet or .ndjson.", parser=place, show_default=False),
]


def export_log(
    name: Experiment,
    file: Target,
    store: From,
    tenant: Tenant = DEFAULT_TENANT,
    keys: options.KeysFile = None,
    force: options.Force = False,
) -> None:
    """Write the decisions of an experiment with their rewards, one row each.

    The file can be imported again, replayed (--arm arm --reward reward --propensity probability)
    and audited. The layers that decisions were drawn from are not part of it.
    """
    from armrace.service.service import is_database

    if file.suffix not in (".parquet", ".ndjson"):
        raise InvalidParameter(f"an export must end in .ndjson or .parquet; got {file.name!r}.")
    if not is_database(store) and not Path(store).is_file():
        raise InvalidParameter(f"there is no store {store}.")
    check_targets(None, file, force=force)
    with _opened(store, tenant, keys) as service:
        service.export(name, file, overwrite=True)  # refused above, unless --force was given
    say(f"The decisions are in {file}.")
