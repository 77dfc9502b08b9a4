"""The symbol table as one of ELF's, and the table of function starts.

Symbols of Mach-O have no size: each extends to the next symbol or function start of its section, or to the section's
end. C names lose the underscore that compilers put in front. Debug map entries (N_STAB) are left out.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left
from itertools import pairwise

from whence._base.errors import MachoError, cut_off
from whence._base.window import LEB_BITS, LEB_BYTES, LEB_MORE
from whence.objects.elf.kernels.constants import (
    STB_GLOBAL,
    STB_LOCAL,
    STB_SHIFT,
    STB_WEAK,
    STT_FUNC,
    STT_OBJECT,
)
from whence.objects.elf.symbols import SymbolTable
from whence.objects.macho import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.macho.commands import LoadCommands, MachoHeader
    from whence.objects.parts import ObjectSection

UNDERSCORE = ord("_")
SYMBOL_ENTRY = {32: "IIIBBH", 64: "IBBHQQ"}  # ELF's


def read_function_starts(data: memoryview, commands: LoadCommands) -> array[int]:
    """Return the vaddrs of functions, ascending: LEB128 differences, the first from __TEXT. Raises MachoError."""
    starts = array("Q")
    if commands.function_starts is None:
        return starts
    offset, size = commands.function_starts
    if offset + size > len(data):
        raise cut_off(MachoError, "function starts", None, size, max(0, len(data) - offset))
    vaddr, delta, shift = commands.text_vaddr, 0, 0
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
        starts.append(vaddr)
        delta = shift = 0
    return starts


def read_symbol_table(
    data: memoryview,
    header: MachoHeader,
    commands: LoadCommands,
    sections: Sequence[ObjectSection],
    starts: Sequence[int],
) -> SymbolTable | None:
    """Return the defined symbols in ELF's form; None without a symbol table. Raises MachoError if it is cut off."""
    if commands.symbols is None:
        return None
    offset, count, names_offset, names_size = commands.symbols
    form = header.mark + layout.SYMBOL[header.bits]
    size = count * struct.calcsize(form)
    if offset + size > len(data):
        raise cut_off(MachoError, "symbol table", None, size, max(0, len(data) - offset))
    if names_offset + names_size > len(data):
        raise cut_off(MachoError, "string table", None, names_size, max(0, len(data) - names_offset))
    names = data[names_offset : names_offset + names_size]
    defined = [
        row
        for row in struct.iter_unpack(form, data[offset : offset + size])
        if not row[1] & layout.N_STAB and row[1] & layout.N_TYPE == layout.N_SECT and row[2] < len(sections)
    ]
    ends = sorted({row[4] for row in defined}.union(starts))
    limits = [min(section.vaddr + section.size, (1 << header.bits) - 1) for section in sections]
    following = dict(pairwise(ends))
    pack = struct.Struct(header.mark + SYMBOL_ENTRY[header.bits]).pack
    entries = [bytes(struct.calcsize(header.mark + SYMBOL_ENTRY[header.bits]))]
    for name, kind, section, description, value in defined:
        end = min(following.get(value, limits[section]), limits[section])
        length = max(0, end - value)
        if name < names_size and names[name] == UNDERSCORE:
            name += 1
        bind = STB_LOCAL
        if kind & layout.N_EXT:
            bind = STB_WEAK if description & layout.N_WEAK_DEF else STB_GLOBAL
        info = bind << STB_SHIFT | (STT_FUNC if sections[section].executable else STT_OBJECT)
        if header.bits == 64:
            entries.append(pack(name, info, 0, section, value, length))
        else:
            entries.append(pack(name, value, length, info, 0, section))
    return SymbolTable(memoryview(b"".join(entries)), names, memoryview(b""), "string table")


def function_at(starts: Sequence[int], vaddr: int, end: int) -> tuple[int, int] | None:
    """Return [start, end) of the function with a vaddr by the table of starts; `end` bounds the last one."""
    index = bisect_left(starts, vaddr + 1)
    if not index:
        return None
    return starts[index - 1], min(starts[index], end) if index < len(starts) else end
