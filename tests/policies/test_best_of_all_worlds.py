"""The race under SAPO: shares, mixture, global deletions, and what follows the switch."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import NO_LAYER, Ticket, decide, learn
from armrace.kernels.streams import uniform
from armrace.policies.best_of_all_worlds import BestOfAllWorlds
from armrace.policies.common.switching import AFTER_SWITCH, has_switched
from armrace.policies.races.textbook import TextbookRace
from armrace.policies.sapo import Sapo
from armrace.randomness import Purpose, stream_for
from playing import run, weights_of
from textbook_switching import TextbookSapo, draw

NEVER = -1


def top_ticket(state, arm, probability, share):
    return Ticket(arm, state.race.share.size, share, inner_probability=probability)


@pytest.mark.parametrize(
    ("alpha", "horizon", "layers"), [(0.25, 2**16, 5), (0.3, 10**5, 5), (0.45, 10**6, 9)]
)
def test_shares_are_powers_of_two_and_what_is_left_goes_to_the_first_layer(alpha, horizon, layers):
    policy = BestOfAllWorlds(alpha=alpha)
    assert policy.layer_count(3, horizon) == layers
    state = policy.start(arms=3, horizon=horizon)
    top = horizon**-alpha
    shares = state.race.share * (1 - top)
    assert state.top_share[0] == top
    assert shares[1:].tolist() == pytest.approx([2.0**-layer for layer in range(2, layers)])
    assert shares[0] == pytest.approx(0.5 + 2.0 ** -(layers - 1) - top)
    log_term = math.log(4 * 3 * horizon * layers / 0.05)
    assert state.race.rule.allowance.tolist() == [log_term] * (layers - 1)


def test_without_room_for_a_layer_it_is_sapo_alone():
    table = np.random.default_rng(1).random((3000, 3)) < [0.9, 0.5, 0.1]
    environment = {"name": "table", "rewards": table.astype(float)}
    policy = BestOfAllWorlds(alpha=0.05, scale=0.02)
    assert policy.layer_count(3, 3000) == 1
    ours, alone = (run(p, environment, 3000) for p in (policy, Sapo(scale=0.02)))
    assert ours.ledger.pulls.tolist() == alone.ledger.pulls.tolist()
    assert not alone.policy.active.all()
    assert weights_of(ours.policy).tolist() == pytest.approx(alone.policy.probabilities.tolist())


class Printed:
    """Section 5 of the paper: the race below, SAPO on top."""

    def __init__(self, arms, horizon, alpha, delta, scale):
        layers = math.floor(alpha * math.log2(horizon))
        self.horizon, self.top_share = horizon, horizon**-alpha
        log_term = math.log(4 * arms * horizon * (layers + 1) / delta)
        share = [2.0**-layer for layer in range(1, layers + 1)]
        share[0] += 1 - sum(share) - self.top_share
        share = [each / (1 - self.top_share) for each in share]
        width = [lambda n: math.sqrt(log_term / n) + log_term / n] * layers
        self.race, self.sapo = TextbookRace(arms, share, width), TextbookSapo(arms, horizon, scale)
        self.rounds = 0

    def racing(self):
        """Weights of a round that is not SAPO's."""
        if any(self.race.active(layer) for layer in range(len(self.race.share))):
            return self.race.weights()
        best = min(sorted(self.sapo.active), key=self.sapo.mean)
        return [float(arm == best) for arm in range(self.race.arms)]

    def weights(self):
        top = self.sapo.weights()
        if self.sapo.exp3p:
            return top
        racing = self.racing()
        return [
            (1 - self.top_share) * r + self.top_share * t for r, t in zip(racing, top, strict=True)
        ]

    def play(self, row, stream):
        self.rounds += 1
        is_top = uniform(stream) < self.top_share
        if is_top or self.sapo.exp3p:
            arm = draw(self.sapo.weights(), uniform(stream))
            if is_top:
                self.sapo.update(arm, row[arm], self.top_share * (self.horizon - self.rounds))
                for inactive in self.race.inactive:
                    inactive.update(set(range(self.race.arms)) - self.sapo.active)
            return arm
        if max(self.racing()) == 1 and not self.race.active(len(self.race.share) - 1):
            return self.racing().index(1.0)
        layer = self.race.layer_at(uniform(stream)) if len(self.race.share) > 1 else 0
        return self.race.play(layer, row)


@pytest.mark.parametrize(
    ("alpha", "change", "switches"),
    [(0.1, 30_000, False), (0.1, 12_000, True), (0.15, 30_000, False), (0.15, 12_000, True)],
)
def test_compiled_it_plays_as_printed(alpha, change, switches):
    """Arms are deleted by the race and by SAPO; then rewards turn, and SAPO switches."""
    arms, horizon, scale, seed = 3, 30_000, 0.01, 3
    table = np.random.default_rng(seed).random((horizon, arms)) < [0.9, 0.5, 0.1]
    table[change:] = [False, False, True]
    table = table.astype(float)
    printed = Printed(arms, horizon, alpha, 0.05, scale)
    stream = stream_for(seed, Purpose.LEARNER, 0)
    played = [0] * arms
    for row in table:
        played[printed.play(row, stream)] += 1
    parts = run(
        BestOfAllWorlds(alpha=alpha, scale=scale),
        {"name": "table", "rewards": table},
        horizon,
        seed,
    )
    state = parts.policy
    assert parts.ledger.pulls.tolist() == played
    assert has_switched(state.top) == switches == (printed.sapo.exp3p is not None)
    assert state.race.pulls.tolist() == printed.race.pulls
    assert state.top.counts.pulls.sum() < 0.5 * horizon
    assert weights_of(state).tolist() == pytest.approx(printed.weights(), rel=1e-9)
    assert printed.sapo.phase, "the case is idle if SAPO eliminates nobody"
    assert (state.race.eliminated_by >= 0).any(), "or if nobody is deleted from the race"


def eliminated_by_sapo(arm=1, arms=3):
    """A state in which SAPO alone has eliminated ``arm``."""
    state = BestOfAllWorlds(alpha=0.3, scale=0.01).start(arms=arms, horizon=10**5)
    while state.top.active[arm]:
        for played in range(arms):
            learn(state, top_ticket(state, played, 1 / arms, 0.5), float(played != arm))
    return state


def test_what_sapo_eliminates_is_deleted_from_every_layer():
    state = eliminated_by_sapo()
    assert state.top.active.tolist() == [True, False, True]
    assert not state.race.active[:, 1].any()
    assert state.race.active[:, [0, 2]].all()
    assert set(state.race.eliminated_by[:, 1].tolist()) == {state.race.share.size}


def test_a_race_without_arms_plays_sapos_best_and_learns_nothing():
    state = eliminated_by_sapo()
    slowest = state.race.share.size - 1
    while state.race.active[slowest].sum() > 1:
        for arm, reward in ((0, 1.0), (2, 0.0)):
            learn(state, Ticket(arm, slowest, 0.5), reward)
    assert state.race.active[slowest].tolist() == [True, False, False]
    # Now SAPO finds the race's only arm wanting.
    while not has_switched(state.top) and state.top.active[0]:
        for arm in (0, 2):
            learn(state, top_ticket(state, arm, 0.45, 0.5), float(arm == 2))
    assert not has_switched(state.top)
    assert not state.race.active.any()
    weights = weights_of(state)
    assert weights.sum() == pytest.approx(1)
    assert weights[2] >= 1 - state.top_share[0]
    stream = stream_for(0, Purpose.LEARNER, 0)
    tickets = [decide(state, stream) for _ in range(300)]
    assert {t.arm for t in tickets if t.layer == NO_LAYER} == {2}
    assert {t.layer for t in tickets} == {NO_LAYER, state.race.share.size}


def test_sapo_weights_by_its_own_probability_not_by_the_tickets():
    state = BestOfAllWorlds(alpha=0.3).start(arms=3, horizon=10**5)
    stream = stream_for(0, Purpose.LEARNER, 0)
    held = [decide(state, stream) for _ in range(500)]
    ours = [ticket for ticket in held if ticket.layer == state.race.share.size]
    assert ours
    for ticket in reversed(ours):
        learn(state, ticket, 0.0)
    expected = np.bincount([ticket.arm for ticket in ours], minlength=3) * 3.0
    assert state.top.weighted_losses.tolist() == pytest.approx(expected.tolist())
    assert ours[0].probability != pytest.approx(1 / 3)


def switched():
    state = BestOfAllWorlds(alpha=0.3).start(arms=3, horizon=10**5)
    while state.top.clock[0] < 200:
        for arm in range(3):
            learn(state, top_ticket(state, arm, 1 / 3, 0.5), 0.5)
    learn(state, top_ticket(state, 0, 1e-9, 0.5), 0.0)
    assert has_switched(state.top)
    return state


def test_after_the_switch_every_round_is_exp3ps_but_only_sapos_rounds_teach_it():
    state = switched()
    stream = stream_for(3, Purpose.LEARNER, 0)
    layers = state.race.share.size
    for _ in range(400):
        expected, before = weights_of(state), state.top.fallback.gains.copy()
        ticket = decide(state, stream)
        assert ticket.probability == pytest.approx(expected[ticket.arm])
        assert ticket.phase == AFTER_SWITCH
        learn(state, ticket, 1.0)
        taught = not np.array_equal(before, state.top.fallback.gains)
        assert taught == (ticket.layer == layers)
        assert ticket.layer in (layers, NO_LAYER)
    assert state.top.fallback.gains.max() > 0
    assert state.race.pulls.sum() == 0


def test_late_rewards_of_the_race_and_of_sapo_teach_nothing_after_the_switch():
    state = switched()
    learn(state, Ticket(0, 0, 0.5), 1.0)
    learn(state, top_ticket(state, 0, 1 / 3, 0.5), 1.0)
    assert state.race.pulls.sum() == 0
    assert state.top.fallback.gains.tolist() == [0.0] * 3


def test_exp3p_is_tuned_for_the_rounds_it_can_expect():
    state = switched()
    rounds = 10 ** (5 - 5 * 0.3)
    assert state.top.fallback.rates[2] == pytest.approx(1.05 * math.sqrt(3 * math.log(3) / rounds))
