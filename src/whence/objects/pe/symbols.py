"""COFF's symbol table and the export table as tables of ELF's form; function starts of .pdata.

Symbols have no size: each extends to the next symbol or function start of its section, or to the section's end. On
32-bit x86 names lose the underscore that compilers put in front.
"""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import PeError, cut_off
from whence.objects.elf.kernels.constants import STB_GLOBAL, STB_SHIFT, STT_FUNC, STT_OBJECT
from whence.objects.machines import EM_386, EM_X86_64
from whence.objects.pe import layout
from whence.objects.pe.headers import offset_of
from whence.objects.pe.kernels import symbols as symbols_kernel
from whence.objects.sized import SymbolColumns, with_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.pe.headers import PeHeader, PeSection

SHORT_NAME = 8  # bytes of a name in a symbol
MOST_SECTIONS = 0xFF00  # ELF reserves higher indexes
MAX_EXPORTS = 1 << 16  # ordinals have 16 bits


def read_function_starts(data: memoryview, header: PeHeader, sections: list[PeSection]) -> array[int]:
    """Return the vaddrs of functions of .pdata, ascending; parts of a function (chained entries) are left out."""
    rva, size = header.directory(layout.EXCEPTIONS)
    start = offset_of(rva, header, sections)
    machine = layout.MACHINES.get(header.machine, 0)
    if start is None or machine == EM_386:
        return array("Q")
    size = min(size, len(data) - start)
    stride = 12 if machine == EM_X86_64 else 8
    form = "<III" if stride == 12 else "<II"
    starts = []
    previous: PeSection | None = None
    for begin, *rest in struct.iter_unpack(form, data[start : start + size // stride * stride]):
        if stride == 12:
            previous = section_with(rest[1], header, sections, previous)
            offset = -1 if previous is None else previous.file_offset + rest[1] + header.base - previous.vaddr
            if 0 <= offset < len(data) and data[offset] & layout.CHAINED:
                continue
        if begin:
            starts.append(header.base + begin)
    return array("Q", sorted(set(starts)))


def section_with(rva: int, header: PeHeader, sections: list[PeSection], first: PeSection | None) -> PeSection | None:
    """Return the section in the file with an RVA; `first` is tried first."""
    for section in (first, *sections) if first is not None else sections:
        if section is not None and section.in_file and 0 <= rva + header.base - section.vaddr < section.size:
            return section
    return None


def read_symbol_table(
    data: memoryview, header: PeHeader, sections: list[PeSection], starts: array[int]
) -> SymbolTable | None:
    """Return the defined symbols in ELF's form; None without a symbol table. Raises PeError if it is cut off."""
    if not header.symbol_count:
        return None
    table = symbol_bytes(data, header)
    long_names = string_table(data, header)
    names = bytearray(len(long_names) + 1 + (SHORT_NAME + 1) * header.symbol_count)
    names[: len(long_names)] = long_names
    symbols = SymbolColumns.of_size(header.symbol_count)
    vaddrs = array("Q", [section.vaddr for section in sections])
    allocated = bytes(section.allocated for section in sections)
    strip = layout.MACHINES.get(header.machine) == EM_386
    count, end = symbols_kernel.defined(
        table, names, len(long_names) + 1, vaddrs, allocated, header.is_big, strip, symbols
    )
    symbols.cut(count)
    return sized(symbols, memoryview(names)[:end], header, sections, starts)


def symbol_bytes(data: memoryview, header: PeHeader) -> memoryview:
    """Return the bytes of the symbol table. Raises PeError if they are cut off."""
    size = header.symbol_count * header.symbol_size
    if header.symbols_offset + size > len(data):
        raise cut_off(PeError, "symbol table", None, size, max(0, len(data) - header.symbols_offset))
    return data[header.symbols_offset : header.symbols_offset + size]


def string_table(data: memoryview, header: PeHeader) -> memoryview:
    """Return the string table after the symbols, with its size in the first 4 bytes; as much as the file has."""
    start = header.names_offset
    if not header.symbols_offset or start + 4 > len(data):
        return data[:0]
    return data[start : start + int.from_bytes(data[start : start + 4], "little")]


def read_exports(
    data: memoryview, header: PeHeader, sections: list[PeSection], starts: array[int]
) -> SymbolTable | None:
    """Return the exported names in ELF's form; None without exports.

    Forwarders and names outside the directory's section are omitted.
    """
    rva, size = header.directory(layout.EXPORTS)
    home = section_with(rva, header, sections, None)
    if home is None:
        return None
    low = home.vaddr - header.base
    content = data[home.file_offset : home.file_offset + home.size]

    def words(form: str, at_rva: int, count: int) -> list[int]:
        offset, width = at_rva - low, struct.calcsize(form)
        if not 0 <= offset < len(content):
            return []
        count = min(count, MAX_EXPORTS, max(0, len(content) - offset) // width)
        return list(struct.unpack_from(f"<{count}{form}", content, offset))

    if rva - low + 40 > len(content):
        return None
    address_count, name_count, addresses, name_pointers, ordinals = struct.unpack_from("<5I", content, rva - low + 20)
    functions = words("I", addresses, address_count)
    symbols = SymbolColumns.of_size(0)
    for pointer, ordinal in zip(words("I", name_pointers, name_count), words("H", ordinals, name_count), strict=False):
        target = functions[ordinal] if ordinal < len(functions) else 0
        if not low <= pointer < low + len(content) or not target or rva <= target < rva + size:
            continue
        vaddr = header.base + target
        section = next((each for each in sections if each.vaddr <= vaddr < each.vaddr + each.memory_size), None)
        if section is not None:
            type_ = STT_FUNC if section.executable else STT_OBJECT
            symbols.append(pointer - low, vaddr, STB_GLOBAL << STB_SHIFT | type_, section.index)
    return sized(symbols, content, header, sections, starts)


def sized(
    symbols: SymbolColumns, names: memoryview, header: PeHeader, sections: Sequence[PeSection], starts: array[int]
) -> SymbolTable:
    """Return symbols in ELF's form, each with the size up to what follows it."""
    limits = array("Q", [min(section.vaddr + section.memory_size, (1 << header.bits) - 1) for section in sections])
    bases = array("Q", [section.vaddr for section in sections]) if header.is_object else None
    return with_sizes(symbols, names, starts, limits[:MOST_SECTIONS], header.bits, "little", bases)
