"""An ELF file, mapped, and access to its tables."""

from __future__ import annotations

import threading
from contextlib import suppress

from whence._base.errors import ElfError, naming
from whence._base.forks import cached_property
from whence.objects.elf.code import Range, code_ranges, code_segments, loaded_ranges
from whence.objects.elf.dynamic import dynamic_symbols, dynamic_tags, read_soname
from whence.objects.elf.header import read_header
from whence.objects.elf.kernels import constants
from whence.objects.elf.links import read_alt_link, read_debug_link
from whence.objects.elf.notes import build_id, go_build_id, read_notes
from whence.objects.elf.sections import Section, read_sections
from whence.objects.elf.segments import Segment, read_segments
from whence.objects.elf.symbols import SymbolTable, symbol_sections
from whence.objects.interface import DWARF_SECTIONS
from whence.objects.mapped import OLD_COMPRESSED, MappedObject
from whence.objects.parts import ObjectSection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence.objects.elf.compress import SectionStream
    from whence.objects.elf.links import AltLink, DebugLink
    from whence.objects.elf.notes import Note
    from whence.objects.elf.relocate import Relocations


TABLE_SEGMENTS = {
    ".eh_frame_hdr": constants.PT_GNU_EH_FRAME,
    ".ARM.exidx": constants.PT_ARM_EXIDX,
    ".sframe": constants.PT_GNU_SFRAME,
}


KINDS = {
    constants.ET_REL: "relocatable",
    constants.ET_EXEC: "executable",
    constants.ET_DYN: "shared object or position-independent executable",
}


class ElfFile(MappedObject):
    """An ELF file as tables: sections, segments, symbols, notes, links. Each is read on first use.

    A malformed header raises ElfError at once. A damaged table is empty and its error is in `problems`; a damaged
    section raises when its content is read.

    Another program may truncate or overwrite the file, which makes the next operation raise ElfError. After reading
    views, call `check`, or read them in a `with elf.reading():` block.
    """

    error = ElfError
    format = "ELF"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        self.header = read_header(self.data)
        self.bits = self.header.bits
        self.order = self.header.order
        self.machine = self.header.machine
        self.type = self.header.type
        self.entry = self.header.entry
        # by offset and size of the compressed bytes, which several sections may share:
        self._decompressed: dict[tuple[int, int], memoryview] = {}
        self._ahead: dict[tuple[int, int], SectionStream] = {}  # begun by decompress_ahead
        with naming(path):
            self.check()

    def close(self) -> None:
        """Unmap the file. Existing views stay valid."""
        self._decompressed.clear()
        self._ahead.clear()
        self.__dict__.pop("_relocations", None)  # they refer to the file
        if "_notes" in self.__dict__:  # they have views of it
            _ = self.build_id, self.go_build_id
            del self.__dict__["_notes"]
        super().close()

    @property
    def kind(self) -> str:
        return KINDS.get(self.type, f"ELF type {self.type}")

    @property
    def is_core(self) -> bool:
        return self.type == constants.ET_CORE

    @property
    def is_relocatable(self) -> bool:
        return self.type == constants.ET_REL

    # sections

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """Every section by index; () without a section table, or if it is damaged (see `problems`)."""
        try:
            return read_sections(self.data, self.header)
        except ElfError as error:
            self.problems.append(error.in_file(self.path))
            return ()
        finally:
            self.check()

    def decompressed(self, section: ObjectSection) -> memoryview:
        """Return a section's bytes, decompressed once for all sections of these bytes. Raises ElfError."""
        if not section.compressed:
            return self.stored(section)
        key = section.file_offset, section.size
        content = self._decompressed.get(key)
        if content is None:
            content = self._decompressed.setdefault(key, super().decompressed(section))
            self.done_with(section)
        return content

    def relocated(self, section: ObjectSection, content: memoryview) -> memoryview:
        if self.is_relocatable and section.name.startswith((".debug_", ".zdebug_")):
            return self._relocations.applied(section, content, self.problems)
        return content

    def stream(self, section: ObjectSection) -> SectionStream | None:
        """Return a compressed section as a stream, for reading the first bytes before the last; None if it is stored.

        A stream that `decompress_ahead` began is returned again. Raises ElfError if the file's sections together
        decompress to more than its size justifies; sections of the same bytes count once.
        """
        with naming(self.path):
            stream = self._ahead.get((section.file_offset, section.size)) if section.compressed else None
            return stream if stream is not None and stream.is_reusable else super().stream(section)

    def decompress_ahead(self, size: int, lines: int) -> SectionStream | None:
        """Start to decompress the sections of debug info on a thread, and return the stream of .debug_info.

        At most `size` bytes of .debug_info and `lines` of .debug_line are decompressed; readers continue from there,
        and get the errors. None if .debug_info is not compressed, or the system refuses the thread.
        """
        named = [self.section(f".debug_{name}") for name in DWARF_SECTIONS]
        sections = [section for section in named if section is not None and section.compressed]
        if named[0] is None or not sections or self._ahead or self.is_relocatable:
            return None
        from whence.objects.elf.compress import decompress_all

        streams: list[tuple[SectionStream, int]] = []
        for section in sections:
            with suppress(ElfError):
                stream = self.stream(section)
                if stream is not None:
                    self._ahead[section.file_offset, section.size] = stream
                    limit = size if section is named[0] else lines if section is named[-1] else stream.size
                    streams.append((stream, limit))
        try:
            threading.Thread(target=decompress_all, args=(streams,), daemon=True).start()
        except RuntimeError:
            self._ahead.clear()
        return self._ahead.get((named[0].file_offset, named[0].size))

    def new_stream(self, section: ObjectSection) -> SectionStream | None:
        if not self.sections[section.index].flags & constants.SHF_COMPRESSED:
            return super().new_stream(section) if section.name.startswith(OLD_COMPRESSED) else None
        from whence.objects.elf.compress import section_stream

        def consumed(end: int) -> None:
            self.done_with(section, 0, end)

        return section_stream(self.stored(section), self.bits, self.order, section.part, consumed)

    def prepare(self) -> None:
        """Import what reading the file imports later: a child that is forked during an import waits forever for it."""
        if self.is_relocatable:
            import whence.objects.elf.relocate
        if self.section(".gnu_debugdata") is not None:
            import lzma  # noqa: F401

            import whence.objects.elf.compress  # noqa: F401
        packed = next((section for section in self.sections if section.compressed and section.size), None)
        if packed is not None:
            with suppress(ElfError):
                self.stream(packed)

    def release(self, name: str) -> None:
        """Drop the decompressed bytes of a section; the next use decompresses them again."""
        super().release(name)
        section = self.section(name)
        if section is not None:
            for cache in (self._decompressed, self._ahead):
                cache.pop((section.file_offset, section.size), None)

    @cached_property
    def _relocations(self) -> Relocations:
        from whence.objects.elf.relocate import Relocations  # only object files need it

        return Relocations(self.header, self.sections, self.content, self.size)

    # segments

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Every segment; () without a segment table, or if it is damaged (see `problems`)."""
        try:
            return read_segments(self.data, self.header)
        except ElfError as error:
            self.problems.append(error.in_file(self.path))
            return ()
        finally:
            self.check()

    def code_segments(self) -> list[Segment]:
        """Return the PT_LOAD segments that are executable or have an executable section in them."""
        return code_segments(self.sections, self.segments)

    def code_ranges(self, *, or_loaded: bool = False) -> list[Range]:
        """Return [start, end) in vaddrs of code: executable sections, or else segments with code.

        In the order of the file's table. Ranges may touch or overlap; none is empty. With `or_loaded`, for a program at
        a fixed address, also everything else loaded, except at 0: linkers leave the debug info of dropped code there,
        and below the code of files that can be loaded anywhere.
        """
        ranges = code_ranges(self.sections, self.segments)
        if or_loaded and self.type == constants.ET_EXEC:
            ranges += loaded_ranges(self.sections, self.segments)
        return ranges

    def _loaded(self) -> Iterator[tuple[int, int, int]]:
        for segment in self.translation.segments:
            yield segment.vaddr, segment.file_offset, segment.file_size
        for section in self.sections:  # of a file without segments
            if section.allocated and section.in_file:
                yield section.vaddr, section.file_offset, section.size

    def located(self, name: str) -> tuple[int, memoryview] | None:
        """Return vaddr and bytes of an unwind table by its program header."""
        for segment in self.segments:
            if segment.type == TABLE_SEGMENTS.get(name) and segment.file_size:
                return segment.vaddr, self.data[segment.file_offset : min(segment.file_end, self.size)]
        return None

    def relocation_tables(self) -> list[bytes]:
        """Return every loaded RELA table; without section headers, that of the dynamic table (DT_RELA)."""
        tables = []
        for section in self.sections:
            if section.type == constants.SHT_RELA and section.allocated:
                with suppress(ElfError):
                    tables.append(bytes(self.content(section)))
        if not self.sections:
            tags = dynamic_tags(self.data, self.header, self.segments)
            offset = self.file_offset_of(tags.get(constants.DT_RELA, -1))
            if offset is not None:
                tables.append(bytes(self.data[offset : offset + tags.get(constants.DT_RELASZ, 0)]))
        return tables

    @property
    def soname(self) -> str:
        """The name that a library gives itself; "" if it is missing. A debug file has no dynamic table to read."""
        if self.sections and any(section.name == ".dynamic" and not section.in_file for section in self.sections):
            return ""
        with self.reading():
            return read_soname(self.data, self.header, self.segments)

    # symbols

    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        """Return the bytes of ".symtab" or ".dynsym"; None if the file has no such table.

        Without section headers .dynsym is found through PT_DYNAMIC, as a loader does. Raises ElfError if it is damaged.
        """
        with self.reading():
            tables = symbol_sections(self.sections, table)
            if tables is not None:
                symbols, names, extended = tables
                extended_content = self.content(extended) if extended is not None else self.data[:0]
                return SymbolTable(self.content(symbols), self.content(names), extended_content, names.part)
            if table == ".dynsym" and not self.sections:
                return dynamic_symbols(self.data, self.header, self.segments)
            return None

    # notes and links: an address of a file with debug info is named without them

    @cached_property
    def _notes(self) -> tuple[Note, ...]:
        with self.reading():
            notes, problems = read_notes(self.data, self.segments, self.sections, self.order)
        self.problems += [problem.in_file(self.path) for problem in problems]
        return tuple(notes)

    def notes(self) -> tuple[Note, ...]:
        """Return every note of segments and sections, each once."""
        return self._notes

    @cached_property
    def build_id(self) -> str:
        """GNU build-id in lowercase hex; "" if the file has no build-id."""
        return build_id(self._notes)

    @cached_property
    def go_build_id(self) -> str:
        return go_build_id(self._notes)

    @property
    def debug_link(self) -> DebugLink | None:
        """The file that .gnu_debuglink names. Raises ElfError if the section is damaged."""
        with self.reading():
            content = self.content(".gnu_debuglink")
            return read_debug_link(content, self.order) if len(content) else None

    @property
    def alt_link(self) -> AltLink | None:
        """The supplementary file that .gnu_debugaltlink names. Raises ElfError if the section is damaged."""
        with self.reading():
            content = self.content(".gnu_debugaltlink")
            return read_alt_link(content, self.order) if len(content) else None

    def mini_debug(self) -> ElfFile | None:
        """Return MiniDebugInfo: the ELF file with a .symtab that distributions compress into .gnu_debugdata."""
        section = self.section(".gnu_debugdata")
        content = self.content(section) if section is not None else self.data[:0]
        if section is None or not len(content):
            return None
        from whence.objects.elf.compress import decompress_xz

        with self.reading():
            decompressed = decompress_xz(content, section.part, section.size)
        return ElfFile.from_bytes(decompressed, f"{self.path}:.gnu_debugdata")
