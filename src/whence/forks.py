"""What stays usable in a forked child though other threads were at work when it was made.

The child has the one thread that called fork. A lock that another thread held would be held for ever, and what that
thread was changing would stay half changed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

T = TypeVar("T")
_locks: WeakSet[Lock] = WeakSet()


class Lock:
    """A lock that is free in a forked child. `abandoned` says there that a thread held it that is no more: what it
    guards may be half changed."""

    __slots__ = ("__weakref__", "_lock", "abandoned")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.abandoned = False
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        if self._lock.locked():  # not in a child that was forked in the block
            self._lock.release()

    def _in_child(self) -> None:
        self.abandoned = self._lock.locked()
        self._lock = threading.Lock()


def _in_child() -> None:
    for lock in list(_locks):
        lock._in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class cached_property(Generic[T]):
    """As functools' from Python 3.12 on: before, it holds a lock of all objects of the class while one computes."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, of: None, owner: type[Any]) -> cached_property[T]: ...
    @overload
    def __get__(self, of: object, owner: type[Any]) -> T: ...
    def __get__(self, of: object, owner: type[Any]) -> cached_property[T] | T:
        if of is None:
            return self
        value = self._compute(of)
        return of.__dict__.setdefault(self._name, value)  # type: ignore[no-any-return]
