"""Files of the kinds that advisories about binutils and elfutils describe: one for each class of fault.

Each file also has a healthy function `main` at CODE (and, in debug info, `found`), so that a test can see that one bad
part costs nothing else.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from tests.forge import dwarf as d
from tests.forge.elf import Section, Symbol, forge
from tests.forge.lines import uleb
from tests.forge.pe import CODE as PE_CODE
from tests.forge.pe import DEBUG as PE_DEBUG
from tests.forge.pe import Section as PeSection
from tests.forge.pe import Symbol as PeSymbol
from tests.forge.pe import forge_object
from tests.hostile.inputs.dwarf import GOOD_TABLE, address, declaration, good, unit
from whence.objects.elf.kernels.constants import ET_DYN, ET_REL

CODE, SIZE = 0x1000, 0x1000
RELA, REL, SYMTAB, STRTAB, HASH, DYNAMIC, NOBITS, DYNSYM, SHNDX = 4, 9, 2, 3, 5, 6, 8, 11, 18
COMPRESSED = 0x800
TEXT = Section(".text", b"\x90" * SIZE, flags=6, vaddr=CODE)
MAIN = Symbol("main", CODE, 16)


def elf(*sections: Section, symbols: tuple[Symbol, ...] = (MAIN,), type: int = ET_DYN) -> bytes:
    """A file with code and symbols. In a relocatable one, values count from the section's start."""
    if type == ET_REL:
        return forge([replace(TEXT, vaddr=0), *sections], symbols=[replace(MAIN, value=0x10)], type=type)
    return forge([TEXT, *sections], symbols=symbols, type=type)


def debug(info: bytes, table: bytes = b"", *more: Section, type: int = ET_DYN) -> bytes:
    """A file with the given units, and then the healthy one, whose table follows `table`."""
    abbreviations = table + GOOD_TABLE + b"\0"
    units = info + good(len(table))
    return elf(Section(".debug_abbrev", abbreviations), Section(".debug_info", units), *more, type=type)


def rela(offset: int, symbol: int, type: int, addend: int = 0) -> bytes:
    return struct.pack("<QQq", offset, symbol << 32 | type, addend)


def relocations_out_of_range() -> bytes:
    """Relocations with unknown types, missing symbols, and places outside their section."""
    entries = [rela(0, 1, 0xFFFFFFFF), rela(8, 0xFFFFFFFF, 1), rela(1 << 63, 1, 1), rela(0x20, 0, 10, -(1 << 63))]
    table = Section(".rela.debug_info", b"".join(entries) * 50, RELA, link=".symtab", info=".debug_info", entry_size=24)
    return debug(b"", b"", table, type=ET_REL)


def relocations_of_an_object_file_for_windows() -> bytes:
    """COFF, from which XCOFF descends: symbols and types that do not exist."""
    entries = [(0, 1 << 31, 1), (4, 0, 0xFFFF), (1 << 31, 1, 1), (8, 0xFFFFFFFF, 0xFFFF)]
    sections = [
        PeSection(".text$f", bytes(0x40), PE_CODE | 5 << 20),
        PeSection(".debug_info", bytes(64), PE_DEBUG, relocations=entries),
    ]
    return forge_object(sections, symbols=[PeSymbol("main", 0)])


def relocations_of_missing_sections() -> bytes:
    """Tables of relocations whose symbols, or whose section, are a null section or none of the file."""
    tables = [
        Section(f".rela.debug_info{n}", rela(8, 1, 1) * 4, kind, link=link, info=info, entry_size=size)
        for n, (kind, link, info, size) in enumerate(
            [(RELA, 0, 2, 24), (RELA, 0xFFFF, 0xFFFF, 24), (REL, 2, 0, 16), (RELA, 1, 1, 0), (RELA, 3, 2, 1)]
        )
    ]
    return debug(b"", b"", *tables, type=ET_REL)


def cut_relocations() -> bytes:
    """Relocations that end in the middle, for the table of addresses and the debug info."""
    tables = [
        Section(".got", bytes(64), flags=3, vaddr=0x8000),
        Section(".rela.plt", rela(0x8000, 1, 7)[:-5], RELA, link=".symtab", info=".got", entry_size=24, size=1 << 20),
        Section(".rela.debug_info", rela(8, 1, 1)[:11], RELA, link=".symtab", info=".debug_info", entry_size=24),
    ]
    return debug(b"", b"", *tables, type=ET_REL)


def unit_sizes() -> bytes:
    """Units of reserved lengths, and of addresses of 0, 3 and 255 bytes."""
    item = declaration(1, d.DW_TAG_compile_unit, (d.DW_AT_low_pc, d.DW_FORM_addr))
    head = (4).to_bytes(2, "little") + (0).to_bytes(4, "little")
    units = [len(head + b"?\1" + bytes(8)).to_bytes(4, "little") + head + bytes([n, 1]) + bytes(8) for n in (0, 3, 255)]
    version = struct.pack("<IHIB", 12, 99, 0, 8) + bytes(5)
    return debug(b"".join(units) + version, item + b"\0")


def reserved_lengths() -> bytes:
    """A unit whose length is one of headers that the standard reserves."""
    return elf(
        Section(".debug_abbrev", GOOD_TABLE + b"\0"),
        Section(".debug_info", good(0) + b"\xf0\xff\xff\xff" + bytes(32)),
    )


def range_lists_without_an_end() -> bytes:
    """Range lists whose header counts billions of offsets, whose length is 0, and which never end."""
    attributes = ((d.DW_AT_ranges, d.DW_FORM_rnglistx), (d.DW_AT_rnglists_base, d.DW_FORM_sec_offset))
    table = declaration(1, d.DW_TAG_compile_unit, *attributes) + b"\0"
    body = b"\1" + uleb(0xFFFFFFF) + (12).to_bytes(4, "little")
    head = (5).to_bytes(2, "little") + b"\1\x08" + (0).to_bytes(4, "little")
    units = (len(head + body).to_bytes(4, "little") + head + body) * 200
    lists = struct.pack("<IHBBI", 0, 5, 8, 0, 0xFFFFFFFF) * 100 + b"\x05" + address(CODE) + b"\x04\0\0" * 500
    return debug(units, table, Section(".debug_rnglists", lists), Section(".debug_loclists", lists))


def counts_without_bytes() -> bytes:
    """Headers that count what the file has no bytes for: sections, segments, hash buckets, versions."""
    sections = [
        Section(".hash", struct.pack("<II", 0xFFFFFFFF, 0xFFFFFFFF), HASH, flags=2, vaddr=0x9000, link=".symtab"),
        Section(".gnu.version_r", struct.pack("<HHIII", 1, 0xFFFF, 0, 0, 16), 0x6FFFFFFE, link=".strtab", info=1 << 30),
        Section(".gnu.version_d", struct.pack("<HHHHIII", 1, 0, 1, 0xFFFF, 0, 0, 0), 0x6FFFFFFD, info=1 << 30),
        Section(".note.gnu.build-id", struct.pack("<III", 4, 0xFFFFFFFF, 3) + b"GNU\0", 7, flags=2),
    ]
    content = bytearray(elf(*sections))
    struct.pack_into("<H", content, 0x38, 0xFFFF)  # e_phnum: the number is in section 0
    return bytes(content)


def symbols_without_names() -> bytes:
    """Symbols whose names are a null section, and dynamic symbols that only DT_SYMTAB = 0 tells of."""
    dynamic = b"".join(struct.pack("<QQ", tag, value) for tag, value in ((6, 0), (5, 0), (4, 0), (10, 1 << 40), (0, 0)))
    table = struct.pack("<IBBHQQ", 1, 0x12, 0, 1, CODE, 16) * 3
    sections = [
        Section(".dynamic", dynamic, DYNAMIC, flags=3, vaddr=0xA000),
        Section(".dynsym", table, DYNSYM, flags=2, link=0, entry_size=24),
        Section(".ldynsym", table, DYNSYM, flags=2, link=".dynamic", entry_size=24),
    ]
    return elf(*sections)


def names_outside_their_strings() -> bytes:
    """Symbols whose names begin past the end of their strings, in strings that do not end."""
    table = b"".join(
        struct.pack("<IBBHQQ", name, 0x12, 0, 0xFF00 + n % 256, CODE + n, 1)
        for n, name in enumerate([0xFFFFFFFF, 6, 5, 1 << 31, 0] * 20)
    )
    sections = [
        Section(".dynstr", b"\0cut!", STRTAB, flags=2),
        Section(".dynsym", table, DYNSYM, flags=2, link=".dynstr", entry_size=24),
    ]
    return elf(*sections)


def strings_without_bytes() -> bytes:
    """Strings that have a size and no bytes in the file."""
    table = struct.pack("<IBBHQQ", 0x100, 0x12, 0, 1, CODE, 16) * 3
    sections = [
        Section(".dynstr", b"", NOBITS, flags=2, size=1 << 40),
        Section(".dynsym", table, DYNSYM, flags=2, link=".dynstr", entry_size=24),
        Section(".debug_str", b"", NOBITS, size=1 << 40),
    ]
    return elf(*sections)


def short_section_indexes() -> bytes:
    """Symbols whose sections are in a table of indexes that is shorter than theirs."""
    symbols = tuple(replace(MAIN, name=f"f{n}", value=CODE + 32 * n, section=0xFFFF) for n in range(1, 40))
    table = Section(".symtab_shndx", struct.pack("<I", 1), SHNDX, link=".symtab", entry_size=4)
    return elf(table, symbols=(MAIN, *symbols))


def sizes_of_compressed_sections() -> bytes:
    """Compressed sections that announce another size than they have, or an unknown method."""
    bad = [
        Section(name, struct.pack("<IIQQ", method, 0, size, 1) + b"\x78\x9c\x03\x00", flags=COMPRESSED)
        for name, method, size in (
            (".debug_line", 1, 1 << 62), (".debug_str", 99, 8), (".debug_ranges", 2, 64), (".debug_loc", 1, 0),
        )
    ]  # fmt: skip
    return debug(b"", b"", *bad, Section(".debug_aranges", b"\1\0", flags=COMPRESSED))


def damaged_abbreviations() -> bytes:
    """Abbreviations with codes and forms of any size, twice the same code, and no end."""
    huge = b"\xff" * 9 + b"\x01"
    table = (
        declaration(1, d.DW_TAG_compile_unit, (d.DW_AT_name, 0x7FFF)) * 2 + huge + huge + b"\1" + huge + huge + b"\0\0"
    )
    info = unit(b"\1" + bytes(16)) + unit(huge + b"\1\1\1") + unit(b"\x7f" * 12, 0xFFFFFF00)
    return debug(info, table + b"\0")


def nested_names() -> bytes:
    """Linkage names that nest as deep as they are long."""
    names = [
        "_Z" + "1fI" * 20_000 + "i" + "E" * 20_000, "_ZN" + "1a" * 50_000 + "E", "_Z1f" + "PFv" * 30_000 + "iE",
        "_R" + "INvC1a1f" * 10_000, "_Z" + "Dp" * 40_000, "$s" + "Say" * 30_000, "?f@@Y" + "P6" * 30_000 + "XXZ",
        "_ZTS" + "N" * 100_000, "_Z3fooIL_Z" * 10_000,
    ]  # fmt: skip
    return elf(symbols=(MAIN, *(Symbol(name, CODE + 32 + n * 16, 16) for n, name in enumerate(names))))
