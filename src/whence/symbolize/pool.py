"""Open binaries of a symbolizer: a bounded number of files, and of bytes of tables.

The least recently used binaries are evicted when a use ends and a limit is exceeded; their last user closes them. This
is not an Lru (whence._base.lru), as the bytes of a binary grow while it is cached and a binary in use must stay open.
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
    """An open binary, and the mapper from runtime addresses to its vaddrs, if any. `release` closes it."""

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
        """Return how a file of the binary was changed, which makes its answers invalid; "" if none was."""
        try:
            self.binary.check()
        except WhenceError as error:
            return str(error)
        return ""

    def exit(self) -> bool:
        """Return True if the binary must be closed now."""
        self._users -= 1
        return self.evicted and not self._users

    def evict(self) -> bool:
        self.evicted = True
        return not self._users


class OpenError(Exception):
    """A binary can't be opened: the reason, and the message of the error."""

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
        self._binaries: OrderedDict[object, PooledBinary] = OrderedDict()
        self._opening: dict[object, Lock] = {}
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<BinaryPool: {len(self)} of at most {self.max_files} files open>"

    def __len__(self) -> int:
        return len(self._binaries)

    @property
    def memory(self) -> int:
        with self._lock:
            return sum(pooled.binary.memory for pooled in self._binaries.values())

    @contextmanager
    def use(self, key: object, opener: Callable[[], PooledBinary]) -> Iterator[PooledBinary]:
        """Return the binary of a key, opened if necessary; it stays open at least until the block ends.

        Exceptions of the opener are raised, and not cached.
        """
        pooled = self._enter(key) or self._open(key, opener)
        try:
            yield pooled
        finally:
            with self._lock:
                close = [pooled] if pooled.exit() else []
                close += self._evict()
            for old in close:
                _close(old)

    def _open(self, key: object, opener: Callable[[], PooledBinary]) -> PooledBinary:
        """Open a key's binary and enter it. Other threads with the same key wait; other keys don't."""
        with self._lock:
            opening = self._opening.setdefault(key, Lock())
        with opening:
            pooled = self._enter(key)
            if pooled is not None:
                return pooled
            try:
                pooled = opener()
            finally:
                with self._lock:
                    self._opening.pop(key, None)
            pooled.enter()
            with self._lock:  # another thread may have opened the same key meanwhile
                other = self._binaries.pop(key, None)
                self._binaries[key] = pooled
                unused = other is not None and other.evict()
        if other is not None and unused:
            _close(other)
        return pooled

    def _enter(self, key: object) -> PooledBinary | None:
        with self._lock:
            pooled = self._binaries.get(key)
            if pooled is not None:
                self._binaries.move_to_end(key)
                pooled.enter()
            return pooled

    def drop(self, pooled: PooledBinary) -> None:
        """Never use this binary again; its last user closes it. Called from a block that uses it."""
        with self._lock:
            pooled.evict()
            for key in [key for key, value in self._binaries.items() if value is pooled]:
                del self._binaries[key]

    def _evict(self) -> list[PooledBinary]:
        """Evict binaries over the limits, except the most recent one; return evicted binaries that are not in use."""
        memory = sum(pooled.binary.memory for pooled in self._binaries.values())
        unused = []
        while len(self._binaries) > 1 and (len(self._binaries) > self.max_files or memory > self.max_bytes):
            _, old = self._binaries.popitem(last=False)
            memory -= old.binary.memory
            if old.evict():
                unused.append(old)
        return unused

    def close(self) -> None:
        """Close all binaries; those in use are closed by their last user."""
        with self._lock:
            unused = [pooled for pooled in self._binaries.values() if pooled.evict()]
            self._binaries.clear()
        for pooled in unused:
            _close(pooled)


def _close(pooled: PooledBinary) -> None:
    with suppress(OSError, WhenceError, BufferError):
        pooled.release()


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
