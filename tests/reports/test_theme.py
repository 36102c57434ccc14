"""The theme: readable in light and dark, with a colour for each policy."""

from itertools import combinations

import numpy as np
import pytest

from armrace.policies import POLICIES
from armrace.reports.theme import (
    DARK,
    GREY,
    LIGHT,
    MOST_IN_COLOUR,
    SERIES,
    choose_styles,
    style_of,
    theme_css,
)
from processes import python

READABLE = 4.5
"""The contrast that WCAG asks of text."""
DISTINCT = 12.0
"""The least difference of two lines with the same dashes, in units of CIEDE2000."""

DICHROMACIES = {
    "protan": (
        [[0.14980, 1.19548, -0.34528], [0.10764, 0.84864, 0.04372], [0.00384, -0.00540, 1.00156]],
        [[0.14570, 1.16172, -0.30742], [0.10816, 0.85291, 0.03892], [0.00386, -0.00524, 1.00139]],
        [0.00048, 0.00393, -0.00441],
    ),
    "deutan": (
        [[0.36477, 0.86381, -0.22858], [0.26294, 0.64245, 0.09462], [-0.02006, 0.02728, 0.99278]],
        [[0.37298, 0.88166, -0.25464], [0.25954, 0.63506, 0.10540], [-0.01980, 0.02784, 0.99196]],
        [-0.00281, -0.00611, 0.00892],
    ),
    "tritan": (
        [[1.01277, 0.13548, -0.14826], [-0.01243, 0.86812, 0.14431], [0.07589, 0.80500, 0.11911]],
        [[0.93678, 0.18979, -0.12657], [0.06154, 0.81526, 0.12320], [-0.37562, 1.12767, 0.24796]],
        [0.03901, -0.02788, -0.01113],
    ),
}
"""Brettel, Vienot and Mollon (1997) for linear sRGB: a projection for each side of a plane, and the
normal of the plane."""
TO_XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750],
          [0.0193339, 0.1191920, 0.9503041]]  # fmt: skip
WHITE = [0.95047, 1.0, 1.08883]


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(np.dot((0.2126, 0.7152, 0.0722), linear(colour)))


def seen_as(colour: str, sight: str) -> np.ndarray:
    """The colour as someone sees it, in CIELAB."""
    light = linear(colour)
    if sight in DICHROMACIES:
        one, other, normal = DICHROMACIES[sight]
        light = np.clip(np.array(one if np.dot(normal, light) >= 0 else other) @ light, 0.0, 1.0)
    x = np.array(TO_XYZ) @ light / WHITE
    f = np.where(x > 216 / 24389, np.cbrt(x), (24389 / 27 * x + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """CIEDE2000, after Sharma, Wu and Dalal (2005)."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    c = ((np.hypot(a1, b1) + np.hypot(a2, b2)) / 2) ** 7
    g = 1.5 - 0.5 * np.sqrt(c / (c + 25.0**7))
    c1, c2 = np.hypot(g * a1, b1), np.hypot(g * a2, b2)
    h1, h2 = (np.degrees(np.arctan2(b, g * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    chroma = (c1 + c2) / 2
    h = h1 + h2 if c1 * c2 == 0 else (h1 + turn / 2) % 360
    lift = ((l1 + l2) / 2 - 50) ** 2
    weights = zip((-0.17, 0.24, 0.32, -0.20), (1, 2, 3, 4), (-30, 0, 6, -63), strict=True)
    t = 1 + sum(w * np.cos(np.radians(n * h + at)) for w, n, at in weights)
    lightness = (l2 - l1) / (1 + 0.015 * lift / np.sqrt(20 + lift))
    saturation = (c2 - c1) / (1 + 0.045 * chroma)
    hue = 2 * np.sqrt(c1 * c2) * np.sin(np.radians(turn / 2)) / (1 + 0.015 * chroma * t)
    bend = -2 * np.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    bend *= np.sin(np.radians(60 * np.exp(-(((h - 275) / 25) ** 2))))
    return float(np.sqrt(lightness**2 + saturation**2 + hue**2 + bend * saturation * hue))


def test_the_difference_of_colours_is_that_of_the_published_examples():
    for one, other, published in (
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, 2.5, 0.0), (61.0, -5.0, 29.0), 22.8977),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ):
        assert difference(np.array(one), np.array(other)) == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize("sight", DICHROMACIES)
def test_colour_blind_readers_see_greys_as_they_are(sight):
    for grey in ("#000000", "#808080", "#ffffff"):
        assert difference(seen_as(grey, sight), seen_as(grey, "usual")) < 0.1


def test_red_and_green_are_confused_and_blue_and_yellow_are_not():
    one, other = (seen_as(colour, "protan") for colour in ("#c24f00", "#806300"))
    assert difference(one, other) < 1.0
    assert difference(seen_as("#0000ff", "protan"), seen_as("#ffff00", "protan")) > 50.0


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("sight", ["usual", *DICHROMACIES])
def test_lines_are_told_apart_by_every_reader(theme, sight):
    seen = {name: seen_as(theme[name], sight) for name in SERIES}
    alike = [
        pair
        for pair in combinations(SERIES, 2)
        if difference(seen[pair[0]], seen[pair[1]]) < DISTINCT
    ]
    assert alike == []


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_what_is_behind_it(theme):
    pairs = [
        *((name, "paper") for name in ("ink", "muted", "accent", "alarm", "good", *SERIES)),
        *((name, "panel") for name in ("ink", "muted", "accent", *SERIES)),
        *((name, "shade") for name in ("ink", "muted")),
        ("held", "paper"),
        ("ink", "accent-paper"),
        ("good", "good-paper"),
        ("ink", "good-paper"),
        ("alarm", "alarm-paper"),
        ("ink", "alarm-paper"),
        ("deleted-ink", "deleted"),
        *(("heat-ink-low", f"heat-{step}") for step in range(5)),
        *(("heat-ink-high", f"heat-{step}") for step in range(5, 8)),
    ]
    weak = [pair for pair in pairs if contrast(theme[pair[0]], theme[pair[1]]) < READABLE]
    assert weak == []


def test_both_forms_have_the_same_names():
    assert set(LIGHT) == set(DARK)


def test_every_colour_is_a_variable_of_the_page():
    sheet = theme_css()
    assert all(sheet.count(f"--{name}:") == 3 for name in LIGHT)  # light, chosen dark, system's


def test_a_style_depends_on_the_name_alone():
    many = list(POLICIES)
    few = choose_styles(["tsallis-inf", "ucb1"], ["ucb1", "tsallis-inf"])
    all_of_them = choose_styles(many, many)
    assert few["ucb1"] == all_of_them["ucb1"] == style_of("ucb1")
    assert few["tsallis-inf"] == all_of_them["tsallis-inf"] == style_of("tsallis-inf")


def test_a_users_own_policy_has_the_same_style_in_every_process():
    code = "from armrace.reports.theme import style_of; print(style_of('my-own'))"
    found = {python("-c", code, check=True).stdout for _ in range(2)}
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
