"""The sections of a module, the bodies of its functions, and their names."""

from __future__ import annotations

import struct

from whence._base.errors import CUT_OFF, WasmError, cut_off, empty_file, wrong_magic
from whence._base.records import Record
from whence._base.window import uleb
from whence.objects.elf.kernels.constants import STB_GLOBAL, STB_SHIFT, STT_FUNC
from whence.objects.elf.symbols import SymbolTable
from whence.objects.parts import ObjectSection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAGIC = b"\0asm"
VERSION = 1
HEADER_SIZE = 8
LEB_BYTES = 5  # of a 32-bit number; linkers pad to so many
CUSTOM, IMPORT, EXPORT, CODE = 0, 2, 7, 10
SECTION_NAMES = {
    1: "type", 2: "import", 3: "function", 4: "table", 5: "memory", 6: "global", 7: "export", 8: "start", 9: "element",
    10: ".text", 11: "data", 12: "data count", 13: "tag",
}  # fmt: skip
NAMES_OF_FUNCTIONS = 1  # a subsection of the custom section "name"
FUNCTION, TABLE, MEMORY, GLOBAL, TAG = range(5)  # kinds of imports and exports
SYMBOL_ENTRY = struct.Struct("<IIIBBH")  # ELF's, 32-bit


class WasmSection(Record, ObjectSection, frozen=True):
    """A section. `file_offset` and `size` are of its content, after the name of a custom section."""

    index: int
    name: str
    id: int
    file_offset: int
    size: int
    vaddr: int = 0

    @property
    def align(self) -> int:
        return 1

    @property
    def compressed(self) -> bool:
        return False

    @property
    def allocated(self) -> bool:
        return self.id == CODE

    @property
    def in_file(self) -> bool:
        return True

    @property
    def executable(self) -> bool:
        return self.id == CODE

    @property
    def grouped(self) -> bool:
        return False

    @property
    def part(self) -> str:
        """The section's name in errors."""
        return f"section {self.name}"


class Reader:
    """Reads numbers and names from one section; past its end it raises WasmError."""

    def __init__(self, data: memoryview, part: str, start: int = 0, end: int | None = None) -> None:
        self.data, self.part, self.offset = data, part, start
        self.end = len(data) if end is None else end

    def number(self) -> int:
        """Return the next LEB128 number of 32 bits."""
        try:
            value, offset = uleb(self.data, self.offset, self.end, LEB_BYTES)
        except EOFError:
            raise WasmError(self.part, self.offset, "cut off in a LEB128 number", code=CUT_OFF) from None
        except OverflowError as error:
            raise WasmError(self.part, self.offset, str(error)) from None
        if value >> 32:
            raise WasmError(self.part, self.offset, f"the number {value:#x} has more than 32 bits")
        self.offset = offset
        return value

    def skip(self, size: int) -> int:
        """Move past `size` bytes and return their offset."""
        start = self.offset
        if start + size > self.end:
            raise cut_off(WasmError, self.part, start, size, self.end - start)
        self.offset = start + size
        return start

    def byte(self) -> int:
        return self.data[self.skip(1)]

    def name(self) -> memoryview:
        """Return the next name, a length and bytes."""
        size = self.number()
        start = self.skip(size)
        return self.data[start : start + size]


def read_sections(data: memoryview, problems: list[WasmError]) -> list[WasmSection]:
    """Return every section; reading stops at a damaged one, which is a problem.

    Section 0 is empty. Raises WasmError if the file is not a module of version 1.
    """
    if not len(data):
        raise empty_file(WasmError)
    if data[:4] != MAGIC:
        raise wrong_magic(WasmError, "a WebAssembly file", data[:4], MAGIC)
    version = int.from_bytes(data[4:HEADER_SIZE], "little")
    if version != VERSION:
        kind = " (a component)" if version >> 16 else ""
        raise WasmError("header", 4, f"the version is {version:#x}{kind}, expected 1 (a module)")
    sections = [WasmSection(0, "", -1, 0, 0)]
    reader = Reader(data, "sections", HEADER_SIZE)
    try:
        while reader.offset < reader.end:
            number, size = reader.byte(), reader.number()
            start = reader.skip(size)
            name = SECTION_NAMES.get(number, f"section {number}")
            if number == CUSTOM:
                inside = Reader(data, "custom section", start, start + size)
                name = bytes(inside.name()).decode("utf-8", "surrogateescape")
                size -= inside.offset - start
                start = inside.offset
            sections.append(WasmSection(len(sections), name, number, start, size))
    except WasmError as error:
        problems.append(error)
    return sections


def read_bodies(data: memoryview, section: WasmSection) -> list[tuple[int, int]]:
    """Return [start, end) of each function's body, in bytes from the start of the code section. Raises WasmError."""
    start = section.file_offset
    reader = Reader(data, "code section", start, start + section.size)
    bodies = []
    for _ in range(min(reader.number(), section.size)):
        size = reader.number()
        body = reader.skip(size)
        bodies.append((body - start, body - start + size))
    return bodies


def imported_functions(content: memoryview) -> int:
    """Return how many functions a module imports: they have the first indexes. Raises WasmError."""
    reader = Reader(content, "import section")
    count = 0
    for _ in range(min(reader.number(), len(content))):
        reader.name()
        reader.name()
        kind = reader.byte()
        count += kind == FUNCTION
        if kind in (FUNCTION, TAG):
            reader.skip(kind == TAG)
            reader.number()
        elif kind in (TABLE, MEMORY):
            reader.skip(kind == TABLE)
            limits = reader.byte()
            reader.number()
            if limits & 1:
                reader.number()
        elif kind == GLOBAL:
            reader.skip(2)
        else:
            raise WasmError("import section", reader.offset, f"unknown kind of import {kind}")
    return count


def names_of_functions(content: memoryview) -> list[tuple[int, memoryview]]:
    """Return index and name of each function in the content of the custom section "name". Raises WasmError."""
    reader = Reader(content, "name section")
    names = []
    while reader.offset < reader.end:
        kind, size = reader.byte(), reader.number()
        start = reader.skip(size)
        if kind == NAMES_OF_FUNCTIONS:
            inside = Reader(content, "name section", start, start + size)
            names += [(inside.number(), inside.name()) for _ in range(min(inside.number(), size))]
    return names


def exported_functions(content: memoryview) -> list[tuple[int, memoryview]]:
    """Return index and name of each exported function. Raises WasmError."""
    reader = Reader(content, "export section")
    names = []
    for _ in range(min(reader.number(), len(content))):
        name, kind = reader.name(), reader.byte()
        index = reader.number()
        if kind == FUNCTION:
            names.append((index, name))
    return names


def as_elf(
    names: Iterable[tuple[int, memoryview]], bodies: Sequence[tuple[int, int]], imports: int, section: int
) -> SymbolTable:
    """Return names of functions as a symbol table of ELF's form; names of imports are left out."""
    text = bytearray(b"\0")
    entries = [bytes(SYMBOL_ENTRY.size)]
    for index, name in names:
        if imports <= index < imports + len(bodies):
            start, end = bodies[index - imports]
            info = STB_GLOBAL << STB_SHIFT | STT_FUNC
            entries.append(SYMBOL_ENTRY.pack(len(text), start, end - start, info, 0, section))
            text += bytes(name) + b"\0"
    return SymbolTable(memoryview(b"".join(entries)), memoryview(bytes(text)), memoryview(b""), "name section")
