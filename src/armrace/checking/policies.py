"""The contract of a policy, as checks that users can run on their own policies.

Each check takes a policy and raises :class:`ContractBroken` with a sentence if the policy does
not keep that part of the contract. ``check_policy`` runs them all: those of what it announces and
draws (:mod:`armrace.checking.policy_choices`), of how it learns live
(:mod:`armrace.checking.policy_learning`) and from logs (:mod:`armrace.checking.policy_logs`), and,
here, of its specification and of its compiled code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from armrace.checking.contract import (
    ContractBroken,
    compare_with_reference,
    require_round_trip,
)
from armrace.checking.policy_choices import (
    choosing_leaves_no_trace,
    distribution_is_one,
    distribution_only_looks,
    frequencies_match,
    indices_stay_in_bounds,
    restricted_choices_are_as_announced,
    tickets_carry_their_probability,
    weights_are_declared,
)
from armrace.checking.policy_learning import (
    batches_equal_single_calls,
    decisions_of_others_leave_no_trace,
    feedback_may_come_anyhow,
    learner_equals_simulator,
    new_arms_are_unknown,
    paused_arms_are_not_missed,
    restoring_changes_nothing,
)
from armrace.checking.policy_logs import (
    folded_log_is_the_state,
    foreign_decisions_are_taken,
    retracted_rewards_leave_no_trace,
    voided_decisions_leave_no_trace,
)
from armrace.checking.policy_stage import ARMS, HORIZON, MEANS, expect_sound
from armrace.kernels.dispatch import implementations
from armrace.kernels.engine import make_checked_loop
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import call_entry
from armrace.policies import Policy
from armrace.randomness import Purpose, stream_for
from armrace.simulation.experiment import make_experiment


def check_policy(policy: Policy) -> None:
    """Run every check of the contract.

    Args:
        policy: the policy to check.

    Raises:
        ContractBroken: the policy violates a part of the contract; the message says which.
    """
    for check in POLICY_CHECKS:
        check(policy)


def specification_survives_json(policy: Policy) -> None:
    """Written as JSON and read again, the specification is the same."""
    require_round_trip(policy)


def compiled_agrees(policy: Policy) -> None:
    """The compiled engine does exactly what the interpreted reference does."""
    compare_with_reference(
        make_experiment(
            policy=policy,
            environment=MEANS,
            adversary="zero-best-when-likely",
            budget=25,
            horizon=HORIZON,
            replications=1,
            seed=3,
        )
    )


def extremes_leave_it_sound(policy: Policy) -> None:
    """Check that extreme rewards (0, 1, alternating) leave a finite state and valid weights.

    The loop is compiled with bounds checks: a state that such rewards drive out of an array would
    overwrite memory otherwise.
    """
    horizon = 20_000
    streaks = (
        np.zeros((horizon, ARMS)),
        np.ones((horizon, ARMS)),
        np.tile(np.eye(ARMS), (horizon // ARMS + 1, 1))[:horizon],
    )
    for table in streaks:
        state = policy.start(ARMS, horizon)
        pulls = np.zeros(ARMS, dtype=np.int64)
        layer_pulls = np.zeros(policy.layer_count(ARMS, horizon), dtype=np.int64)
        play = make_checked_loop(fingerprint(implementations(state)))
        try:
            stream = stream_for(0, Purpose.LEARNER, 0)
            call_entry(play, state, stream, table, pulls, layer_pulls)
        except IndexError as error:
            breach = f"left the bounds of an array in round {pulls.sum()} of extreme rewards"
            raise ContractBroken(f"{policy.tag()} {breach}.") from error
        expect_sound(policy, state, " after extreme rewards")


POLICY_CHECKS: tuple[Callable[[Policy], None], ...] = (
    specification_survives_json,
    indices_stay_in_bounds,
    distribution_is_one,
    distribution_only_looks,
    tickets_carry_their_probability,
    weights_are_declared,
    frequencies_match,
    compiled_agrees,
    learner_equals_simulator,
    restoring_changes_nothing,
    extremes_leave_it_sound,
    feedback_may_come_anyhow,
    folded_log_is_the_state,
    retracted_rewards_leave_no_trace,
    voided_decisions_leave_no_trace,
    foreign_decisions_are_taken,
    choosing_leaves_no_trace,
    restricted_choices_are_as_announced,
    batches_equal_single_calls,
    new_arms_are_unknown,
    paused_arms_are_not_missed,
    decisions_of_others_leave_no_trace,
)
