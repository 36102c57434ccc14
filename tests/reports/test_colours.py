"""Colours: fixed for each policy, distinct in each plot."""

import subprocess
import sys

import pytest

from armrace.policies import POLICIES
from armrace.reports.colours import COLOURS, GREY, MOST_IN_COLOUR, choose_styles, style_of


def test_a_style_depends_on_the_name_alone():
    many = list(POLICIES)
    few = choose_styles(["exp3", "ucb1"], ["ucb1", "exp3"])
    all_of_them = choose_styles(many, many)
    assert few["ucb1"] == all_of_them["ucb1"] == style_of("ucb1")
    assert few["exp3"] == all_of_them["exp3"] == style_of("exp3")


def test_a_users_own_policy_has_the_same_style_in_every_process():
    code = "from armrace.reports.colours import style_of; print(style_of('my-own'))"
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


def test_text_in_every_colour_is_dark_enough_to_read():
    """A contrast to white of 3 at least, which WCAG asks of large text and of graphics."""
    for colour in COLOURS:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        luminance = sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        assert 1.05 / (luminance + 0.05) >= 3
