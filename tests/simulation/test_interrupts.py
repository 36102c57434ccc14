"""Ctrl-C while something is compiled, while outcomes are awaited, and in a whole run."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import armrace
from armrace.simulation import parallel
from armrace.simulation.executors import postponed_interrupts
from processes import started


@pytest.fixture(autouse=True)
def as_in_the_foreground() -> Iterator[None]:
    """Let an interrupt raise KeyboardInterrupt, also where the tests run in a background job."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


def test_interrupt_waits_until_it_is_asked_for_and_is_as_usual_afterwards() -> None:
    before, finished = signal.getsignal(signal.SIGINT), False
    with pytest.raises(KeyboardInterrupt), postponed_interrupts() as check:  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        finished = True
        check()
    assert finished
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


SCRIPT = """
import json, signal, sys
import armrace

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if the tests are in a background

setting = dict(policy="ucb1", environment=[0.5, 0.4], workers=2, seed=2)
armrace.simulate(**setting, horizon=10, replications=1)
print("running", flush=True)
try:
    result = armrace.simulate(**setting, horizon={horizon}, replications={replications})
except KeyboardInterrupt:
    print(json.dumps("nothing finished"))
else:
    alone = armrace.simulate(
        **setting, horizon={horizon}, replications=int(result.final["replication"].max()) + 1
    )
    same = alone.rows.join(result.rows, on="replication", how="semi").equals(result.rows)
    print(json.dumps([result.interrupted, result.replications, result.final.height, same]))
"""


@pytest.mark.parametrize(
    ("horizon", "replications", "after"),
    [(400_000, 100_000, 1.5), (100, 3_000_000, 1.0), (10**13, 50, 0.5)],
    ids=["some finished", "very many", "none finished, more than workers"],
)
def test_a_run_that_is_interrupted_keeps_what_is_finished(horizon, replications, after) -> None:
    """Each would take minutes or years if it were not interrupted."""
    script = SCRIPT.replace("{horizon}", str(horizon)).replace("{replications}", str(replications))
    with started(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "running\n"
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        answer, errors = process.communicate(timeout=60)
    if horizon == 10**13:
        assert json.loads(answer or json.dumps(errors)) == "nothing finished"
        return
    interrupted, finished, height, same = json.loads(answer or json.dumps(errors))
    assert interrupted
    assert 1 <= finished < replications
    assert height == finished
    assert same
