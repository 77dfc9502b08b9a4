"""Open binaries of a symbolizer: a bounded number of files, and of bytes of tables.

The least recently used binary is evicted. If it is in use then, its last user closes it.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import WhenceError
from whence._base.files import stamp
from whence._base.forks import Lock
from whence._base.reasons import Reason
from whence.procmap.address_mapper import AddressMapper
from whence.procmap.mapping import Kind, Mapping

if TYPE_CHECKING:
    from whence.binary import Binary


class PooledBinary:
    """An open binary, and what places addresses in it (None: nothing). `release` closes it."""

    __slots__ = ("_users", "binary", "evicted", "mapper", "release")

    def __init__(self, binary: Binary, mapper: AddressMapper | None, close: Callable[[], None] | None = None) -> None:
        self.binary = binary
        self.mapper = mapper
        self.release = close or binary.close
        self.evicted = False
        self._users = 0

    def __repr__(self) -> str:
        return f"<PooledBinary {self.binary!r}, {self._users} users>"

    def enter(self) -> None:
        self._users += 1

    def fault(self) -> str:
        """Return why the answers of the binary are invalid: a file of it was truncated or overwritten; else ""."""
        try:
            self.binary.check()
        except WhenceError as error:
            return str(error)
        return ""

    def leave(self) -> bool:
        """Return True if the binary must be closed now."""
        self._users -= 1
        return self.evicted and not self._users

    def evict(self) -> bool:
        self.evicted = True
        return not self._users


class OpenError(Exception):
    """A binary can't answer: the reason, and an error's words."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(reason.sentence)
        self.reason, self.detail = reason, detail

    def __reduce__(self) -> tuple[object, ...]:
        return OpenError, (self.reason, self.detail)


class BinaryPool(Closing):
    """Open binaries by key, least recently used first. Safe for use from many threads."""

    def __init__(self, max_files: int, max_bytes: int) -> None:
        self.max_files = max_files
        self.max_bytes = max_bytes
        self._held: OrderedDict[object, PooledBinary] = OrderedDict()
        self._opening: dict[object, Lock] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<BinaryPool: {len(self)} of at most {self.max_files} files open>"

    def __len__(self) -> int:
        return len(self._held)

    @property
    def memory(self) -> int:
        with self._lock:
            return sum(held.binary.memory for held in self._held.values())

    @contextmanager
    def use(self, key: object, opener: Callable[[], PooledBinary]) -> Iterator[PooledBinary]:
        """Return the binary of a key, opened if necessary; it stays open at least until the block ends.

        Exceptions of the opener are raised, and not cached.
        """
        held = self._enter(key) or self._open(key, opener)
        try:
            yield held
        finally:
            with self._lock:
                close = [held] if held.leave() else []
                close += self._too_many()
            for old in close:
                _close(old)

    def _open(self, key: object, opener: Callable[[], PooledBinary]) -> PooledBinary:
        """Open a key's binary and enter it. Other threads with the same key wait; other keys don't."""
        with self._lock:
            opening = self._opening.setdefault(key, Lock())
        with opening:
            held = self._enter(key)
            if held is not None:
                return held
            try:
                held = opener()
            finally:
                with self._lock:
                    self._opening.pop(key, None)
            held.enter()
            with self._lock:  # who waited for a lock that was taken away meanwhile may have opened it, too
                other = self._held.pop(key, None)
                self._held[key] = held
                unused = other is not None and other.evict()
        if other is not None and unused:
            _close(other)
        return held

    def _enter(self, key: object) -> PooledBinary | None:
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                held.enter()
            return held

    def drop(self, held: PooledBinary) -> None:
        """Never use this binary again; its last user closes it. Called from a block that uses it."""
        with self._lock:
            held.evict()
            for key in [key for key, one in self._held.items() if one is held]:
                del self._held[key]

    def _too_many(self) -> list[PooledBinary]:
        """Evict binaries over the limits, but not the most recent one; return those that are not in use."""
        memory = sum(held.binary.memory for held in self._held.values())
        unused = []
        while len(self._held) > 1 and (len(self._held) > self.max_files or memory > self.max_bytes):
            _, old = self._held.popitem(last=False)
            memory -= old.binary.memory
            if old.evict():
                unused.append(old)
        return unused

    def close(self) -> None:
        """Close all binaries; those in use are closed by their last user."""
        with self._lock:
            unused = [held for held in self._held.values() if held.evict()]
            self._held.clear()
        for held in unused:
            _close(held)


def _close(held: PooledBinary) -> None:
    with suppress(OSError, WhenceError, BufferError):
        held.release()


def key_of(mapping: Mapping) -> object:
    """Return the identity of a mapped file. Raises OSError if it has no build-id and cannot be opened."""
    if mapping.kind is Kind.VDSO:
        return "vdso", mapping.size
    if mapping.build_id:
        return mapping.device, mapping.inode, mapping.build_id
    descriptor = mapping.open()
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return *stamp(status), status.st_ctime_ns
