"""Colours: fixed for each policy, distinct in each plot."""

import subprocess
import sys

import pytest

from armrace.policies import POLICIES
from armrace.reports.theme import GREY, MOST_IN_COLOUR, choose_styles, style_of


def test_a_style_depends_on_the_name_alone():
    many = list(POLICIES)
    few = choose_styles(["tsallis-inf", "ucb1"], ["ucb1", "tsallis-inf"])
    all_of_them = choose_styles(many, many)
    assert few["ucb1"] == all_of_them["ucb1"] == style_of("ucb1")
    assert few["tsallis-inf"] == all_of_them["tsallis-inf"] == style_of("tsallis-inf")


def test_a_users_own_policy_has_the_same_style_in_every_process():
    code = "from armrace.reports.theme import style_of; print(style_of('my-own'))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert found == {f"{style_of('my-own')}\n"}


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_no_two_lines_of_a_plot_look_the_same(first):
    labels = list(POLICIES)[first : first + MOST_IN_COLOUR]
    styles = choose_styles(labels, labels)
    assert GREY not in styles.values()
    assert len(set(styles.values())) == len(labels)


def test_every_policy_of_the_library_has_a_style_of_its_own():
    styles = [style_of(name) for name in POLICIES]
    assert len(set(styles)) == len(styles)
