"""The sections of a module, the bodies of its functions, and their names."""

from __future__ import annotations

from array import array

from whence._base.errors import CUT_OFF, WasmError, cut_off, empty_file, wrong_magic
from whence._base.records import Record
from whence._base.window import uleb
from whence.objects.elf.symbols import SymbolTable
from whence.objects.parts import ObjectSection
from whence.objects.wasm.kernels import names as names_kernel

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
SYMBOL_SIZE = 16  # of ELF's, 32-bit
SMALLEST_NAME = 2  # bytes of an entry of a list of names: an index, and the length of an empty name
EXPORTS = "export section"


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


def read_bodies(data: memoryview, section: WasmSection) -> array[int]:
    """Return start and end of each function's body in turn, in bytes from the start of the code section.

    Raises WasmError.
    """
    start = section.file_offset
    bounds, fault = names_kernel.bodies(data, start, start + section.size)
    if fault >= 0:
        raise WasmError("code section", fault, "a function's body is cut off, or its size is not a LEB128 number")
    return array("Q", bounds.numbers())


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


def names_of_functions(content: memoryview) -> tuple[int, int]:
    """Return the bounds of the names of functions in the content of the custom section "name". Raises WasmError."""
    reader = Reader(content, "name section")
    while reader.offset < reader.end:
        kind, size = reader.byte(), reader.number()
        start = reader.skip(size)
        if kind == NAMES_OF_FUNCTIONS:
            return start, start + size
    return 0, 0


def as_elf(
    content: memoryview, bounds: tuple[int, int], functions: array[int], imports: int, section: int, part: str
) -> SymbolTable:
    """Return a list of names of functions as a symbol table of ELF's form; names of imports are left out.

    `part` is "name section" or "export section". Raises WasmError.
    """
    start, end = bounds
    most = (end - start) // SMALLEST_NAME + 1
    table, names = bytearray(SYMBOL_SIZE * most), bytearray(2 + 2 * (end - start))
    if start == end:
        return SymbolTable(memoryview(bytes(SYMBOL_SIZE)), memoryview(b"\0"), memoryview(b""), part)
    written, used, fault = names_kernel.named(
        content, start, end, part == EXPORTS, functions, imports, section, table, names
    )
    if fault >= 0:
        raise WasmError(part, fault, "a name is cut off, or its length is not a LEB128 number")
    return SymbolTable(memoryview(table)[:written], memoryview(names)[:used], memoryview(b""), part)
