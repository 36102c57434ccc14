"""Ctrl-C while something is compiled."""

import signal

import pytest

from armrace.simulation.interrupts import postponed_interrupts


def test_interrupt_waits_until_it_is_asked_for() -> None:
    finished = False
    with pytest.raises(KeyboardInterrupt), postponed_interrupts() as check:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        finished = True
        check()
    assert finished


def test_interrupts_are_as_usual_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with postponed_interrupts() as check:
        check()
    assert signal.getsignal(signal.SIGINT) is before
