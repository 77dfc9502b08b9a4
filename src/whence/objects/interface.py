"""The interface of object files for readers of debug info, Go's tables and unwind tables.

Every format has subclasses of `ObjectFile` and `ObjectSection`. Sections have their ELF names
(`.debug_info`, `.eh_frame`, `.gopclntab`), addresses are vaddrs, and machines have ELF's numbers
(`whence.objects.machines`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from whence._base.closing import CheckedClosing
from whence._base.forks import cached_property
from whence._base.mapped import checked
from whence.objects.ids import DebugId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from whence._base.errors import ObjectError
    from whence._base.window import ByteOrder
    from whence.objects.elf.compress import SectionStream
    from whence.objects.elf.links import AltLink, DebugLink
    from whence.objects.elf.segments import Segment, Translation
    from whence.objects.elf.symbols import Symbols, SymbolTable
    from whence.objects.parts import LinkedObject, ObjectSection

# of DWARF, the sections that ranges of functions and lines are read from: .debug_info first, .debug_line last
DWARF_SECTIONS = (
    "info", "types", "abbrev", "str", "line_str", "str_offsets", "addr", "ranges", "rnglists", "line",
)  # fmt: skip
GO_SECTIONS = (".gopclntab", ".data.rel.ro.gopclntab", ".note.go.buildid", ".go.buildinfo")


class ObjectFile(CheckedClosing, ABC):
    """An object file: a program, a library, a file with debug info, or the input of a linker.

    Damaged tables are empty and listed in `problems`; reading a damaged section raises ObjectError. Files are safe to
    use from several threads. If another program changes a mapped file, the next question raises ObjectError.
    """

    format: str  # "ELF", "Mach-O", "PE", "WebAssembly"
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
        """True if it is the input of a linker: every section is at vaddr 0 and may come several times."""

    @property
    @abstractmethod
    def sections(self) -> Sequence[ObjectSection]:
        """Every section in the file's order; empty if there is no section table."""

    @property
    @abstractmethod
    def segments(self) -> Sequence[Segment]:
        """Every segment in the file's order."""

    @property
    @abstractmethod
    def build_id(self) -> str:
        """The identity that the linker gave the file, in lowercase hex; "" if it has none."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """The kind of file, for people: "executable", "shared library"."""

    @property
    def is_core(self) -> bool:
        """True if it is the memory of a process, not a program."""
        return False

    @property
    def has_only_names(self) -> bool:
        """True if it names the code of another file and has no sections: GSYM and Breakpad's symbol files."""
        return False

    @property
    def go_build_id(self) -> str:
        """The ID that Go's tools gave the file; "" if it has none."""
        return ""

    @property
    def debug_id(self) -> DebugId:
        """The GUID and age that name the file's debug info; empty if the file has no build-id."""
        return DebugId.of_build_id(self.build_id, little_endian=self.order == "little")

    @property
    def code_id(self) -> str:
        """The ID by which symbol servers name the program itself; "" if it has none."""
        return self.build_id

    @property
    def details(self) -> dict[str, str]:
        """More facts for people by their names, such as the platform and whether code is encrypted."""
        return {}

    @property
    def has_symtab(self) -> bool:
        """True if it has a symbol table that is not only for the loader."""
        return self.section(".symtab") is not None

    @property
    def function_starts(self) -> Sequence[int]:
        """The vaddrs of functions, with or without a name, in order; empty if the file has no such table."""
        return ()

    @property
    def linked_objects(self) -> Sequence[LinkedObject]:
        """The object files that have its debug info, as linkers of Mach-O leave it there (a debug map)."""
        return ()

    @property
    def image_base(self) -> int:
        """The vaddr of the first page that a loader maps: the base address of a module of a minidump."""
        from whence.objects.elf.segments import image_base

        return image_base(self.segments)

    @cached_property
    def translation(self) -> Translation:
        """File offsets to vaddrs and back, by all loaded segments."""
        from whence.objects.elf.segments import Translation  # its package imports this module

        return Translation(self.segments)

    def vaddr_of(self, file_offset: int) -> int | None:
        """Return the vaddr at which a byte of the file is loaded; None if no segment has it."""
        return self.translation.vaddr_of(file_offset)

    def file_offset_of(self, vaddr: int) -> int | None:
        """Return the file offset of the byte loaded at a vaddr; None if no segment loads it from the file."""
        return self.translation.file_offset_of(vaddr)

    @property
    def debug_link(self) -> DebugLink | None:
        """The debug file that the file names. Raises ObjectError if that section is damaged."""
        return None

    @property
    def external_debug_info(self) -> str:
        """The path or URL of a file with its debug info, as WebAssembly modules name it; "" if there is none."""
        return ""

    @property
    def source_map(self) -> str:
        """The path or URL of a source map of a WebAssembly module; "" if there is none."""
        return ""

    @property
    def alt_link(self) -> AltLink | None:
        """The supplementary file that the file names. Raises ObjectError if that section is damaged."""
        return None

    @property
    def is_go(self) -> bool:
        """True if sections say that the Go linker made the file; strip leaves them, debug files name them."""
        return any(self.section(name) is not None for name in GO_SECTIONS)

    @property
    def has_debug_info(self) -> bool:
        """True if it has bytes of .debug_info, not only the section's header."""
        section = self.section(".debug_info")
        return section is not None and section.in_file and section.size > 0

    @cached_property
    def _by_name(self) -> dict[str, ObjectSection]:
        return {section.name: section for section in reversed(self.sections)}

    def section(self, name: str) -> ObjectSection | None:
        """Return the first section of a name. `.debug_x` also finds the old compressed `.zdebug_x`."""
        section = self._by_name.get(name)
        if section is None and name.startswith(".debug_"):
            section = self._by_name.get(".z" + name[1:])
        return section

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
    def code_segments(self) -> Sequence[Segment]:
        """Return the loaded segments that are executable or hold an executable section."""

    @abstractmethod
    def symbols(self, table: str = ".symtab") -> Symbols:
        """Return ".symtab" or ".dynsym"; empty if the file has no such table. Raises ObjectError."""

    @abstractmethod
    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        """Return the bytes of a symbol table in ELF's form; None if the file has no such table. Raises ObjectError."""

    def symbol_names(self) -> memoryview:
        """Return the names of .symtab's symbols, each with a NUL at the end. Raises ObjectError."""
        return self.content(".strtab")

    def mini_debug(self) -> ObjectFile | None:
        """Return the file with further symbols that this file contains. Raises ObjectError."""
        return None

    def prepare(self) -> None:  # most formats import nothing later
        """Import what reading the file imports later: a child that is forked during an import waits forever for it."""

    @abstractmethod
    def may_have_symbol(self, name: str, table: str = ".symtab") -> bool:
        """Return False if no symbol of the table has that name, without reading the table. Raises ObjectError."""

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager for a block that reads views; checks at its end that the file is unchanged.

        Errors get the path of the file.
        """
        return checked(self.check, self.path)

    @abstractmethod
    def check(self) -> None:
        """Raise ObjectError if the file was cut or overwritten since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Release the file. Views handed out before stay valid."""
