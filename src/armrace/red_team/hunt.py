"""``armrace.redteam``: find the worst attack on a policy, and confirm it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy.typing as npt

from armrace.adversaries import ADVERSARIES, Adversary
from armrace.environments import Environment
from armrace.errors import InvalidParameter
from armrace.policies import Policy
from armrace.red_team.efforts import Effort, find_effort
from armrace.red_team.notebook import Notebook
from armrace.red_team.openings import builtin_attacks, families_for
from armrace.red_team.ratings import Ratings, Stage
from armrace.red_team.search import Report, Scores, check_searcher, search
from armrace.red_team.space import space_of
from armrace.red_team.target import Target
from armrace.red_team.verdict import SearchRecord, Verdict, held_out
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.executors import running_executor
from armrace.simulation.experiment import make_experiment
from armrace.simulation.progress import Progress, progress_bar

__all__ = ["hunt", "redteam"]

_BUILTIN_FINALISTS = 2


def redteam(
    policy: Policy | str | Mapping[str, Any],
    environment: Environment | Mapping[str, Any] | npt.ArrayLike,
    budget: float,
    horizon: float = 100_000,
    *,
    effort: str = "usual",
    objective: str = "mean",
    measure: str = "pseudo_regret",
    families: Sequence[type[Adversary] | str] = (),
    attacks: Sequence[Adversary | str | Mapping[str, Any]] = (),
    account: str = "largest",
    searcher: str = "evolution",
    seed: int = 0,
    folder: str | Path | None = None,
    executor: Executor | str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
) -> Verdict:
    """Search for the attack that costs a policy most, and confirm it on held-out seeds.

    The same arguments give the same verdict, on any executor and with any number of workers.

    Args:
        policy: the algorithm under attack, in a form that :func:`armrace.simulate` takes.
        environment: the source of rewards, in a form that :func:`armrace.simulate` takes.
        budget: the most corruption that an attack may spend.
        horizon: the number of rounds of each replication.
        effort: ``quick``, ``usual`` or ``full``: some 500, 2,000 or 10,000 replications.
        objective: what is made large: ``mean``, or the 95th percentile ``p95``.
        measure: of which measure of the ledger.
        families: classes of attacks whose parameters are searched, such as your own; by default
            the two-phase attacks. Every class whose parameters have limits can be searched.
        attacks: attacks that are tried in any case, next to the built-in ones.
        account: what a round costs the attack; see :func:`armrace.simulate`.
        searcher: what varies the best attacks of the opening: ``evolution``, or ``cmaes``, for
            which the extra ``search`` must be installed.
        seed: the seed of all randomness.
        folder: where replications are kept, so that an interrupted search can go on.
        executor: see :func:`armrace.simulate`.
        workers: see :func:`armrace.simulate`.
        progress: whether to show a progress bar; by default on a terminal, and a line a minute
            elsewhere.

    Returns:
        The worst attack found: a lower bound on the worst case.

    Raises:
        ArmraceError: an argument is refused; the message names it, its limits and its value.
    """
    plain = make_experiment(
        policy=policy, environment=environment, horizon=horizon, seed=seed, account=account
    )
    target = Target(
        policy=plain.policy,
        environment=plain.environment,
        budget=float(budget),
        horizon=plain.horizon,
        measure=measure,
        objective=objective,  # type: ignore[arg-type]  # the target refuses other words
        account=account,
    )
    plan = find_effort(effort)
    check_searcher(searcher)
    searched = [_family(family) for family in families]
    given = [ADVERSARIES.make(attack) for attack in attacks]
    place = None if folder is None else Path(folder)
    title = f"attacking {target.policy.tag()}"
    with running_executor(executor, workers) as running, progress_bar(title, progress) as report:
        return hunt(
            target,
            plan,
            effort,
            seed,
            families=searched,
            given=given,
            searcher=searcher,
            notebook=Notebook(target, seed, place),
            executor=running,
            workers=workers,
            report=report,
        )


def hunt(
    target: Target,
    plan: Effort,
    effort: str,
    seed: int,
    *,
    families: Sequence[type[Adversary]] = (),
    given: Sequence[Adversary] = (),
    searcher: str = "evolution",
    notebook: Notebook | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Report = lambda share, words: None,
    compiling: Progress = None,
) -> Verdict:
    """Search, select and confirm; see :func:`redteam`.

    Args:
        target: what is attacked.
        plan: how many replications, and for what.
        effort: the name of the plan, for the verdict.
        seed: the seed of all randomness.
        families: the classes that are searched; by default the two-phase attacks.
        given: attacks that are tried in any case.
        searcher: one of ``SEARCHERS``.
        notebook: where replications are kept; by default in memory.
        executor: runs the simulations in place of threads.
        workers: how many threads run at once; by default one per core.
        report: called with the finished share and the best attack so far.
        compiling: whether to show that attacks are compiled.
    """
    started = time.perf_counter()
    notebook = notebook or Notebook(target, seed)
    searching, selecting, confirming = (
        Ratings(target, stage, seed, notebook, executor, workers) for stage in Stage
    )
    builtin = builtin_attacks(target)
    experiments = [target.experiment(attack, 1, 0) for attack in builtin]
    compile_experiments(experiments, executor, compiling)

    def told(share: float, words: str) -> None:
        report(share * plan.searching / plan.total, words)

    searched = families or families_for(target)
    search(searching, plan, searched, seed, given, told, searcher)
    winner, rival = _select(searching, selecting, plan, builtin)
    # From here on both attacks are frozen: whatever they achieve below are their figures.
    report(1.0 - 2 * plan.confirming / plan.total, f"confirming {winner.tag()}")
    confirming.rate([winner, rival], plan.confirming)
    if confirming.value(rival) > confirming.value(winner):
        winner = rival  # the worst found is never below a figure that stands beside it
    return Verdict(
        target=target,
        attack=winner,
        search=SearchRecord(
            effort=effort,
            searcher=searcher,
            seed=seed,
            families=tuple(family.identifier() for family in families),
            attacks=tuple(attack.to_builtins() for attack in given),
            candidates=len(searching.attacks()),
            replications=searching.played + selecting.played + confirming.played,
            searched=searching.value(winner),
            selected=selecting.value(winner),
            seconds=time.perf_counter() - started,
        ),
        held_out=held_out(confirming, winner),
        builtin=rival,
        builtin_held_out=held_out(confirming, rival),
    )


def _select(
    searching: Ratings, selecting: Ratings, plan: Effort, builtin: Sequence[Adversary]
) -> tuple[Adversary, Adversary]:
    """Return the worst attack found and the worst built-in one, after more replications of both."""
    scores = Scores(searching)
    rivals = scores.best(_BUILTIN_FINALISTS, builtin)
    # Distinct in their order: a set's order depends on hashes, and the verdict must not.
    finalists = list(dict.fromkeys([*scores.best(plan.finalists), *rivals]))
    selecting.rate(finalists, plan.selecting)

    def chosen_by(attack: Adversary) -> float:
        # On new seeds alone: what was seen while searching is what made it a finalist.
        return searching.target.cautious_value(selecting.sample(attack))

    return max(finalists, key=chosen_by), max(rivals, key=chosen_by)


def _family(given: type[Adversary] | str) -> type[Adversary]:
    """Return a class of attacks that can be searched."""
    found = ADVERSARIES.find(given) if isinstance(given, str) else given
    if not isinstance(found, type) or not issubclass(found, Adversary):
        raise InvalidParameter(f"families must be classes of attacks; got {given!r:.100}.")
    if not space_of(found):
        raise InvalidParameter(
            f"families must have parameters with limits or choices; {found.tag()} has none to "
            "search."
        )
    try:
        found()
    except TypeError as error:
        raise InvalidParameter(
            f"families must have a default for every parameter; {found.tag()}: {error}."
        ) from None
    return found
