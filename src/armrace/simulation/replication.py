"""One replication: make the states, run the compiled loop, compute regrets from the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.agents import agent_maker, play_agent, wait_for_arms
from armrace.audit import Audit, audit
from armrace.audit.audit_trail import has_trail_of_leaves, unwatched, watch_unchecked
from armrace.audit.auditing import unfit_for_audit
from armrace.errors import BrokenPolicy, InvalidParameter
from armrace.kernels import engine
from armrace.kernels.crowds import Crowd, crowd_shape
from armrace.kernels.dispatch import implementations
from armrace.kernels.engine import CheckpointRecord, Ledger, is_spent, make_ledger, make_record
from armrace.kernels.fingerprints import fingerprint, is_users
from armrace.kernels.handles import call_entry
from armrace.kernels.laws import Law, moves
from armrace.kernels.live import BadTicket
from armrace.kernels.pointers import LiveAttack, LiveRewards
from armrace.kernels.streams import Stream
from armrace.policies import ArmView
from armrace.policies.races import fast_forward
from armrace.policies.races.race import Race
from armrace.randomness import Purpose, reward_place, stream_for
from armrace.simulation.experiment import Experiment, checkpoints_for

LONGEST_PLAYED_BY_DEFAULT = 10_000_000
"""Up to this horizon the engine ``auto`` plays every round, so that all policies of a comparison
meet the same rewards."""

Floats = npt.NDArray[np.float64]
Runner = Callable[..., None]


class Outcome(NamedTuple):
    """The ledger of one replication: one row per checkpoint."""

    regret: Floats
    pseudo_regret: Floats
    clean_regret: Floats
    corruption: Floats
    pulls: npt.NDArray[np.int64]
    arm_corruption: Floats
    layer_corruption: Floats
    seen_corruption: Floats
    """Changes of the rewards that the learner saw."""
    leaf_regret: Floats
    """Against the best arm of each leaf; as ``pseudo_regret`` where visitors are alike."""
    constant_regret: Floats
    """Against the best single arm, by mean rewards; negative if contexts helped."""
    expert_regret: Floats
    """Against the best expert of the policy, by mean rewards; experts are the single arms where a
    policy has no others."""
    dynamic_regret: Floats
    """Against the best arm of each round; as ``pseudo_regret`` where means do not move."""
    refused: npt.NDArray[np.int64]
    """Rounds in which a change was not applied: illegal, or beyond the budget."""
    view: Sequence[ArmView]
    """The policy's view of each arm at the end; only for the first replication, else empty."""
    leapt: int | None
    """Rounds that were skipped, not played one by one; none where the engine plays every round."""
    seconds: float
    """How long the compiled loop took; the only value that the seed does not determine."""
    audit: Audit | None
    """The audit of the replication, if one was requested."""


class Parts(NamedTuple):
    """The states, streams and arrays of one replication."""

    name: str
    """The name of the policy."""
    policy: Any
    """The policy's state; wrapped in an audit trail if an audit is requested."""
    policy_state: Any
    """The policy's own state."""
    adversary: Any
    law: Law
    learner_stream: Stream
    adversary_stream: Stream
    ledger: Ledger
    record: CheckpointRecord
    workspace: engine.Workspace
    sees_weights: bool
    smallest_cost: float
    """Every change that the adversary makes costs at least this, or nothing."""
    means: Floats
    reward_stream: Stream
    """The stream for rewards of skipped rounds, which are drawn at once."""
    leap: fast_forward.FastForward | None
    """Where rounds are skipped; none if every round is played."""
    sees_arm: bool = False
    """Whether the adversary answers after the arm is drawn, and pays for that arm alone."""
    checked: bool = False
    """Whether an index out of bounds is refused, by a loop that is compiled with such checks."""
    crowd: Crowd | None = None
    """Who comes, if visitors differ."""
    rewards: tuple[float, float] = (0.0, 1.0)
    """The range of the rewards, honest or not."""
    agent: Callable[[], Any] | None = None
    """What makes the agent that decides in Python; none for a compiled policy."""
    counts: bool = False
    """Whether nothing looks at the probabilities of tickets: the policy only counts rewards."""


def make_parts(
    experiment: Experiment,
    replication: int,
    control: npt.NDArray[np.int64] | None = None,
    *,
    checked: bool = False,
) -> Parts:
    """Make fresh states, streams and ledger for one replication."""
    policy, horizon = experiment.policy, experiment.horizon
    setting = experiment.setting()
    law = experiment.environment.law()
    # Neither policy nor attack is part of the place: all that are compared meet the same rewards.
    law.place[:] = reward_place(experiment.seed, replication)
    arms = law.kind.size
    layers = policy.layer_count(arms, horizon)
    crowd = experiment.environment.crowd()
    shape = None if crowd is None else crowd_shape(crowd)
    agent = agent_maker(experiment, replication)
    state = wait_for_arms(arms) if agent else policy.start_with(arms, horizon, shape)
    adversary = experiment.adversary.start(setting)
    experts = None if crowd is None else policy.experts(state)
    accounts = arms, layers, 0 if experts is None else experts[1].size
    if experiment.audit is not None:
        state = watch_unchecked(state, arms, horizon)
        if crowd is not None and policy.takes_contexts and not has_trail_of_leaves(state):
            raise unfit_for_audit(policy.tag())
    return Parts(
        name=policy.tag(),
        policy=state,
        policy_state=unwatched(state),
        adversary=adversary,
        law=law,
        learner_stream=stream_for(experiment.seed, Purpose.LEARNER, replication),
        adversary_stream=stream_for(experiment.seed, Purpose.ADVERSARY, replication),
        ledger=make_ledger(arms, layers, float(experiment.budget), accounts[2]),
        record=make_record(checkpoints_for(horizon), *accounts),
        workspace=engine.make_workspace(
            arms, control, _growth(experiment, crowd), policy.exact_tickets, moves(law)
        ),
        sees_weights=experiment.adversary.sees_weights,
        smallest_cost=experiment.adversary.smallest_cost(adversary, setting),
        means=setting.means,
        reward_stream=stream_for(experiment.seed, Purpose.SKIPPED_ROUNDS, replication),
        leap=_make_leap(experiment, state, adversary, law),
        sees_arm=experiment.account == "seen",
        checked=checked,
        crowd=crowd,
        rewards=experiment.environment.reward_range(),
        agent=agent,
        counts=experiment.audit is None and policy.draws_by_weights and policy.learns_from_others,
    )


def _growth(experiment: Experiment, crowd: Crowd | None) -> float:
    """Return the share by which plays may grow before a distribution is recomputed."""
    # Where visitors differ, what is outdated would be the distribution of another visitor.
    fresh = experiment.policy.exact_tickets or crowd is not None
    return 0.0 if fresh else float(experiment.refresh)


def _make_leap(
    experiment: Experiment, state: Any, adversary: Any, law: Law
) -> fast_forward.FastForward | None:
    """Return the state of fast-forwarding, if it is requested or worthwhile."""
    horizon = experiment.horizon
    if experiment.engine == "plain" or (
        experiment.engine == "auto" and horizon <= LONGEST_PLAYED_BY_DEFAULT
    ):
        return None
    if experiment.engine == "leap" and experiment.audit is not None:
        raise InvalidParameter(
            "engine leap cannot be audited, since an audit looks at every reward; "
            "leave out the one or the other."
        )
    if not isinstance(state, Race) or not np.isin(law.kind, fast_forward.LAWS_WITH_SUMS).all():
        if experiment.engine == "leap":
            raise InvalidParameter(
                "engine leap skips rounds of arm eliminations and races whose rewards are "
                "bernoulli, finite-support or deterministic; leave it out, or give plain."
            )
        return None
    windows = experiment.adversary.windows(adversary, horizon)
    shape = np.array(windows, dtype=np.int64).reshape(-1, 2)
    return fast_forward.make_fast_forward(law.kind.size, state.share.size, shape)


class RoundsToPlay(NamedTuple):
    """Estimated numbers of rounds of a replication that are played one by one."""

    surely: float
    """Played because the policy does not leap, or cannot tell its arms apart yet."""
    perhaps: float
    """Played if the attack continues, which may be until the horizon."""


def rounds_to_play(experiment: Experiment) -> RoundsToPlay:
    """Estimate how many rounds of a replication will be played one by one.

    A race leaps once it has deleted bad arms: after about ``500 / gap^2`` plays of each arm in each
    layer.
    """
    parts, horizon = make_parts(experiment, 0), float(experiment.horizon)
    if parts.leap is None:
        return RoundsToPlay(horizon, 0.0)
    gap = np.diff(np.sort(parts.means)[-2:])[0]
    arms_and_layers = parts.ledger.pulls.size * parts.ledger.layer_corruption.size
    exploring = min(horizon, arms_and_layers * 500 / gap**2) if gap > 0 else horizon
    if is_spent(parts.ledger, parts.smallest_cost):
        return RoundsToPlay(exploring, 0.0)
    ends = np.minimum(parts.leap.windows, experiment.horizon)
    return RoundsToPlay(exploring, float((ends[:, 1] - ends[:, 0]).clip(min=0).sum()))


def runner_for(parts: Parts) -> Runner:
    """Return the compiled loop for this class of policy."""
    code = fingerprint(implementations(parts.policy))
    if parts.agent is not None:
        return engine.make_stepper(code)
    if parts.counts and is_users(code) and not parts.checked:
        return engine.make_runner(code, counts=True)
    make = engine.make_runner if parts.leap is None else fast_forward.make_fast_forwarder
    return make(code, True) if parts.checked else make(code)


def live_attack(parts: Parts) -> LiveAttack:
    """Return the attack as the compiled loop calls it."""
    return LiveAttack(
        parts.adversary,
        parts.adversary_stream,
        parts.sees_weights,
        parts.smallest_cost,
        parts.sees_arm,
        parts.crowd is not None,
        parts.rewards,
    )


def play_out(parts: Parts) -> None:
    """Run the compiled loop to the last checkpoint.

    A policy that draws what it cannot have is refused; with ``parts.checked``, also one that leaves
    the bounds of an array.
    """
    # Both objects own the memory behind the addresses that are passed on: they must live until the
    # compiled loop has returned.
    attack = live_attack(parts)
    if parts.agent is not None:
        play_agent(parts, attack, parts.agent)
        return
    live = LiveRewards(parts.law, parts.workspace.drawn, parts.ledger.clean_totals)
    before = (parts.policy, attack.attack, live.rewards, parts.learner_stream)
    after = (parts.ledger, parts.record, parts.workspace)
    arguments: tuple[Any, ...] = (*before, *after)
    if parts.leap is not None:
        arguments = (*before, parts.reward_stream, *after, parts.leap, parts.law)
    elif parts.crowd is not None:
        arguments = (*arguments, parts.crowd)
    try:
        call_entry(runner_for(parts), *arguments)
    except BadTicket as error:
        raise BrokenPolicy.by_ticket(parts.name, error.args, *_shape(parts)) from None
    except IndexError as error:
        raise InvalidParameter(
            f"the policy with the state {type(parts.policy_state).__name__} left the bounds of an "
            f"array in round {parts.ledger.pulls.sum()}: its arm or layer is not one of the "
            f"{parts.ledger.pulls.size} arms and {parts.ledger.layer_corruption.size} layers, or "
            "its own code uses a wrong index."
        ) from error


def play_one_round(parts: Parts) -> None:
    """Run the compiled loop for a single round, so that it has been compiled."""
    short = make_record(np.ones(1, dtype=np.int64), *_shape(parts), parts.ledger.advised.size)
    play_out(parts._replace(record=short))


def run_replication(
    experiment: Experiment,
    replication: int,
    control: npt.NDArray[np.int64] | None = None,
    *,
    checked: bool = False,
) -> Outcome:
    """Play one replication; through ``control``, another thread can follow and stop it.

    With ``checked``, a policy that leaves the bounds of an array is refused.
    """
    parts = make_parts(experiment, replication, control, checked=checked)
    started = time.perf_counter()
    play_out(parts)
    seconds = time.perf_counter() - started
    view = experiment.policy.inspect(parts.policy_state) if replication == 0 else ()
    found = None if experiment.audit is None else audit(parts.policy, experiment.audit)
    return outcome_of(parts, view, seconds, found)


def _shape(parts: Parts) -> tuple[int, int]:
    return parts.ledger.pulls.size, parts.ledger.layer_corruption.size


def outcome_of(
    parts: Parts, view: Sequence[ArmView] = (), seconds: float = 0.0, found: Audit | None = None
) -> Outcome:
    """Compute the regrets of a replication from its ledger."""
    rows, gaps = parts.record.rows, parts.means.max() - parts.means
    pseudo = leaf = constant = expert = dynamic = rows.pulls @ gaps
    if parts.crowd is not None:
        best, best_in_leaf, played = rows.worth.T
        pseudo, leaf = best - played, best_in_leaf - played
        constant = expert = rows.promised.max(axis=1) - played
        if rows.advised.size:
            expert = rows.advised.max(axis=1) - played
    elif moves(parts.law):
        best, _, played = rows.worth.T
        pseudo, dynamic = rows.promised.max(axis=1) - played, best - played
    return Outcome(
        # As in the paper, against the best arm in hindsight on the rewards after corruption
        # (erratum 14).
        regret=(rows.clean_totals + rows.shifts).max(axis=1) - rows.collected[:, 0],
        pseudo_regret=pseudo,
        clean_regret=rows.clean_totals.max(axis=1) - rows.collected[:, 1],
        corruption=rows.corruption[:, 0],
        pulls=rows.pulls,
        arm_corruption=rows.arm_corruption,
        layer_corruption=rows.layer_corruption,
        seen_corruption=rows.seen[:, 0],
        leaf_regret=leaf,
        constant_regret=constant,
        expert_regret=expert,
        dynamic_regret=dynamic,
        refused=rows.refused[:, 0],
        view=view,
        leapt=None if parts.leap is None else fast_forward.rounds_skipped(parts.leap),
        seconds=seconds,
        audit=found,
    )
