"""Names by where they lie.

A symbolizer meets the same name thousands of times. Copying and hashing it each time is the cost most tools pay; here a
name is a 64-bit reference, `source << 48 | offset`: which bytes (a .debug_str, a .strtab, an arena of names put
together), and where in them the NUL-terminated text starts. Text is read when a name is printed or written down.

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
    """The bytes that references point into. Sources are only ever added, so a reference stays valid. Threads may add.

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
        """Make bytes a source. Returns its number. Nothing is copied: the bytes must stay as they are."""
        view = memoryview(data)
        with self._lock:
            if len(self.sources) >= MAX_SOURCES:
                raise OverflowError(f"a string space has at most {MAX_SOURCES} sources")
            self.sources.append(view if view.format == "B" else view.cast("B"))
            return len(self.sources) - 1

    @staticmethod
    def ref(source: int, offset: int) -> int:
        return source << OFFSET_BITS | offset

    def raw(self, ref: int) -> bytes:
        """The bytes of a name, without its NUL. A reference that points nowhere is the empty string."""
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
    """Names put together (paths, qualified names), each once, as one growing source of a space.

    The source's bytes are handed over by `seal`, when no more names come: until then the references are good but
    their text is not yet readable. Threads may add to one arena.
    """

    __slots__ = ("_base", "_bytes", "_known", "_lock", "_space")

    def __init__(self, space: StringSpace) -> None:
        self._space = space
        self._base = space.add(b"") << OFFSET_BITS
        self._bytes = bytearray()
        self._known: dict[bytes, int] = {b"": 0}
        self._lock = Lock()

    def add(self, name: bytes) -> int:
        """The reference of a name (its text up to the first NUL)."""
        ref = self._known.get(name)
        if ref is None:
            with self._lock:
                ref = self._known.get(name)
                if ref is None:
                    ref = self._base | len(self._bytes)
                    self._bytes += name.partition(b"\0")[0] + b"\0"
                    self._known[name] = ref
        return ref

    def seal(self) -> None:
        self._space.sources[self._base >> OFFSET_BITS] = memoryview(bytes(self._bytes))
