"""Futures that mirror other futures and translate their errors."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from armrace.errors import InvalidParameter


def cannot_load(place: str, error: ImportError) -> InvalidParameter:
    """Return the refusal of workers that lack what a task imports."""
    return InvalidParameter(
        f"the workers at {place} cannot load what they are to run ({error}); install the same "
        "version of armrace there."
    )


def forwarded(
    inner: Future[Any],
    translate: Callable[[BaseException], BaseException],
    cancel: Callable[[], Any],
) -> Future[Any]:
    """Return a future with the outcome of ``inner``, with errors translated.

    Cancelling it calls ``cancel``.
    """
    outer: Future[Any] = Future()

    def hand_on(done: Future[Any]) -> None:
        # A cancelled future takes no result; its task may have ended anyway. From here on it cannot
        # be cancelled: to ask first and answer later would leave time for another thread to do so.
        if not outer.set_running_or_notify_cancel():
            return
        try:
            outer.set_result(done.result())
        except (CancelledError, Exception) as error:
            outer.set_exception(translate(error))

    def hand_back(done: Future[Any]) -> None:
        if done.cancelled():
            cancel()

    inner.add_done_callback(hand_on)
    outer.add_done_callback(hand_back)
    return outer
