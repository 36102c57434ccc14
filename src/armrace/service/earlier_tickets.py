"""Tickets in logs of earlier versions, which had no ``inner_arm``.

``guarded`` then kept in the phase of a drawn ticket what ``inner_arm`` says now: how many places
after the played arm, in a circle, the arm lies that the base drew or, if the guard chose the arm, a
number that no stage has. Drawn tickets of ``guarded`` now have the phase 0, as those of all other
built-in policies always had: any other phase tells that a ticket is an earlier one.
"""

from __future__ import annotations

import numpy as np

from armrace.kernels.generics import NO_ARM, Ticket

__all__ = ["add_inner_arm", "add_inner_arms"]

_TURN = -(2**40)
"""The phase of a ticket whose arm the guard chose, without its base."""


def add_inner_arm(ticket: Ticket, arms: int) -> Ticket:
    """Return a drawn ticket of ``guarded`` with its inner arm, whichever version logged it.

    Args:
        ticket: the ticket.
        arms: how many arms the policy had.
    """
    if ticket.phase == 0:
        return ticket
    return ticket._replace(phase=0, inner_arm=_inner_arm(ticket.arm, ticket.phase, arms))


def add_inner_arms(records: np.ndarray, arms: int) -> None:
    """Convert tickets in records, in place, as :func:`add_inner_arm` does for one.

    Args:
        records: drawn tickets, as records of the type ``DECISION``.
        arms: how many arms the policy had.
    """
    # Nearly all phases are 0, in earlier logs too: a guard rarely plays another arm than its base
    # drew, and turns, whose phases lie far below 0, are not read into records.
    for place in np.flatnonzero(records["phase"]).tolist():
        arm, phase = int(records["arm"][place]), int(records["phase"][place])
        records["inner_arm"][place] = _inner_arm(arm, phase, arms)
        records["phase"][place] = 0


def _inner_arm(arm: int, phase: int, arms: int) -> int:
    return NO_ARM if phase == _TURN else (arm + phase) % arms
