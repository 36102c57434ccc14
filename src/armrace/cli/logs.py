"""``armrace replay`` and ``armrace audit``: what a log says about policies, and about forging."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from armrace.cli import options
from armrace.cli.arguments import make_attack, names, number, share, whole, worker_count
from armrace.cli.options import complete_efforts, expanded
from armrace.cli.outputs import Outputs
from armrace.errors import ArmraceError, InvalidParameter

REPLAY_EPILOG = options.examples(
    "armrace replay sample:open-bandit --arm item_id --reward click --propensity propensity_score",
    "armrace replay clicks.parquet --columns columns.toml --attack zero-best --budget 300",
    "armrace replay clicks.csv.gz --arm ad --reward click --source network --retract bad-network",
    "armrace replay clicks.ndjson --arm ad --reward stars --rewards 1,5 --redteam quick "
    "--budget 100",
)

Floor = Annotated[
    str | None,
    options.run_option(
        "--floor NUMBER",
        "Raise smaller propensities to this: more rows are accepted, at the price of a bias. "
        "By default the smallest propensity of the log, but for one in 10,000 rows if theirs are "
        "ten times smaller.",
    ),
]
Estimators = Annotated[
    str,
    options.run_option(
        "--estimators NAME", "all, or replay for rejection replay alone, which is faster."
    ),
]
Redteam = Annotated[
    str | None,
    options.attack_option(
        "--redteam EFFORT",
        "Search for the worst attack on each policy, on arms with the log's rates, and inject "
        "it: quick, usual or full.",
        autocompletion=complete_efforts,
    ),
]
Retract = Annotated[
    str | None,
    options.attack_option(
        "--retract SOURCE", "Replay also as if the rows of this source had been found and left out."
    ),
]
Level = Annotated[
    str,
    options.run_option("--level NUMBER", "The probability with which an interval may be wrong."),
]


@expanded
def replay(
    *,
    log: options.LogPlace,
    policies: options.Policies = None,
    columns: options.ColumnOptions,
    schema: options.SchemaFile = None,
    attack: options.Attack = None,
    attack_settings: options.AttackSet = None,
    budget: options.Budget = None,
    redteam: Redteam = None,
    retract: Retract = None,
    floor: Floor = None,
    horizon: options.Horizon = None,
    estimators: Estimators = "all",
    replications: options.Replications = "10",
    level: Level = "0.05",
    seed: options.Seed = "0",
    workers: options.Workers = None,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Estimate what policies would have earned on a log that another system made.

    Each policy meets the rows in their order and draws an arm for each. Where it draws the arm of
    the row, the row may become its next round and it learns the reward; other rows change nothing.

    Four estimates of its mean reward a round: rejection replay (the rounds alone), inverse
    propensity, self-normalised and doubly robust (all rows, weighted). Where a log is too thin, the
    answer is "not enough data". Rows that cannot be used are counted, with the reason.

    With a --schema, policies that take contexts see the features of each row, and a table says what
    became of each segment (leaf).

    Rewards under an attack are what the policy truly earned while it learned forged ones.
    """
    from armrace.cli.tables import print_replay
    from armrace.offline import POLICIES_REPLAYED
    from armrace.offline import replay as evaluate
    from armrace.policies import POLICIES
    from armrace.reports.studies import render_replay, replay_plots

    outputs = Outputs(json, report, figures, force)
    outputs.check()
    chosen = POLICIES_REPLAYED if policies is None else names("policies", policies, POLICIES)
    corrupter = make_attack(attack, attack_settings) if attack or attack_settings else None
    found = evaluate(
        log,
        chosen,
        **columns.arguments(),
        schema=schema,
        floor=None if floor is None else share("floor", floor),
        horizon=None if horizon is None else whole("horizon", horizon),
        estimators=estimators,
        attack=corrupter,
        budget=None if budget is None else number("budget", budget),
        redteam=redteam,
        retract=retract,
        replications=whole("replications", replications or ""),
        level=share("level", level),
        seed=whole("seed", seed),
        workers=worker_count(workers),
    )
    outputs.write(
        found.to_builtins,
        lambda: print_replay(found),
        lambda: render_replay(found, shlex.join(["armrace", *sys.argv[1:]])),
        lambda: replay_plots(found),
    )


AUDIT_EPILOG = options.examples(
    "armrace audit sample:open-bandit --arm item_id --reward click",
    "armrace audit clicks.parquet --arm ad --reward click --source network --json -",
    "armrace audit learner.json",
)

Place = Annotated[
    str,
    options.argument(
        "LOG|SNAPSHOT",
        "A log, with its columns; or the snapshot of a learner, without any.",
        show_default=False,
    ),
]
Mistaken = Annotated[
    str,
    options.option(
        "--level NUMBER", "The probability with which anything that the audit says may be wrong."
    ),
]
KeyFile = Annotated[
    Path | None,
    options.option("--key-file FILE", "The secret that the snapshot was sealed with, if any."),
]


def audit(
    log: Place,
    arm: options.Arm = None,
    reward: options.Reward = None,
    time: options.Time = None,
    source: options.Source = None,
    columns: options.ColumnsFile = None,
    rewards: options.Rewards = "0,1",
    level: Mistaken = "0.05",
    key_file: KeyFile = None,
    json: options.Json = None,
    force: options.Force = False,
) -> None:
    """Look for traces of forged feedback in a log of any system, or in a learner's snapshot.

    Of a log, each arm's rewards are taken in the order of the rows: an alarm says that they changed
    over time, came in waves, or that a source pays differently from the others. A snapshot also
    has what the learner kept of its layers.

    No alarm does not prove a log honest: forging that was the same all along leaves no trace.
    """
    bound = share("level", level)
    outputs = Outputs(json, force=force)
    outputs.check()
    found: Any
    if arm is None and reward is None and columns is None:
        found = _audit_snapshot(log, key_file, bound)
    else:
        from armrace.audit.log_audit import audit_log

        if key_file is not None:
            raise InvalidParameter("key-file is for a snapshot; a log has none.")
        opened = options.read_log(
            log, columns, rewards, arm=arm, reward=reward, time=time, source=source
        )
        found = audit_log(opened, bound)
    outputs.write(found.to_builtins, lambda: typer.echo(str(found)))


def _audit_snapshot(place: str, key_file: Path | None, level: float) -> Any:
    from armrace.learner import Learner

    try:
        data = Path(place).read_bytes()
        key = None if key_file is None else key_file.read_bytes()
    except OSError as error:
        raise InvalidParameter(f"cannot read {error.filename}: {error.strerror}.") from None
    except ValueError:
        raise InvalidParameter(f"cannot read {place!r}: its name is not valid.") from None
    if not data.lstrip()[:1] == b"{" and data[:1] < b"\x80":
        raise InvalidParameter(
            f"{place} is not a snapshot of a learner; for a log, give --arm and --reward."
        )
    try:
        learner = Learner.restore(data, key=key, log=False)
    except ArmraceError as error:
        raise type(error)(f"{place}: {error}") from None
    return learner.audit(level)
