"""``armrace redteam``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from armrace.cli import options
from armrace.cli.arguments import ALL, describe_policy, names, numbers, whole
from armrace.cli.options import (
    Arms,
    Computing,
    complete_attacks,
    complete_efforts,
    complete_objectives,
    expanded,
)
from armrace.cli.outputs import STANDARD_OUTPUT, Outputs, explained_interrupt, say_how_to_go_on
from armrace.cli.simulate import PolicyName

if TYPE_CHECKING:
    from armrace.red_team import Verdict


EPILOG = options.examples(
    "armrace redteam thompson --means 0.6,0.4 --budget 100",
    "armrace redteam sharp-race --budgets 30,100,316,1000 --report worst.html",
    "armrace redteam tsallis-inf --budget 300 --objective p95 --effort full --folder search",
    "armrace redteam expert-barrier --environment visitors-segments --budget 300",
    "armrace redteam my_module:MyPolicy --budget 100 --family my_module:MyAttack --json -",
    "armrace redteam armrace.agents:PythonAgent --set agent=my_module:Agent --horizon 1000",
)

Families = Annotated[
    list[str] | None,
    options.attack_option(
        "--family NAMES",
        "Attacks whose parameters are searched, between commas; may be repeated. By default "
        "two-phase, and blind-two-phase where the policy's probabilities are slow to compute; "
        "where visitors differ, one of the two by-visitor.",
        autocompletion=complete_attacks,
    ),
]
SearchBudget = Annotated[
    str,
    options.run_option(
        "--effort NAME",
        "few, quick, usual or full: some 70, 500, 2,000 or 10,000 replications for each budget.",
        autocompletion=complete_efforts,
    ),
]
Objective = Annotated[
    str,
    options.option(
        "--objective NAME",
        "What the search makes as large as it can: mean, or p95, the 95th percentile.",
        autocompletion=complete_objectives,
    ),
]


@expanded
def redteam(
    *,
    policy: PolicyName,
    settings: options.PolicySet = None,
    delta: options.Delta = None,
    objective: Objective = "mean",
    measure: options.Measure = "pseudo_regret",
    arms: Arms,
    budget: options.Budgets = None,
    family: Families = None,
    account: options.Account = "largest",
    horizon: options.Horizon = "100000",
    effort: SearchBudget = "usual",
    seed: options.Seed = "0",
    computing: Computing,
    json: options.Json = None,
    report: options.ReportOnRequest = None,
    folder: options.Folder = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Search for the attack that costs a policy most, and confirm it on held-out seeds.

    Every built-in attack is tried, the winners of earlier searches, and a family of attacks with
    two phases or three whose parameters are searched; where visitors differ, all strike the best
    arm of each visitor, and where they strike is searched too. The figure is the worst found: a
    lower bound on the worst case. Without [bold]--budget[/bold], it is the square root of the
    horizon. Policies that must know the corruption in advance are told the budget.
    """
    from armrace.cli.tables import print_verdict
    from armrace.red_team import redteam as search
    from armrace.reports.checks import redteam_plots, render_redteam
    from armrace.simulation.scenarios import given_the_budget

    rounds = whole("horizon", horizon or "")
    budgets = numbers("budget", budget) if budget else [float(round(rounds**0.5))]
    learner = describe_policy(policy, settings, delta)
    environment = arms.make()
    computing.check()
    outputs = Outputs(json, report, figures, force)
    outputs.check()
    verdicts: list[Verdict] = []
    interrupted = (
        explained_interrupt("; give a --folder to keep what is played.")
        if folder is None
        else say_how_to_go_on(folder)
    )
    with computing.start() as executor, interrupted:
        for spent in sorted(budgets):
            verdicts.append(
                search(
                    given_the_budget(learner, spent),
                    environment,
                    spent,
                    rounds,
                    effort=effort,
                    objective=objective,
                    measure=measure.strip().replace("-", "_"),
                    families=_families(family),
                    attacks=[verdict.attack for verdict in verdicts],
                    account=account,
                    seed=whole("seed", seed),
                    folder=folder,
                    executor=executor,
                    workers=computing.number_of_workers,
                )
            )
            if json != STANDARD_OUTPUT:
                print_verdict(verdicts[-1])
    data = [verdict.to_builtins() for verdict in verdicts]
    outputs.write(
        lambda: data[0] if len(data) == 1 else data,
        lambda: None,  # each verdict was shown when it was found
        lambda: render_redteam(verdicts, _command(verdicts)),
        lambda: redteam_plots(verdicts),
    )


def _families(given: list[str] | None) -> list[str]:
    """The names that were given; ``all`` is not one, since most attacks have little to search."""
    return names("family", given, known=[ALL]) if given else []


def _command(verdicts: list[Verdict]) -> str:
    """The command that searches again; it tells a policy each budget by itself."""
    from armrace.red_team.verdict import plain_number, subject_words

    first = verdicts[0]
    target = first.target
    told = () if _has_own_corruption(verdicts) else ("corruption",)
    subject = subject_words(target.experiment("none", 1, 0), without=told)
    families = {"--family": ",".join(first.search.families)} if first.search.families else {}
    options = {
        "--budget": ",".join(plain_number(verdict.target.budget) for verdict in verdicts),
        **families,
        "--horizon": str(target.horizon),
        "--objective": target.objective,
        "--measure": target.measure,
        "--account": target.account,
        "--effort": first.search.effort,
        "--seed": str(first.search.seed),
    }
    flat = [word for pair in options.items() for word in pair]
    return shlex.join(["armrace", "redteam", *subject, *flat])


def _has_own_corruption(verdicts: list[Verdict]) -> bool:
    """Whether the policy was given a corruption other than the budget of each search."""
    return any(
        getattr(verdict.target.policy, "corruption", verdict.target.budget) != verdict.target.budget
        for verdict in verdicts
    )
