"""PE files and COFF object files with a bit of everything."""

from __future__ import annotations

import struct

from tests.forge.dwarf import Debug, Die, function
from tests.forge.pe import BASE, CODE, DEBUG, PAGE, Section, Symbol, codeview, exports, forge, forge_object
from whence.objects.pe import layout


def debug_sections(base: int) -> list[Section]:
    root = Die(0x11, [(0x03, 0x08, "a.c")], [function("f", base, 0x20), function("g", base + 0x20, 8)])
    contents = Debug().unit(root).contents()
    return [
        Section(f".debug_{name}", data, DEBUG, relocations=[(8, 0, 1), (16, 1, 0xB)]) for name, data in contents.items()
    ]


def image(machine: int = 0x8664, *, wide: bool = True) -> bytes:
    """A program with symbols, exports, function starts, a CodeView record and debug info."""
    pdata = b"".join(struct.pack("<III", PAGE + start, PAGE + start + 16, 3 * PAGE) for start in (0, 0x40, 0x80))
    content = exports(4 * PAGE, [("alpha", PAGE), ("beta", PAGE + 0x40)])
    sections = [
        Section(".text", bytes(0x180), CODE), Section(".pdata", pdata), Section(".xdata", bytes([1, 0, 0, 0])),
        Section(".edata", content), Section(".buildid", codeview(5 * PAGE, 5 * PAGE, b"a.pdb")),
        *debug_sections(BASE + PAGE),
    ]  # fmt: skip
    directories = {
        layout.EXCEPTIONS: (2 * PAGE, len(pdata)), layout.EXPORTS: (4 * PAGE, len(content)),
        layout.DEBUG: (5 * PAGE, 28),
    }  # fmt: skip
    symbols = [Symbol("f", 0), Symbol("a_function_with_a_long_name", 0x20), Symbol(".text", 0, auxiliary=1, storage=3)]
    return forge(
        sections, symbols=symbols, directories=directories, machine=machine, base=BASE if wide else 0x400000, wide=wide
    )


def object_file(*, big: bool = False) -> bytes:
    """The input of a linker, with relocated debug info."""
    sections = [Section(".text$f", bytes(0x40), CODE | 5 << 20), *debug_sections(0)]
    symbols = [Symbol("f", 0), Symbol("a_function_with_a_long_name", 8)]
    return forge_object(sections, symbols=symbols, big=big)
