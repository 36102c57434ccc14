"""``armrace plan``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from armrace.cli import options
from armrace.cli.arguments import attack_names, names, number, share, shares, whole
from armrace.cli.options import Computing, complete_attacks, expanded
from armrace.cli.outputs import Outputs, explained_interrupt, page_place, say
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from armrace.offline import Log as OpenedLog
    from armrace.planning import Question


_PAGE = "armrace-plan.html"

EPILOG = options.examples(
    "armrace plan --means 0.05,0.04,0.04,0.035,0.03,0.03 --traffic 200000 --days 5 "
    "--forged-clicks 1%",
    "armrace plan --arms 6 --gap 0.01 --base-rate 0.04 --traffic 200000 --days 5 "
    "--bot-visitors 0.03%",
    "armrace plan --log clicks.parquet --arm ad --reward click --time time --forged-clicks 1%",
    "armrace plan --arms 3 --gap 0.1 --traffic 1e4 --policies "
    "multi-layer-race,ucb1,tsallis-inf --json -",
)

Arms = Annotated[
    str | None,
    options.arms_option(
        "--arms NUMBER", "Instead of the means: how many arms; one of them is better by the gap."
    ),
]
Gap = Annotated[
    str | None,
    options.arms_option(
        "--gap NUMBER",
        "The smallest difference between means that matters to you; with "
        "[bold]--means[/bold], arms closer than this to the best count as the best.",
    ),
]
BaseRate = Annotated[
    str | None,
    options.arms_option(
        "--base-rate NUMBER",
        "The mean of the other arms, with [bold]--arms[/bold]; by default 0.5, the hardest.",
    ),
]
Traffic = Annotated[
    str | None,
    options.option(
        "--traffic NUMBER",
        "Decisions a day; a log with [bold]--time[/bold] has its own.",
        show_default=False,
    ),
]
Log = Annotated[
    str | None,
    options.columns_option(
        "--log LOG", "Read the arms' means and the traffic from a log: CSV, NDJSON or Parquet."
    ),
]
Days = Annotated[str, options.option("--days NUMBER", "The longest time that you would wait.")]
Forged = Annotated[
    str | None,
    options.attack_option(
        "--forged SHARE",
        "The share of all decisions whose feedback may be forged, as 0.01 or 1%: C is this "
        "share of the decisions, since forging changes a reward by at most 1. Decisions without "
        "a click count too. 1% if none of the three shares is given.",
    ),
]
ForgedClicks = Annotated[
    str | None,
    options.attack_option(
        "--forged-clicks SHARE",
        "Or the share of the clicks that may be forged. It is multiplied by the "
        "click rate of the best arm: 10% of the clicks at a rate of 5% are 0.5% of the decisions. "
        "That is a lower bound on C unless every forged click is the bot's only visit; if bots "
        "wait for one item, use --bot-visitors.",
    ),
]
BotVisitors = Annotated[
    str | None,
    options.attack_option(
        "--bot-visitors SHARE",
        "Or the share of the visitors that may be bots. A bot decides about all "
        "feedback of its visit, click or not, so this is the same share of the decisions.",
    ),
]
Attacks = Annotated[
    list[str] | None,
    options.attack_option(
        "--attacks NAMES",
        "Which attacks, between commas, or all; by default one that strikes at once, one that "
        "strikes where it is seen, and one that waits.",
        autocompletion=complete_attacks,
    ),
]
WorstAttacks = Annotated[
    str | None,
    options.attack_option(
        "--worst-attacks NUMBER",
        "How many of the worst attacks that searches have found for each policy are tried "
        "too; by default 3, or none with --attacks. See [bold]armrace redteam[/bold].",
    ),
]
Delta = Annotated[
    str,
    options.option(
        "--delta NUMBER", "The chance that a policy's guarantee may fail, for those that have one."
    ),
]
Rounds = Annotated[
    str,
    options.run_option(
        "--rounds NUMBER",
        "The most decisions that are simulated, up to 1e7; if the days have more, the plan "
        "covers only the first of them.",
    ),
]
Report = Annotated[Path | None, options.usual_report(_PAGE)]


@expanded
def plan(
    *,
    traffic: Traffic = None,
    days: Days = "14",
    policies: options.Policies = None,
    delta: Delta = "0.05",
    means: options.Means = None,
    arms: Arms = None,
    gap: Gap = None,
    base_rate: BaseRate = None,
    log: Log = None,
    arm: options.Arm = None,
    reward: options.Reward = None,
    propensity: options.Propensity = None,
    time: options.Time = None,
    columns: options.ColumnsFile = None,
    rewards: options.Rewards = "0,1",
    schema: options.SchemaFile = None,
    forged: Forged = None,
    forged_clicks: ForgedClicks = None,
    bot_visitors: BotVisitors = None,
    attacks: Attacks = None,
    worst_attacks: WorstAttacks = None,
    rounds: Rounds = "1000000",
    replications: options.Replications = "20",
    seed: options.Seed = "0",
    computing: Computing,
    json: options.Json = None,
    report: Report = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Find out how much corruption each policy survives on your arms and traffic, and its cost.

    Amounts of corruption C are tried from small to large. A policy survives C if at least 95% of
    the runs end right under every attack, at C and at everything smaller. A run ends right if more
    than half of its last plays (a quarter to 44% of the run) go to the best arm, or to one that is
    closer to it than the gap.

    The cost is the mean pseudo-regret in clicks a day, under the costliest attack. A run has
    decided once one arm gets 90% of its plays until the end; the table says after how many days 95%
    of the runs have.

    With a --log and a --schema the plan proposes segments (leaves) that the traffic can carry, and
    says whether contexts earn more than they cost.

    Attacks see the probabilities of Thompson sampling slightly outdated, since they are slow to
    compute.

    Rates, shares and probabilities may be given as 0.05 or as 5%.
    """
    from armrace import planning
    from armrace.cli.tables import print_plan
    from armrace.planning import make_question
    from armrace.planning.question import COUNTED_CLICKS
    from armrace.policies import POLICIES
    from armrace.reports.studies import plan_plots, render_plan

    rates = None if means is None else shares("means", means)
    visits = None if traffic is None else number("traffic", traffic)
    named = {"arm": arm, "reward": reward, "propensity": propensity, "time": time}
    opened = None
    if log is not None:
        if rates is not None or arms is not None:
            raise InvalidParameter("the log has the arms; leave --means and --arms out.")
        opened = options.read_log(log, columns, rewards, schema=schema, **named)
        rates, visits = _read_traffic(opened, visits)
    elif any(name is not None for name in (columns, schema, *named.values())):
        raise InvalidParameter("columns are those of a log; give --log LOG.")
    if visits is None:
        raise InvalidParameter("traffic is missing; give --traffic, or --time with a --log.")
    question = make_question(
        rates,
        arms=None if arms is None else whole("arms", arms),
        gap=_optional_share("gap", gap),
        base_rate=_optional_share("base-rate", base_rate),
        traffic=visits,
        days=number("days", days),
        forged=_optional_share("forged", forged),
        forged_clicks=_optional_share("forged-clicks", forged_clicks),
        bot_visitors=_optional_share("bot-visitors", bot_visitors),
        delta=share("delta", delta),
        replications=whole("replications", replications or ""),
        seed=whole("seed", seed),
        rounds=whole("rounds", rounds),
        **{} if policies is None else {"policies": names("policies", policies, POLICIES)},
        attacks=None if attacks is None else attack_names("attacks", attacks),
        worst_attacks=None if worst_attacks is None else whole("worst-attacks", worst_attacks),
    )
    computing.check()
    outputs = Outputs(json, page_place(report, _PAGE), figures, force)
    outputs.check()
    with (
        computing.start() as executor,
        explained_interrupt("; half a plan would mislead, so nothing of it is kept."),
    ):
        found = planning.answer(question, executor, computing.number_of_workers, log=opened)
    outputs.write(
        found.to_builtins,
        lambda: print_plan(found),
        lambda: render_plan(found, command(found.question)),
        lambda: plan_plots(found),
    )
    if forged_clicks is not None:
        say(COUNTED_CLICKS)


def _read_traffic(log: OpenedLog, visits: float | None) -> tuple[tuple[float, ...], float | None]:
    """Read means and traffic out of a log, and say how far they can be trusted."""
    from armrace.planning import read_traffic

    found = read_traffic(log, visits)
    for sentence in found.sentences:
        say(sentence)
    return found.means, found.traffic


def _optional_share(name: str, text: str | None) -> float | None:
    return None if text is None else share(name, text)


def command(question: Question) -> str:
    """Return the command line that asks the same again, independently of future defaults."""
    named = [policy.identifier() for policy in question.policies]
    # What is tried by default may have parameters, and names alone would lose them.
    is_named = tuple(map(question.informed, named)) == question.policies
    words = {
        "--means": ",".join(f"{mean!r}" for mean in question.means),
        "--gap": f"{question.gap!r}",
        "--traffic": f"{question.traffic!r}",
        "--days": f"{question.days!r}",
        "--forged": f"{question.forged!r}",
        "--delta": f"{question.delta!r}",
        **({"--policies": ",".join(named)} if is_named else {}),
        "--attacks": ",".join(attack.identifier() for attack in question.attacks),
        "--worst-attacks": str(question.worst_attacks),
        "--rounds": str(question.rounds),
        "--replications": str(question.replications),
        "--seed": str(question.seed),
    }
    return shlex.join(["armrace", "plan", *(word for pair in words.items() for word in pair)])
