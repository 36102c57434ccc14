"""Ctrl-C while something is compiled, or while outcomes are awaited."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import armrace
from armrace.simulation import parallel
from armrace.simulation.interrupts import postponed_interrupts


@pytest.fixture(autouse=True)
def as_in_the_foreground() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt, also where the tests run in a background job."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


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


def test_ignored_interrupts_stay_ignored() -> None:
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with postponed_interrupts() as deliver:
            signal.raise_signal(signal.SIGINT)
            deliver()
    finally:
        signal.signal(signal.SIGINT, usual)


def test_a_handler_of_the_users_gets_the_postponed_interrupt() -> None:
    handled: list[int] = []
    usual = signal.signal(signal.SIGINT, lambda number, _: handled.append(number))
    try:
        with postponed_interrupts() as deliver:
            signal.raise_signal(signal.SIGINT)
            assert not handled
            deliver()
            assert handled == [signal.SIGINT]
            signal.raise_signal(signal.SIGINT)
        assert handled == [signal.SIGINT] * 2
    finally:
        signal.signal(signal.SIGINT, usual)


def test_an_interrupt_leaves_no_lock_of_a_future_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # The executor's threads need these locks: one that stays taken stops them, and the program.
    usual, seen = parallel.wait, []

    def wait(futures, **how):
        future = next(iter(futures))
        seen.append(future)
        future._condition.acquire()
        signal.raise_signal(signal.SIGINT)
        future._condition.release()
        return usual(futures, **how)

    monkeypatch.setattr(parallel, "wait", wait)
    with ThreadPoolExecutor(1) as executor:
        result = armrace.simulate(
            "ucb1", [0.6, 0.4], horizon=100_000, replications=2_000, executor=executor
        )
        assert result.interrupted
    assert seen
    for future in seen:
        assert future._condition.acquire(timeout=1.0)
        future._condition.release()
