"""Sections, segments and symbol tables of object files, as every format has them."""

from __future__ import annotations

from whence._base.records import Record
from whence._base.window import cstring

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array

LONGEST_NAME = 4096  # bytes of a symbol's name in a debug map


class ObjectSection:
    """A section's header. `size` is in bytes as stored; `align` in bytes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def index(self) -> int: ...
        @property
        def name(self) -> str: ...
        @property
        def vaddr(self) -> int: ...
        @property
        def file_offset(self) -> int: ...
        @property
        def size(self) -> int: ...
        @property
        def align(self) -> int: ...

    @property
    def memory_size(self) -> int:
        """Its size in memory, in bytes."""
        return self.size

    @property
    def compressed(self) -> bool:
        """True if the bytes are stored compressed."""
        raise NotImplementedError

    @property
    def allocated(self) -> bool:
        """True if it is part of the program in memory."""
        raise NotImplementedError

    @property
    def in_file(self) -> bool:
        """True if the file has its bytes: not those of .bss, nor those of code in a separate debug file."""
        raise NotImplementedError

    @property
    def executable(self) -> bool:
        raise NotImplementedError

    @property
    def grouped(self) -> bool:
        """True if it belongs to a group that a linker keeps once (COMDAT)."""
        raise NotImplementedError

    @property
    def part(self) -> str:
        """The section's name in errors."""
        raise NotImplementedError


class ObjectSegment:
    """A loaded part of the file.

    Bytes [file_offset, file_offset + file_size) are at vaddr, followed by zeros up to memory_size.
    """

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def file_offset(self) -> int: ...
        @property
        def vaddr(self) -> int: ...
        @property
        def file_size(self) -> int: ...
        @property
        def memory_size(self) -> int: ...

    @property
    def executable(self) -> bool:
        raise NotImplementedError

    @property
    def writable(self) -> bool:
        raise NotImplementedError

    @property
    def is_loaded(self) -> bool:
        raise NotImplementedError

    @property
    def end(self) -> int:
        """The vaddr after its memory."""
        return self.vaddr + self.memory_size

    @property
    def file_end(self) -> int:
        """The file offset after its bytes."""
        return self.file_offset + self.file_size


class ObjectSymbols:
    """A symbol table in columns, one row per symbol. Values are vaddrs, sizes in bytes."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def value(self) -> array[int]: ...
        @property
        def size(self) -> array[int]: ...

    def __len__(self) -> int:
        return len(self.value)

    def name(self, index: int) -> str:
        """Return a symbol's name; "" if it is damaged."""
        raise NotImplementedError

    def find(self, name: str) -> int | None:
        """Return the index of the first symbol of that name."""
        raise NotImplementedError

    def functions(self) -> list[tuple[int, int]]:
        """Return value and size of the symbols that are functions, in the order of the table."""
        raise NotImplementedError


class LinkedObject(Record, frozen=True):
    """An object file whose debug info the linker did not copy, and its functions in the linked file.

    The functions are in columns: `name` is the offset in `names` of the symbol's name in the object file; in the linked
    file the function has `length` bytes at `vaddr`. `time` is when the object file was modified, in seconds since 1970;
    0 if unknown.
    """

    path: str
    member: str  # of the static library `path`; "" if that is the object file itself
    time: int
    names: memoryview
    name: array[int]
    vaddr: array[int]
    length: array[int]

    def __str__(self) -> str:
        return f"{self.path}({self.member})" if self.member else self.path

    def name_of(self, index: int) -> bytes:
        """Return the name of a function's symbol, at most LONGEST_NAME bytes."""
        offset = self.name[index]
        return cstring(self.names[: offset + LONGEST_NAME], offset)
