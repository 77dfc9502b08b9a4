"""A bounded cache that evicts the least recently used entry."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    D = TypeVar("D")


def ignore(value: object) -> None:
    pass


class Lru(dict["K", "V"]):
    """A dictionary of at most `most` entries, in order of use: reading or setting a key makes it the last.

    `evicted` is called with each evicted value. Not thread-safe.
    """

    def __init__(self, most: int, evicted: Callable[[V], object] = ignore) -> None:
        super().__init__()
        self.most, self._evicted = most, evicted

    def __getitem__(self, key: K) -> V:
        value = self.pop(key)
        super().__setitem__(key, value)
        return value

    def get(self, key: K, default: D | None = None) -> V | D | None:  # type: ignore[override]
        return self[key] if key in self else default  # noqa: SIM401 (it calls this)

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self.most:
            self._evicted(self.pop(next(iter(self))))

    def close(self) -> None:
        """Evict every entry."""
        while self:
            self._evicted(self.popitem()[1])
