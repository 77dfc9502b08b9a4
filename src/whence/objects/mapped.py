"""Object files that are mapped or in memory: what all formats have in common."""

from __future__ import annotations

import os

from whence._base.errors import ObjectError, cut_off, empty_file, naming
from whence._base.files import open_regular
from whence._base.forks import Lock, cached_property
from whence._base.mapped import MappedFile
from whence.objects.elf.segments import Segment
from whence.objects.elf.symbols import Symbols, read_symbols
from whence.objects.interface import ObjectFile
from whence.objects.parts import ObjectSection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from typing_extensions import Buffer

    from whence._base.window import ByteOrder
    from whence.objects.elf.compress import SectionStream
    from whence.objects.elf.symbols import SymbolTable

OLD_COMPRESSED = ".zdebug_"


class MappedObject(ObjectFile):
    """An object file in a mapped file or a buffer, or in a part of one, such as a slice of a fat file.

    Subclasses set the fields of ObjectFile when they have read the header; `sections` and `segments` are read on first
    use. Segments and symbol tables have ELF's form, so one reader of symbols serves every format.

    Views keep the mapping alive; after `close` the file is unmapped with the last view. Thread-safe.

    Args:
        data: the bytes of the object file.
        path: the path of the file; "" for bytes in memory.
        mapped: the mapped file that the bytes are in.
        start: the offset of the bytes in the mapped file.
    """

    error: type[ObjectError]

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        self.path = path
        self._mapped, self._start = mapped, start
        view = memoryview(data)
        self.data = (view if view.format == "B" else view.cast("B")).toreadonly()
        self.size = len(self.data)
        self.problems: list[ObjectError] = []
        self.order: ByteOrder = "little"
        self.entry = 0
        self._contents: dict[int, memoryview] = {}
        self._sizes: dict[tuple[int, int], int] = {}  # when decompressed, by offset and size of the bytes
        self._lock = Lock()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Map a file. Raises OSError, and an ObjectError if the file has another format."""
        name = os.fspath(path)
        with open_regular(name, cls.error) as (descriptor, size):
            if not size:
                raise empty_file(cls.error)
            mapped = MappedFile(descriptor, name, cls.error)
            with naming(name):
                return cls(mapped.view, name, mapped)

    @classmethod
    def from_bytes(cls, data: Buffer, name: str = "") -> Self:
        """Return an object file in memory; the bytes are not copied and must not change."""
        return cls(data, name)

    def close(self) -> None:
        self._contents.clear()
        self.__dict__.pop("_symbol_tables", None)
        if self._mapped is not None:
            self._mapped, self.data = None, memoryview(b"")  # the last view to go unmaps the file

    def check(self) -> None:
        if self._mapped is not None:
            self._mapped.check()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path or 'in memory'}: {self.bits}-bit, machine {self.machine}>"

    @property
    def is_relocatable(self) -> bool:
        return False

    # sections

    def content(self, section: ObjectSection | str) -> memoryview:
        if isinstance(section, str):
            named = self.section(section)
            if named is None:
                return self.data[:0]
            section = named
        content = self._contents.get(section.index)
        if content is not None:
            return content
        with self.reading():
            content = self.decompressed(section)
            return self._contents.setdefault(section.index, self.relocated(section, content))

    def decompressed(self, section: ObjectSection) -> memoryview:
        """Return a section's bytes, decompressed. Raises ObjectError."""
        stream = self.stream(section)
        return self.stored(section) if stream is None else stream.run()

    def relocated(self, section: ObjectSection, content: memoryview) -> memoryview:
        """Return a section's bytes with its relocations applied, in the input of a linker."""
        return content

    def stored(self, section: ObjectSection) -> memoryview:
        """Return a section's bytes as stored. Raises ObjectError if they are not all in the file."""
        if not section.in_file:
            return self.data[:0]
        end = section.file_offset + section.size
        if end > self.size:
            raise cut_off(self.error, section.part, None, section.size, max(0, self.size - section.file_offset))
        return self.data[section.file_offset : end]

    def stream(self, section: ObjectSection) -> SectionStream | None:
        """Return a compressed section as a stream; None if the section is stored.

        Raises ObjectError if the file's sections together decompress to more than its size justifies; sections of the
        same bytes count once.
        """
        if not section.compressed or not section.in_file or not section.size:
            return None
        from whence.objects.elf.compress import FILE_SLACK, size_budget  # few files are compressed

        with naming(self.path):
            stream = self.new_stream(section)
            if stream is not None:
                with self._lock:
                    sizes = {**self._sizes, (section.file_offset, section.size): stream.size}
                    size_budget("sections", self.size, FILE_SLACK).charge(sum(sizes.values()))
                    self._sizes = sizes
            return stream

    def new_stream(self, section: ObjectSection) -> SectionStream | None:
        """Return a stream of a compressed section's bytes; None if they are stored after all. Raises ObjectError."""
        from whence.objects.elf.compress import zdebug_stream

        return zdebug_stream(self.stored(section), section.part)

    def keep(self, section: ObjectSection, content: memoryview) -> None:
        with self.reading():
            self._contents.setdefault(section.index, self.relocated(section, content))

    def release(self, name: str) -> None:
        section = self.section(name)
        if section is not None:
            self._contents.pop(section.index, None)

    def done_with(self, section: ObjectSection | str, start: int = 0, end: int | None = None) -> None:
        named = self.section(section) if isinstance(section, str) else section
        if self._mapped is None or named is None or not named.in_file:
            return
        first = named.file_offset + start
        stop = min(named.file_offset + (named.size if end is None else min(end, named.size)), self.size)
        if first < stop:
            self._mapped.forget(self._start + first, self._start + stop)

    # addresses

    def _loaded(self) -> Iterator[tuple[int, int, int]]:
        """Yield vaddr, file offset and size of the bytes that are loaded."""
        for segment in self.segments:
            if segment.is_loaded:
                yield segment.vaddr, segment.file_offset, min(segment.file_size, segment.memory_size)

    def read_vaddr(self, vaddr: int, size: int) -> bytes:
        for start, file_offset, size_in_file in self._loaded():
            offset = file_offset + vaddr - start
            if start <= vaddr and vaddr - start + size <= size_in_file and offset + size <= self.size:
                content = bytes(self.data[offset : offset + size])
                self.check()
                return content
        raise self.error("segments", None, f"no segment loads {size} bytes at vaddr {vaddr:#x}", path=self.path)

    def located(self, name: str) -> tuple[int, memoryview] | None:
        return None

    def loaded_around(self, vaddr: int) -> tuple[int, memoryview]:
        for start, file_offset, size in self._loaded():
            if 0 <= vaddr - start < size:
                return start, self.data[file_offset : min(file_offset + size, self.size)]
        return vaddr, self.data[:0]

    def relocation_tables(self) -> list[bytes]:
        return []

    def code_ranges(self, *, or_loaded: bool = False) -> list[tuple[int, int]]:
        ranges = [(each.vaddr, each.vaddr + each.size) for each in self.sections if each.executable and each.size]
        return ranges or [(each.vaddr, each.end) for each in self.code_segments() if each.memory_size]

    def code_segments(self) -> list[Segment]:
        return [each for each in self.segments if each.is_loaded and each.executable]

    # symbols

    def read_symbol_table(self) -> SymbolTable | None:
        """Return the symbols of `.symtab` in ELF's form; None without a symbol table. Raises ObjectError."""
        return None

    @cached_property
    def _symbol_tables(self) -> dict[str, SymbolTable | None]:
        with self.reading():
            return {".symtab": self.read_symbol_table()}

    def symbol_table(self, table: str = ".symtab") -> SymbolTable | None:
        return self._symbol_tables.get(table)

    def may_have_symbol(self, name: str, table: str = ".symtab") -> bool:
        symbols = self.symbol_table(table)
        return symbols is not None and symbols.may_have(name)

    def symbols(self, table: str = ".symtab") -> Symbols:
        with self.reading():
            return read_symbols(self.symbol_table(table), self.bits, self.order)
