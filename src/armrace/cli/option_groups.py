"""Groups of options that several commands share, each declared once as a class.

Typer reads the options of a command from its signature. A command that takes a group has one
parameter for all options of the group, and :func:`expanded` shows Typer each of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from armrace.cli import options
from armrace.cli.arguments import worker_count
from armrace.cli.experiments import make_environment

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.environments import Environment


class Arms(NamedTuple):
    """The options that name the arms."""

    means: options.Means = None
    environment: options.Environment = None
    environment_settings: options.EnvironmentSet = None

    def make(self) -> Environment:
        """Return the environment that they describe."""
        return make_environment(self.means, self.environment, self.environment_settings)


class Computing(NamedTuple):
    """The options that say where simulations run; they change no figure."""

    workers: options.Workers = None
    executor: options.Executor = "threads"
    address: options.Address = None

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
