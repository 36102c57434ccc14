"""The theme: readable in light and dark, and reversible from a colour to its name."""

import pytest

from armrace.reports.theme import DARK, LIGHT, SERIES, theme_css, with_variables

READABLE = 4.5
"""The contrast that WCAG asks of text."""


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_what_is_behind_it(theme):
    pairs = [
        *((name, "paper") for name in ("ink", "muted", "accent", "alarm", "good", *SERIES)),
        *((name, "panel") for name in ("ink", "muted", "accent")),
        ("alarm", "alarm-paper"),
        ("ink", "alarm-paper"),
        ("deleted-ink", "deleted"),
        *(("heat-ink-low", f"heat-{step}") for step in range(5)),
        *(("heat-ink-high", f"heat-{step}") for step in range(5, 8)),
    ]
    weak = [pair for pair in pairs if contrast(theme[pair[0]], theme[pair[1]]) < READABLE]
    assert weak == []


def test_both_forms_have_the_same_names_and_every_colour_leads_to_one():
    assert set(LIGHT) == set(DARK)
    assert len(set(LIGHT.values())) == len(LIGHT)


def test_every_colour_is_a_variable_of_the_page_and_of_its_figures():
    sheet = theme_css()
    assert all(sheet.count(f"--{name}:") == 3 for name in LIGHT)  # light, chosen dark, system's
    assert "var(--ink, #1f2328)" in with_variables('<text style="fill: #1f2328">')
