"""Constants of policies that have the same bits on every machine."""

from __future__ import annotations

from decimal import Context, Decimal

_DIGITS = Context(prec=40)


def rounded_log(number: float) -> float:
    """The natural logarithm, correctly rounded.

    The logarithm of a machine's own library may differ in its last bit, and a log of decisions
    that was written on one machine could not be replayed to the bit on another.

    >>> rounded_log(100_000).hex()
    '0x1.7069e2aa2aa5bp+3'
    """
    return float(_DIGITS.ln(Decimal(number)))
