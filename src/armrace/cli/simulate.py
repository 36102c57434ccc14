"""``armrace simulate``, and ``armrace warm-up``, which compiles ahead of it."""

from __future__ import annotations

from typing import Annotated

from armrace.cli import options
from armrace.cli.arguments import (
    ALL,
    audit_level,
    make_attack,
    make_policy,
    names,
    number,
    share,
    warn_of_idle_attack,
    warn_of_long_run,
    whole,
)
from armrace.cli.options import Arms, Computing, complete_attacks, complete_policies, expanded
from armrace.cli.outputs import (
    STANDARD_OUTPUT,
    check_ending,
    check_targets,
    end,
    run,
    say,
    write_json,
    write_result,
)

EPILOG = options.examples(
    "armrace simulate multi-layer-race --means 0.9,0.5,0.5 --horizon 1e6",
    "armrace simulate ucb1 --attack zero-best-when-likely --budget 300 --json -",
    "armrace simulate fast-slow-race --set corruption=300 --attack swap-best --attack-set "
    "decoy=2 --budget 300",
    "armrace simulate sharp-race --horizon 1e12 --replications 10",
    "armrace simulate multi-layer-race --attack sleeper-bots --budget 500 --audit",
    "armrace simulate exp3 --environment beta --environment-set alphas=4,2 --environment-set "
    "betas=2,2",
)

PolicyName = Annotated[
    str,
    options.argument(
        "POLICY",
        "The algorithm; see [bold]armrace policies[/bold].",
        autocompletion=complete_policies,
        show_default=False,
    ),
]


@expanded
def simulate(
    *,
    policy: PolicyName,
    settings: options.PolicySet = None,
    delta: options.Delta = None,
    arms: Arms,
    attack: options.Attack = "none",
    attack_settings: options.AttackSet = None,
    budget: options.Budget = "0",
    account: options.Account = "largest",
    refresh: options.Refresh = "0",
    horizon: options.Horizon = "100000",
    replications: options.Replications = "200",
    seed: options.Seed = "0",
    engine: options.Engine = "auto",
    computing: Computing,
    audit: options.Audit = False,
    level: options.AuditLevel = None,
    json: options.Json = None,
    output: options.Output = None,
    force: options.Force = False,
) -> None:
    """Run one policy on arms of your own, under attack or not.

    Without [bold]--means[/bold] or [bold]--environment[/bold], there are three Bernoulli arms
    with means 0.5, 0.4 and 0.4.
    """
    from armrace.cli.tables import print_result
    from armrace.simulation import make_experiment

    experiment = make_experiment(
        policy=make_policy(policy, settings, delta),
        environment=arms.make(),
        adversary=make_attack(attack, attack_settings),
        budget=number("budget", "0" if budget is None else budget),
        horizon=whole("horizon", horizon or ""),
        replications=whole("replications", replications or ""),
        seed=whole("seed", seed),
        engine=engine,
        audit=audit_level(audit, level),
        account=account,
        refresh=share("refresh", refresh),
    )
    computing.check()
    check_targets(json, output, force=force)
    check_ending(output)
    warn_of_idle_attack(experiment.adversary, experiment.budget)
    warn_of_long_run([experiment])
    with computing.start() as executor:
        result = run([experiment], computing.number_of_workers, executor)[0]
    if json is not None:
        write_json(json, result.to_builtins())
    if output is not None:
        write_result(output, result)
    if json != STANDARD_OUTPUT:
        print_result(result)
    end(result)


WARM_UP_EPILOG = options.examples(
    "armrace warm-up",
    "armrace warm-up --policies sharp-race,tsallis-inf --attacks none",
    "NUMBA_CACHE_DIR=/opt/armrace armrace warm-up --audit",
)

CompiledAttacks = Annotated[
    list[str] | None,
    options.option(
        "--attacks NAMES",
        "Which attacks, between commas, or [bold]all[/bold], as by default; may be repeated.",
        autocompletion=complete_attacks,
    ),
]
NoLearners = Annotated[
    bool, options.option("--no-learners", "Do not compile the learner for live decisions.")
]
CompiledAudit = Annotated[bool, options.option("--audit", "Also compile audited simulations.")]
CompiledHorizon = Annotated[
    str,
    options.option(
        "--horizon ROUNDS",
        "The number of rounds you will simulate; above ten million, races run other code.",
    ),
]


def warm_up(
    policies: options.Policies = None,
    attacks: CompiledAttacks = None,
    no_learners: NoLearners = False,
    audit: CompiledAudit = False,
    horizon: CompiledHorizon = "100000",
) -> None:
    """Compile policies and attacks ahead of use.

    Every other command compiles what it needs by itself. The machine code is stored in
    NUMBA_CACHE_DIR, or else in the user's cache directory, and used from there by all later runs.
    """
    from armrace.adversaries import ADVERSARIES
    from armrace.compilation import warm_up as compile_all
    from armrace.kernels.machine_code import trusted_folders
    from armrace.policies import POLICIES

    compile_all(
        names("policies", policies or ALL, POLICIES),
        names("attacks", attacks or ALL, ADVERSARIES),
        learners=not no_learners,
        audit=audit,
        horizon=whole("horizon", horizon),
    )
    for folder in trusted_folders():
        say(f"The machine code is in {folder}.")
        break
