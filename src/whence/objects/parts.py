"""Sections, segments and symbol tables of object files, as every format has them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array


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
    def compressed(self) -> bool:
        """Whether the bytes are stored compressed."""
        raise NotImplementedError

    @property
    def allocated(self) -> bool:
        """Whether it is part of the program in memory."""
        raise NotImplementedError

    @property
    def in_file(self) -> bool:
        """Whether the file has its bytes: not those of .bss, nor those of code in a separate debug file."""
        raise NotImplementedError

    @property
    def executable(self) -> bool:
        raise NotImplementedError

    @property
    def grouped(self) -> bool:
        """Whether it belongs to a group that a linker keeps once (COMDAT)."""
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
