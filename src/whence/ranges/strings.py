"""Names by reference.

A symbolizer meets each name thousands of times, so names are not copied or hashed: a name is a 64-bit reference,
`source << 48 | offset`. The source is a number of some bytes (a .debug_str, a .strtab, an arena of composed names), the
offset the start of a NUL-terminated text in them. Text is read when a name is printed or written.

Reference 0 is the empty string.
"""

from __future__ import annotations

from whence._base.forks import Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import Buffer

OFFSET_BITS = 48
OFFSET_MASK = (1 << OFFSET_BITS) - 1
MAX_SOURCES = 1 << 16


class StringSpace:
    """The bytes that name references point into.

    Sources are only added, so a reference stays valid. Threads may share a space.

    >>> space = StringSpace()
    >>> strtab = space.add(b"\\0main\\0exit\\0")
    >>> space.text(space.ref(strtab, 6))
    'exit'
    >>> space.text(0)
    ''
    """

    __slots__ = ("_lock", "sources")

    def __init__(self) -> None:
        self.sources: list[memoryview] = [memoryview(b"\0")]
        self._lock = Lock()

    def add(self, data: Buffer) -> int:
        """Add bytes as a source and return its number. They are not copied and must not change."""
        view = memoryview(data)
        with self._lock:
            if len(self.sources) >= MAX_SOURCES:
                raise OverflowError(f"a string space has at most {MAX_SOURCES} sources")
            self.sources.append(view if view.format == "B" else view.cast("B"))
            return len(self.sources) - 1

    def reserve(self) -> int:
        """Return the number of a source that `fill` gives its bytes later; until then its names are empty."""
        return self.add(b"")

    def fill(self, source: int, data: Buffer) -> None:
        """Set the bytes of a reserved source. They are not copied and must not change."""
        self.sources[source] = memoryview(data).cast("B")

    @staticmethod
    def ref(source: int, offset: int) -> int:
        return source << OFFSET_BITS | offset

    def raw(self, ref: int) -> bytes:
        """Return the bytes of a name without its NUL; b"" for an invalid reference."""
        source, offset = ref >> OFFSET_BITS, ref & OFFSET_MASK
        if source >= len(self.sources):
            return b""
        data = self.sources[source]
        size = 64
        while offset < len(data):
            chunk = bytes(data[offset : offset + size])
            end = chunk.find(b"\0")
            if end >= 0:
                return chunk[:end]
            if len(chunk) < size:
                return chunk
            size *= 4
        return b""

    def text(self, ref: int) -> str:
        return self.raw(ref).decode("utf-8", "surrogateescape")


class Arena:
    """Composed names (paths, qualified names), each stored once, as one source of a space.

    References can be made at once, but their text is readable only after `seal`. Threads may share an arena.
    """

    __slots__ = ("_base", "_bytes", "_lock", "_refs", "_space")

    def __init__(self, space: StringSpace) -> None:
        self._space = space
        self._base = space.reserve() << OFFSET_BITS
        self._bytes = bytearray()
        self._refs: dict[bytes, int] = {b"": 0}
        self._lock = Lock()

    def add(self, name: bytes) -> int:
        """Return the reference of a name (its text up to the first NUL)."""
        ref = self._refs.get(name)
        if ref is None:
            with self._lock:
                ref = self._refs.get(name)
                if ref is None:
                    ref = self._base | len(self._bytes)
                    self._bytes += name.partition(b"\0")[0] + b"\0"
                    self._refs[name] = ref
        return ref

    def seal(self) -> None:
        self._space.fill(self._base >> OFFSET_BITS, bytes(self._bytes))
