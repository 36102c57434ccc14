"""Formatting of numbers for tables, pages, sentences and the terminal.

Most functions take a number and return text: :func:`figure` for a measured quantity,
:func:`count` for a parameter or a count, :func:`short` for a number on an axis.
:func:`number_repeats` makes names distinct.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence


def figure(number: float) -> str:
    """Write a measured number with three significant digits, or without decimals from 100 on.

    >>> figure(98153.7), figure(-12.34), figure(0.5), figure(-0.0)
    ('98,154', '-12.3', '0.5', '0')
    """
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def span(low: float, high: float) -> str:
    """Write an interval between two measured numbers.

    >>> span(0.51234, 1234.5)
    '0.512 to 1,234'
    """
    return f"{figure(low)} to {figure(high)}"


def count(number: float) -> str:
    """Write a count, a budget or a length: whole numbers in full, others with six digits.

    >>> count(4_000_000), count(0.25), count(1234.5678)
    ('4,000,000', '0.25', '1,234.57')
    """
    return f"{int(number):,}" if number == int(number) else f"{number:,.6g}"


def number_of(number: int, noun: str) -> str:
    """Return a number of things in words.

    >>> number_of(1, "reward"), number_of(16_479, "reward")
    ('1 reward', '16,479 rewards')
    """
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def short(number: float) -> str:
    """Write a number in as few characters as possible, for axes and narrow cells.

    >>> short(950), short(12_345), short(3_400_000), short(999_999), short(10**15)
    ('950', '12.3k', '3.4M', '1M', '1000T')
    """
    shown, letter = number, ""
    for size, name in ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")):
        # Compared after rounding: 999,999 is 1M, not 1000k.
        if math.isfinite(number) and abs(shown) >= 1000:
            shown, letter = float(f"{number / size:.3g}"), name
    return f"{shown:g}{letter}"


def percent(share: float) -> str:
    """Write a share as a percentage with three significant digits.

    >>> percent(0.00012), percent(0.832), percent(12.34)
    ('0.012%', '83.2%', '1,234%')
    """
    return f"{100 * share:,.0f}%" if share >= 1 else f"{100 * share:.3g}%"


def listed(names: Sequence[str]) -> str:
    """Write names in a sentence.

    >>> listed(["ucb1"]), listed(["ucb1", "exp3", "moss"])
    ('ucb1', 'ucb1, exp3 and moss')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def number_repeats(names: Iterable[str]) -> list[str]:
    """Number a name from its second occurrence on.

    >>> number_repeats(["ucb1", "exp3", "ucb1"])
    ['ucb1', 'exp3', 'ucb1 #2']
    """
    counts: Counter[str] = Counter()
    numbered = []
    for name in names:
        counts[name] += 1
        numbered.append(f"{name} #{counts[name]}" if counts[name] > 1 else name)
    return numbered


def round_down(number: float) -> str:
    """Write a positive lower bound with three digits, rounded so that it remains a lower bound.

    >>> round_down(264.68), round_down(1999.7), round_down(0.01239)
    ('264', '1,999', '0.0123')
    """
    if number >= 100:
        return f"{math.floor(number):,}"
    scale = 10.0 ** (2 - math.floor(math.log10(number)))
    return f"{math.floor(number * scale) / scale:g}"


def clicks(number: float) -> str:
    """Write a number of lost rewards.

    >>> clicks(1234.5), clicks(6.81)
    ('1,234 clicks', '6.81 clicks')
    """
    return f"{figure(number)} clicks"


def days_in_figures(days: float) -> str:
    """Write a number of days for a table.

    >>> [days_in_figures(days) for days in (0.0003, 0.123, 4.56, 1234.5)]
    ['<0.01', '0.12', '4.6', '1,234']
    """
    if days < 0.01:
        return "<0.01"
    return f"{days:.2g}" if days < 10 else f"{days:,.0f}"


def days_in_words(days: float) -> str:
    """Write a number of days for a sentence.

    >>> days_in_words(0.001), days_in_words(1), days_in_words(2.5)
    ('less than 0.01 days', '1 day', '2.5 days')
    """
    shown = days_in_figures(days).replace("<", "less than ")
    return "1 day" if shown == "1" else f"{shown} days"


def duration(seconds: float) -> str:
    """A length of time in one unit.

    >>> [duration(s) for s in (0.5, 8, 131, 5000, 200_000)]
    ['0.5 s', '8 s', '2.2 min', '83 min', '2.3 d']
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def runs_in_words(right: int, runs: int) -> str:
    """Say how many of the runs, for a sentence that gives a lower bound.

    >>> runs_in_words(1, 1), runs_in_words(20, 20), runs_in_words(19, 20)
    ('the only run', 'all 20 runs', 'at least 19 of 20 runs')
    """
    if right < runs:
        return f"at least {right} of {runs} runs"
    return f"all {runs} runs" if runs > 1 else "the only run"
