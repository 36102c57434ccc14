"""How compiled functions pass states to each other: whole, and without reference counts.

Numba takes a tuple apart into its numbers and pointers when it passes it to a function, puts it
together again inside, and counts references to each of its arrays. The state of a race has some 140
of them, so that most of the code that the compiler has to read would only pass states on. LLVM
removes that code in the end. Without it, the first use of a policy takes a sixth less time.

This applies to states and to the tuples of this package only. Such a tuple does not own its arrays:
Python makes it and keeps it alive for as long as compiled code uses it. Entries count references,
since the code that takes their arguments from Python and releases them does; callees do not. So a
callee must not build a state from an array that it allocated itself: nothing would free it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import default_manager

__all__ = ["pass_whole", "without_counting"]

_PACKAGE = __name__.partition(".")[0]
_PASSED_WHOLE: set[type] = set()


def pass_whole(state_class: type) -> None:
    """Let compiled functions pass tuples of a class whole; to be called before any is compiled."""
    _PASSED_WHOLE.add(state_class)


@contextmanager
def without_counting() -> Iterator[None]:
    """Produce code in which references to the arrays of states are not counted.

    Only one thread compiles at a time: Numba holds a lock.
    """
    before, _Whole.is_counted = _Whole.is_counted, False
    try:
        yield
    finally:
        _Whole.is_counted = before


class _Whole:
    """A model whose argument is the tuple itself."""

    is_counted = True

    def get_argument_type(self) -> Any:
        return self.get_value_type()  # type: ignore[attr-defined]

    def as_argument(self, builder: Any, value: Any) -> Any:
        return value

    def from_argument(self, builder: Any, value: Any) -> Any:
        return value

    def traverse(self, builder: Any) -> list[Any]:
        """The members, for counting references to them."""
        return super().traverse(builder) if self.is_counted else []  # type: ignore[misc]


class _WholeTuple(_Whole, models.TupleModel):  # type: ignore[misc]  # Numba is untyped
    """A tuple of members of several types."""


class _WholeUniTuple(_Whole, models.UniTupleModel):  # type: ignore[misc]
    """A tuple whose members are all of one type."""


def _is_passed_whole(kind: Any) -> bool:
    owner = kind.instance_class
    return owner in _PASSED_WHOLE or owner.__module__.partition(".")[0] == _PACKAGE


def _tuple_model(manager: Any, kind: Any) -> Any:
    return (_WholeTuple if _is_passed_whole(kind) else models.TupleModel)(manager, kind)


def _uni_tuple_model(manager: Any, kind: Any) -> Any:
    return (_WholeUniTuple if _is_passed_whole(kind) else models.UniTupleModel)(manager, kind)


default_manager.register(types.NamedTuple, _tuple_model)
default_manager.register(types.NamedUniTuple, _uni_tuple_model)
