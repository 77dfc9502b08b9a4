"""The interface of object files for readers of debug info, Go's tables and unwind tables.

Every format has subclasses of `ObjectFile`, `ObjectSection` and `ObjectSegment`. Sections have their ELF names
(`.debug_info`, `.eh_frame`, `.gopclntab`), addresses are vaddrs, and machines have ELF's numbers
(`whence.objects.machines`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from whence._base.errors import ObjectError
    from whence._base.window import ByteOrder
    from whence.objects.elf.compress import SectionStream

# of DWARF, the sections that ranges of functions and lines are read from: .debug_info first, .debug_line last
DWARF_SECTIONS = (
    "info", "types", "abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists", "line",
)  # fmt: skip
GO_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid", ".go.buildinfo")


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


class ObjectFile(ABC):
    """An object file: a program, a library, a file with debug info, or the input of a linker.

    Damaged tables are empty and listed in `problems`; reading a damaged section raises ObjectError. Files are safe to
    use from several threads. If another program changes a mapped file, the next question raises ObjectError.
    """

    path: str  # "" for bytes in memory
    data: memoryview  # the whole file
    size: int  # in bytes
    bits: int  # of an address: 32 or 64
    order: ByteOrder
    machine: int  # as in whence.objects.machines
    entry: int  # the vaddr where the program starts; 0 if unknown
    problems: list[ObjectError]

    @property
    @abstractmethod
    def is_relocatable(self) -> bool:
        """Whether it is the input of a linker: every section is at vaddr 0 and may come several times."""

    @property
    @abstractmethod
    def sections(self) -> Sequence[ObjectSection]:
        """Every section in the file's order; empty if there is no section table."""

    @property
    @abstractmethod
    def segments(self) -> Sequence[ObjectSegment]:
        """Every segment in the file's order."""

    @property
    @abstractmethod
    def build_id(self) -> str:
        """The identity that the linker gave the file, in lowercase hex; "" if it has none."""

    @property
    def is_go(self) -> bool:
        """Whether sections say that the Go linker made the file; strip leaves them, debug files name them."""
        return any(self.section(name) is not None for name in GO_SECTIONS)

    @property
    def has_debug_info(self) -> bool:
        """Whether it has bytes of .debug_info, not only the section's header."""
        section = self.section(".debug_info")
        return section is not None and section.in_file and section.size > 0

    @abstractmethod
    def section(self, name: str) -> ObjectSection | None:
        """Return the first section of a name."""

    @abstractmethod
    def content(self, section: ObjectSection | str) -> memoryview:
        """Return a section's bytes, decompressed, with relocations applied to debug sections of relocatable files.

        No bytes if there is no section of that name, or none of its bytes are in the file. Raises ObjectError.
        """

    @abstractmethod
    def stream(self, section: ObjectSection) -> SectionStream | None:
        """Return a compressed section as a stream, for reading the first bytes before the last.

        None if the section is not compressed. Raises ObjectError.
        """

    def decompress_ahead(self, size: int, lines: int) -> SectionStream | None:
        """Start to decompress the sections of debug info on a thread, and return the stream of .debug_info.

        At most `size` bytes of .debug_info and `lines` of .debug_line are decompressed. None if it is not compressed.
        """
        return None

    @abstractmethod
    def keep(self, section: ObjectSection, content: memoryview) -> None:
        """Use bytes that were decompressed elsewhere as the section's content."""

    @abstractmethod
    def release(self, name: str) -> None:
        """Drop the decompressed bytes of a section; `content` decompresses them again."""

    @abstractmethod
    def done_with(self, section: ObjectSection | str, start: int = 0, end: int | None = None) -> None:
        """Hint that bytes [start, end) of a section, as stored, may leave memory."""

    @abstractmethod
    def located(self, name: str) -> tuple[int, memoryview] | None:
        """Return vaddr and bytes of an unwind table that the loader finds without section headers.

        `name` is `.eh_frame_hdr`, `.ARM.exidx` or `.sframe`.
        """

    @abstractmethod
    def loaded_around(self, vaddr: int) -> tuple[int, memoryview]:
        """Return vaddr and bytes of the segment with a vaddr, or of the section if there are no segments.

        No bytes if nothing is loaded there.
        """

    @abstractmethod
    def file_offset_of(self, vaddr: int) -> int | None:
        """Return the file offset of the byte that is loaded at a vaddr."""

    @abstractmethod
    def read_vaddr(self, vaddr: int, size: int) -> bytes:
        """Return `size` bytes as they are loaded at a vaddr. Raises ObjectError."""

    @abstractmethod
    def relocation_tables(self) -> list[bytes]:
        """Return the tables of relocations with addends that the loader applies to data.

        Rows are offset, info and addend, a word each. Empty in formats that store pointers in place.
        """

    @abstractmethod
    def code_ranges(self, *, or_loaded: bool = False) -> list[tuple[int, int]]:
        """Return [start, end) in vaddrs of code, in the order of the file. Ranges may touch or overlap; none is empty.

        With `or_loaded`, for a program at a fixed address, also what is loaded without being marked as code.
        """

    @abstractmethod
    def code_segments(self) -> Sequence[ObjectSegment]:
        """Return the loaded segments that are executable or hold an executable section."""

    @abstractmethod
    def symbols(self, table: str = ".symtab") -> ObjectSymbols:
        """Return ".symtab" or ".dynsym"; empty if the file has no such table. Raises ObjectError."""

    @abstractmethod
    def may_have_symbol(self, name: str, table: str = ".symtab") -> bool:
        """Return False if no symbol of the table has that name, without reading the table. Raises ObjectError."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Return a block for reading views of the file: it raises ObjectError if the file changed meanwhile."""

    @abstractmethod
    def check(self) -> None:
        """Raise ObjectError if the file was cut or overwritten since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Release the file. Views handed out before stay valid."""
