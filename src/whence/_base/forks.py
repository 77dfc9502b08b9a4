"""Locks and cached properties that stay usable in a forked child.

The child has only the thread that called fork. A lock held by another thread would never be released, and its data may
be inconsistent.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from _weakref import ref

TYPE_CHECKING = False
_locks: dict[int, ref[Lock]] = {}  # every lock there is, by its id


class Lock:
    """A lock that is free in a forked child.

    `abandoned` is True in a child if another thread held the lock at the fork: the data that it guards may be
    inconsistent.
    """

    __slots__ = ("__weakref__", "_lock", "abandoned")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self.abandoned = False
        key = id(self)
        _locks[key] = ref(self, lambda _: _locks.pop(key, None))

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        try:
            self._lock.release()
        except RuntimeError:  # in a child that was forked in the block it is free
            return

    def _in_child(self) -> None:
        self.abandoned = self._lock.locked()
        self._lock = allocate_lock()


def _in_child() -> None:
    for reference in list(_locks.values()):
        lock = reference()
        if lock is not None:
            lock._in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property:
        """functools.cached_property without the lock that it has before Python 3.12."""

        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, of, owner=None):
            return self if of is None else of.__dict__.setdefault(self._name, self._compute(of))
