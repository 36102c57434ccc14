"""Plays that a guard must not make are counted, from plays and deletions alone."""

from armrace.policies import Guarded
from armrace.verification.guarantees import guard_rule
from armrace.verification.mechanics import ArmDeletion, wrong_plays

LABELLED = [(0, 1), (0, 0), (0, 1), (0, 1)]
"""With a lead of 1: the base plays arm 1, arm 0 has its turn, then arm 1 twice likewise."""


def test_sound_plays_are_not_counted():
    assert wrong_plays([*LABELLED, (-1, 1), (-1, 0)], set(), arms=2, lead=1) == (0, 0)


def test_a_turn_of_the_wrong_arm_is_counted():
    assert wrong_plays([*LABELLED, (0, 1), (0, 1)], set(), arms=2, lead=1) == (0, 1)


def test_a_deleted_arm_may_be_played_up_to_its_deletion_and_not_later():
    gone = {ArmDeletion(layer=0, arm=1, at=5, by=0)}
    assert wrong_plays([*LABELLED, (-1, 1), (-1, 0)], gone, arms=2, lead=1) == (0, 0)
    assert wrong_plays([*LABELLED, (-1, 0), (-1, 1)], gone, arms=2, lead=1) == (1, 0)


def test_when_a_layer_is_empty_the_next_one_says_what_is_allowed():
    gone = {ArmDeletion(0, 0, 4, 0), ArmDeletion(0, 1, 4, 1), ArmDeletion(1, 1, 4, 1)}
    plays = [*LABELLED, (1, 0), (-1, 0), (-1, 1)]
    assert wrong_plays(plays, gone, arms=2, lead=1) == (1, 0)


def test_the_rule_of_a_guard_labels_few_rounds():
    rule = guard_rule(Guarded(share=3, delta=0.1), 2, 1000)
    assert rule.share.sum() == 1 / 8
    assert rule.used_share[0] == 1 / 8
    assert (rule.tolerated * rule.used_share <= 1 + 1e-12).all()
    assert rule.lead == 1
