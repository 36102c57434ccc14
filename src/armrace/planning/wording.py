"""How a plan writes its figures in sentences."""

from __future__ import annotations

__all__ = ["clicks", "days_in_figures", "days_in_words", "percent", "round_count", "runs_in_words"]


def round_count(number: float) -> str:
    """A count or a budget.

    >>> round_count(12_345.6), round_count(2.8e-6)
    ('12,346', '2.8e-06')
    """
    return f"{number:,.0f}" if number >= 10 else f"{number:.3g}"


def clicks(number: float) -> str:
    """Lost rewards.

    >>> clicks(1234.5), clicks(6.81)
    ('1,234 clicks', '6.8 clicks')
    """
    return f"{number:,.0f} clicks" if number >= 10 else f"{number:.2g} clicks"


def days_in_figures(days: float) -> str:
    """A number of days in little room.

    >>> [days_in_figures(days) for days in (0.0003, 0.123, 4.56, 1234.5)]
    ['<0.01', '0.12', '4.6', '1,234']
    """
    if days < 0.01:
        return "<0.01"
    return f"{days:.2g}" if days < 10 else f"{days:,.0f}"


def days_in_words(days: float) -> str:
    """A number of days in a sentence.

    >>> days_in_words(0.001), days_in_words(1), days_in_words(2.5)
    ('less than 0.01 days', '1 day', '2.5 days')
    """
    shown = days_in_figures(days).replace("<", "less than ")
    return "1 day" if shown == "1" else f"{shown} days"


def percent(share: float) -> str:
    """A share.

    >>> percent(0.00012), percent(0.832), percent(12.34)
    ('0.012%', '83.2%', '1,234%')
    """
    return f"{100 * share:,.0f}%" if share >= 1 else f"{100 * share:.3g}%"


def runs_in_words(right: int, runs: int) -> str:
    """How many of the runs.

    >>> runs_in_words(1, 1), runs_in_words(20, 20), runs_in_words(19, 20)
    ('the only run', 'all 20 runs', 'at least 19 of 20 runs')
    """
    if right < runs:
        return f"at least {right} of {runs} runs"
    return f"all {runs} runs" if runs > 1 else "the only run"
