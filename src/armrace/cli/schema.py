"""``armrace schema``: the features of a log's visitors."""

from __future__ import annotations

from typing import Annotated

import typer

from armrace.cli import options
from armrace.cli.arguments import split, whole
from armrace.cli.options import expanded
from armrace.cli.outputs import STANDARD_OUTPUT, Outputs, say
from armrace.errors import InvalidParameter

EPILOG = options.examples(
    "armrace schema suggest clicks.parquet --arm ad --reward click > schema.toml",
    "armrace schema suggest clicks.csv --columns columns.toml --features device,age --json -",
)

Action = Annotated[str, options.argument("ACTION", "suggest.")]
Features = Annotated[
    list[str] | None,
    options.columns_option(
        "--features COLUMNS",
        "The columns that may be features, between commas; may be repeated. By default all that "
        "have no other role.",
    ),
]
Horizon = Annotated[
    str | None,
    options.option(
        "--horizon NUMBER",
        "The decisions that leaves must carry; by default as many as the log has rows.",
    ),
]


@expanded
def schema(
    *,
    action: Action,
    log: options.LogPlace,
    columns: options.ColumnOptions,
    features: Features = None,
    horizon: Horizon = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Suggest the features of visitors, and the segments (leaves) that the traffic can carry.

    Numbers range from their 1% to their 99% quantile. Texts are told apart if each has 1% of the
    rows, and fall into buckets otherwise. Columns that name a row, or never change, are left out.

    A feature tells leaves apart if the best arms of the leaves earn more than chance explains, and
    only as long as there are 50 decisions for each arm in each leaf.

    What is printed is TOML, with the reasons as comments; replays, plans and the library take it as
    it is. Read it before you use it: what is declared once is never learned.
    """
    from armrace.offline.suggesting import suggest_schema

    if action != "suggest":
        raise InvalidParameter(f"action must be suggest; got {action!r}.")
    outputs = Outputs(json, force=force)
    outputs.check()
    found = suggest_schema(
        log,
        **columns.arguments(),
        features=None if features is None else [name for name in split(features) if name],
        horizon=None if horizon is None else whole("horizon", horizon),
    )
    outputs.write(found.to_builtins, lambda: typer.echo(found.to_toml(), nl=False))
    if json == STANDARD_OUTPUT:
        for note in found.notes:
            say(note)
