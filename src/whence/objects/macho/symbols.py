"""The symbol table as one of ELF's, and the table of function starts.

Symbols of Mach-O have no size: each extends to the next symbol or function start of its section, or to the section's
end. C names lose the underscore that compilers put in front. Entries of the debug map are left out.
"""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import MachoError, cut_off
from whence._base.window import LEB_BITS, LEB_BYTES, LEB_MORE
from whence.objects.machines import EM_ARM
from whence.objects.macho import layout
from whence.objects.macho.kernels import symbols as symbols_kernel
from whence.objects.sized import SymbolColumns, with_sizes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.elf.symbols import SymbolTable
    from whence.objects.macho.commands import LoadCommands, MachoHeader
    from whence.objects.parts import ObjectSection


def read_function_starts(data: memoryview, header: MachoHeader, commands: LoadCommands) -> array[int]:
    """Return the vaddrs of functions, ascending: LEB128 differences, the first from __TEXT. Raises MachoError."""
    starts = array("Q")
    if commands.function_starts is None:
        return starts
    offset, size = commands.function_starts
    if offset + size > len(data):
        raise cut_off(MachoError, "function starts", None, size, max(0, len(data) - offset))
    vaddr, delta, shift = commands.text_vaddr, 0, 0
    thumb = int(header.machine == EM_ARM)  # the lowest bit marks Thumb code
    for index, byte in enumerate(bytes(data[offset : offset + size])):
        delta |= (byte & ~LEB_MORE) << shift
        shift += LEB_BITS
        if byte & LEB_MORE:
            if shift >= LEB_BITS * LEB_BYTES:
                raise MachoError("function starts", index, f"a LEB128 number has more than {LEB_BYTES} bytes")
            continue
        vaddr += delta
        if not delta or vaddr >> 64:
            break
        starts.append(vaddr & ~thumb)
        delta = shift = 0
    return starts


def symbol_bytes(data: memoryview, header: MachoHeader, commands: LoadCommands) -> tuple[memoryview, memoryview]:
    """Return the bytes of the symbol table and of its names. Raises MachoError if they are cut off."""
    if commands.symbols is None:
        return data[:0], data[:0]
    offset, count, names_offset, names_size = commands.symbols
    size = count * struct.calcsize(header.mark + layout.SYMBOL[header.bits])
    if offset + size > len(data):
        raise cut_off(MachoError, "symbol table", None, size, max(0, len(data) - offset))
    if names_offset + names_size > len(data):
        raise cut_off(MachoError, "string table", None, names_size, max(0, len(data) - names_offset))
    return data[offset : offset + size], data[names_offset : names_offset + names_size]


def read_symbol_table(
    data: memoryview,
    header: MachoHeader,
    commands: LoadCommands,
    sections: Sequence[ObjectSection],
    starts: array[int],
) -> SymbolTable | None:
    """Return the defined symbols in ELF's form; None without a symbol table. Raises MachoError if it is cut off."""
    if commands.symbols is None:
        return None
    table, names = symbol_bytes(data, header, commands)
    symbols = SymbolColumns.of_size(len(table) // struct.calcsize(header.mark + layout.SYMBOL[header.bits]))
    executable = bytes(section.executable for section in sections[: layout.MAX_SECTIONS])
    big = header.order == "big"
    vaddrs = array("Q", [section.vaddr for section in sections])
    symbols.cut(symbols_kernel.defined(table, names, executable, vaddrs, header.bits == 64, big, symbols))
    limits = array("Q", [min(section.vaddr + section.size, (1 << header.bits) - 1) for section in sections])
    return with_sizes(symbols, names, starts, limits[: layout.MAX_SECTIONS], header.bits, header.order)
