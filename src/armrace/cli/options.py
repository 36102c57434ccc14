"""The options that several commands share, declared once, and groups of them.

Numbers are taken as text and read by :mod:`armrace.cli.arguments`, so that ``1e6`` is a whole
number and every refusal is the same kind of sentence. Typer reads the options of a command from its
signature. A command that takes a group has one parameter for all options of the group, and
:func:`expanded` shows Typer each of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from armrace.cli.arguments import make_environment, numbers, place, split, worker_count
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.environments import Environment
    from armrace.offline import Log


def _completion(place: str) -> Callable[[str], list[str]]:
    """Return a function that lists the names with which the last one of a list may continue.

    ``place`` is a module and its collection of names. It is imported only when the shell asks,
    after each press of the tab key.

    >>> _completion("armrace.policies:POLICIES")("ucb1,tsallis")
    ['ucb1,tsallis-inf']
    """
    module, _, collection = place.partition(":")

    def complete(incomplete: str) -> list[str]:
        names = getattr(import_module(module), collection)
        done, comma, last = incomplete.rpartition(",")
        return [f"{done}{comma}{name}" for name in names if name.startswith(last)]

    return complete


complete_policies = _completion("armrace.policies:POLICIES")
complete_attacks = _completion("armrace.adversaries:ADVERSARIES")
complete_environments = _completion("armrace.environments:ENVIRONMENTS")
complete_scenarios = _completion("armrace.simulation:SCENARIOS")
complete_measures = _completion("armrace.simulation.results:MEASURES")
complete_efforts = _completion("armrace.red_team.target:EFFORTS")
complete_objectives = _completion("armrace.red_team.target:OBJECTIVES")
complete_papers = _completion("armrace.reproduction.papers:PAPERS")
complete_executors = _completion("armrace.simulation.executors:EXECUTORS")


def option(flags: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option from its flags and what stands for its value, as in ``--seed NUMBER``."""
    *names, last = flags.split()
    value = None if last.startswith("-") else last
    given = names if value else [*names, last]
    return typer.Option(*given, metavar=value, help=help, rich_help_panel=panel, **more)


def argument(name: str, help: str, **more: Any) -> Any:
    """Return an argument, whose place in the command line gives its meaning."""
    return typer.Argument(metavar=name, help=help, **more)


def examples(*lines: str) -> str:
    """Return the end of a help page: command lines to try."""
    title = "Examples" if len(lines) > 1 else "Example"
    return "\n\n".join([f"[bold]{title}[/bold]", *lines]) + "\n"


arms_option = partial(option, panel="Arms")
attack_option = partial(option, panel="Attack")
run_option = partial(option, panel="Run")
audit_option = partial(option, panel="Audit")
columns_option = partial(option, panel="Columns")
output_option = partial(option, panel="Output")
output_path = partial(output_option, parser=place)

Means = Annotated[
    list[str] | None,
    arms_option(
        "--means NUMBERS",
        "Means of Bernoulli arms, between commas, as 0.05 or 5%; may be repeated.",
    ),
]
EnvironmentName = Annotated[
    str | None,
    arms_option(
        "--environment NAME",
        "Arms with other rewards than 0 and 1; see [bold]armrace environments[/bold].",
        autocompletion=complete_environments,
    ),
]
EnvironmentSet = Annotated[
    list[str] | None,
    arms_option("--environment-set KEY=VALUE", "A parameter of the environment; may be repeated."),
]
Attack = Annotated[
    str | None,
    attack_option(
        "--attack NAME",
        "Who corrupts the feedback; see [bold]armrace attacks[/bold].",
        autocompletion=complete_attacks,
    ),
]
Attacks = Annotated[
    list[str] | None,
    attack_option(
        "--attack NAMES",
        "Who corrupts the feedback, one or several between commas; may be repeated; see "
        "[bold]armrace attacks[/bold].",
        autocompletion=complete_attacks,
    ),
]
AttackSet = Annotated[
    list[str] | None,
    attack_option("--attack-set KEY=VALUE", "A parameter of the attack; may be repeated."),
]
Budget = Annotated[
    str | None,
    attack_option(
        "--budget NUMBER",
        "The most that the attack may spend: the sum over rounds of its largest change.",
    ),
]
Budgets = Annotated[
    list[str] | None,
    attack_option(
        "--budget --budgets NUMBERS",
        "The most that an attack may spend, one or several between commas; may be repeated.",
    ),
]
Account = Annotated[
    str,
    attack_option(
        "--account NAME",
        "What a round costs the attack: largest, its largest change to any arm, as in the "
        "paper; seen, its change to the arm that is played, for an attacker who sees that first.",
    ),
]
Refresh = Annotated[
    str,
    attack_option(
        "--refresh NUMBER",
        "Where the policy's probabilities are slow to compute, as in Thompson sampling, "
        "compute them for the attack only when an arm's plays have grown by this share; 0: in "
        "every round.",
    ),
]
Policies = Annotated[
    list[str] | None,
    option(
        "--policies NAMES",
        "Which policies, between commas, or [bold]all[/bold]; may be repeated. A class of "
        "your own is named as module:Class.",
        autocompletion=complete_policies,
    ),
]
PolicySet = Annotated[
    list[str] | None, option("--set KEY=VALUE", "A parameter of the policy; may be repeated.")
]
Delta = Annotated[
    str | None,
    option(
        "--delta NUMBER",
        "Short for [bold]--set delta=NUMBER[/bold]: the chance that the policy's guarantee "
        "may fail.",
    ),
]
Measure = Annotated[
    str,
    option(
        "--measure NAME",
        "The figure that ranks: pseudo_regret, regret, clean_regret or corruption.",
        autocompletion=complete_measures,
    ),
]
Horizon = Annotated[str | None, run_option("--horizon NUMBER", "Rounds, also as 1e6.")]
Replications = Annotated[str | None, run_option("--replications NUMBER", "Independent runs.")]
Seed = Annotated[
    str, run_option("--seed NUMBER", "The same seed gives the same figures, bit for bit.")
]
Engine = Annotated[
    str,
    run_option(
        "--engine NAME",
        "plain plays every round, leap skips those that cannot matter to a race, auto leaps "
        "beyond ten million rounds.",
    ),
]
Workers = Annotated[
    str | None,
    run_option(
        "--workers NUMBER", "Threads or processes; by default one per core. Changes no figure."
    ),
]
ExecutorName = Annotated[
    str,
    run_option(
        "--executor NAME",
        "What runs the simulations: threads, processes or dask. Changes no figure.",
        autocompletion=complete_executors,
    ),
]
Address = Annotated[
    str | None,
    run_option(
        "--address ADDRESS",
        "The address of a running cluster, for [bold]--executor[/bold] dask; by "
        "default one is started on this machine.",
    ),
]
Json = Annotated[
    Path | None,
    output_path(
        "--json FILE", "Write the figures as JSON to this file; - prints them, and nothing else."
    ),
]
Audit = Annotated[
    bool,
    audit_option(
        "--audit",
        "Audit each run for signs of forged rewards, and show what the attack really did "
        "beside it. Changes no other figure; a race that is audited plays every round.",
    ),
]
AuditLevel = Annotated[
    str | None,
    audit_option(
        "--audit-level NUMBER",
        "The probability with which an audit may raise a false alarm or certify too much at "
        "any time of a run; 0.05 unless given. Implies [bold]--audit[/bold].",
    ),
]
Output = Annotated[
    Path | None,
    output_path(
        "--output FILE",
        "Save everything: .parquet for [bold]armrace.load[/bold]; .csv, .json and .ndjson "
        "have the rows without the specification.",
    ),
]
KeysFile = Annotated[
    str | None,
    option(
        "--keys FILE",
        "The file of secrets; by default beside the log, and needed with a database.",
        envvar="ARMRACE_KEYS",
    ),
]
Force = Annotated[
    bool,
    output_option(
        "--force", "Replace files that exist. Without it, a file that you name must not exist yet."
    ),
]
Folder = Annotated[
    Path | None,
    output_path(
        "--folder FOLDER",
        "Store finished results in this folder; after an interruption, the same command "
        "continues from there.",
    ),
]
Figures = Annotated[
    Path | None,
    output_path(
        "--figures FOLDER",
        "Write each figure to this folder, at the width of a paper's column: SVG, PDF and "
        "PNG, and its data as CSV.",
    ),
]
ReportOnRequest = Annotated[
    Path | None, output_path("--report FILE", "Write an HTML report to this file.")
]


def usual_report(name: str) -> Any:
    """Return the option of a page that is written even if it is not named."""
    return output_path(
        "--report FILE",
        f"Write the HTML report to this file; by default {name}, or the next free number.",
    )


class Arms(NamedTuple):
    """The options that name the arms."""

    means: Means = None
    environment: EnvironmentName = None
    environment_settings: EnvironmentSet = None

    def make(self) -> Environment:
        """Return the environment that they describe."""
        return make_environment(self.means, self.environment, self.environment_settings)


class Computing(NamedTuple):
    """The options that say where simulations run; they change no figure."""

    workers: Workers = None
    executor: ExecutorName = "threads"
    address: Address = None

    @property
    def number_of_workers(self) -> int | None:
        """The number of threads or processes; None for one per core."""
        return worker_count(self.workers)

    def check(self) -> None:
        """Refuse an unknown executor, and an address or workers that do not fit it."""
        from armrace.simulation.executors import check_executor

        check_executor(self.executor, self.address, self.number_of_workers)

    def start(self) -> AbstractContextManager[Executor | None]:
        """Start the executor for a context; None stands for threads."""
        from armrace.simulation.executors import chosen_executor

        return chosen_executor(self.executor, self.address, self.number_of_workers)


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters are single options in place of groups.

    >>> def show(rounds: int, computing: Computing) -> None:
    ...     print(rounds, computing.workers)
    >>> list(inspect.signature(expanded(show)).parameters)
    ['rounds', 'workers', 'executor', 'address']
    >>> expanded(show)(rounds=9, workers="2", executor="threads", address=None)
    9 2
    """
    types = get_type_hints(command, include_extras=True)
    groups = {name: kind for name, kind in types.items() if hasattr(kind, "_fields")}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _parameters(groups[parameter.name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(kind=kind, annotation=types[parameter.name]))

    @wraps(command)
    def call(**given: Any) -> None:
        command(**_grouped(groups, given))

    # Typer looks at both; ``wraps`` has copied those of the command.
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _parameters(group: Any) -> list[inspect.Parameter]:
    types, defaults = get_type_hints(group, include_extras=True), group._field_defaults
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=defaults[name], annotation=types[name])
        for name in group._fields
    ]


def _grouped(groups: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command from the single options."""
    inside = {name for group in groups.values() for name in group._fields}
    made = {
        name: group(**{field: given[field] for field in group._fields})
        for name, group in groups.items()
    }
    return {**{name: value for name, value in given.items() if name not in inside}, **made}


LogPlace = Annotated[
    str,
    argument(
        "LOG",
        "CSV, NDJSON (plain or gzip) or Parquet of any length; "
        "[bold]sample:open-bandit[/bold] is a small one to try.",
        show_default=False,
    ),
]
Arm = Annotated[str | None, columns_option("--arm COLUMN", "What was shown: the arm.")]
Reward = Annotated[str | None, columns_option("--reward COLUMN", "What it earned.")]
Propensity = Annotated[
    str | None,
    columns_option(
        "--propensity COLUMN",
        "The probability with which the arm was chosen. Without it, all arms are taken to "
        "have been equally likely.",
    ),
]
Time = Annotated[
    str | None,
    columns_option(
        "--time COLUMN", "When: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970."
    ),
]
Source = Annotated[
    str | None,
    columns_option(
        "--source COLUMN", "Where the feedback came from, such as a network or a partner."
    ),
]
Unit = Annotated[str | None, columns_option("--unit COLUMN", "The visitor that a row belongs to.")]
ColumnsFile = Annotated[
    str | None,
    columns_option(
        "--columns FILE",
        'A TOML file with the columns, such as arm = "item_id"; options override it.',
    ),
]
Rewards = Annotated[
    str,
    columns_option(
        "--rewards LOW,HIGH", "The smallest and the largest reward; rows outside are reported."
    ),
]
SchemaFile = Annotated[
    str | None,
    columns_option(
        "--schema FILE",
        "The features of the visitors, which are columns of the same names, as "
        "[bold]armrace schema[/bold] suggests them: TOML or JSON.",
    ),
]


class ColumnOptions(NamedTuple):
    """The options that say which columns of a log are read, and the range of its rewards."""

    arm: Arm = None
    reward: Reward = None
    propensity: Propensity = None
    time: Time = None
    source: Source = None
    unit: Unit = None
    columns: ColumnsFile = None
    rewards: Rewards = "0,1"

    @property
    def names_any(self) -> bool:
        """Whether any column is named, by an option or by a file."""
        return any(each is not None for each in self[:-1])

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of :func:`armrace.offline.open_log` besides the log itself."""
        return {**self._asdict(), "rewards": reward_bounds(self.rewards)}


def read_log(
    place: str,
    columns: str | None,
    rewards: str = "0,1",
    schema: str | None = None,
    **given: str | None,
) -> Log:
    """Survey a log whose columns are given by a file, by options, or by both."""
    from armrace.offline import open_log

    return open_log(place, columns, rewards=reward_bounds(rewards), schema=schema, **given)


def reward_bounds(text: str) -> tuple[float, float]:
    """Read the smallest and the largest reward.

    >>> reward_bounds("1,5")
    (1.0, 5.0)
    """
    parts: list[Any] = numbers("rewards", text) if len(split(text)) == 2 else []
    if len(parts) != 2 or not parts[0] < parts[1]:
        raise InvalidParameter(
            f"rewards must be the smallest and the largest reward, as 0,1; got {text!r}."
        )
    return parts[0], parts[1]
