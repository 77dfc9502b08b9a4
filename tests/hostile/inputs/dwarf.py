"""Debug info that claims much in few bytes: what many units share, rows and units of a byte or four, sections that
unpack to a thousand times their size."""

from __future__ import annotations

import random
from pathlib import Path

import whence
from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die
from tests.forge.elf import Section, forge, packed
from tests.forge.lines import sleb, uleb
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_DYN

CODE = 0x1000
SIZE = 1 << 20


def unit(body: bytes, table: int = 0) -> bytes:
    """A unit of version 4."""
    head = (4).to_bytes(2, "little") + table.to_bytes(4, "little") + b"\x08"
    return (len(head) + len(body)).to_bytes(4, "little") + head + body


def declaration(code: int, tag: int, *attributes: tuple[int, int], children: bool = False, more: bytes = b"") -> bytes:
    said = b"".join(uleb(name) + uleb(form) for name, form in attributes)
    return uleb(code) + uleb(tag) + bytes([children]) + said + more + b"\0\0"


def address(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


GOOD_TABLE = declaration(
    1, d.DW_TAG_compile_unit, (d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4), children=True
) + declaration(
    2,
    d.DW_TAG_subprogram,
    (d.DW_AT_name, d.DW_FORM_string),
    (d.DW_AT_low_pc, d.DW_FORM_addr),
    (d.DW_AT_high_pc, d.DW_FORM_data4),
)


NOTHING = uleb(0x2FFF) + uleb(d.DW_FORM_flag_present)  # an attribute that takes no bytes in a DIE
ATTRIBUTES = 500_000


def elf(*sections: Section) -> bytes:
    return forge([Section(".text", b"", type=8, flags=6, vaddr=CODE, size=SIZE), *sections], type=ET_DYN)


def zlib(name: str, data: bytes) -> Section:
    return packed(Section(name, data), "zlib")


def good(table: int) -> bytes:
    """A unit of one function `found` of 16 bytes."""
    location = address(CODE) + address(16, 4)
    return unit(b"\1" + location + b"\2found\0" + location + b"\0", table)


def with_table(table: bytes, info: bytes, *, pack: bool) -> bytes:
    make = zlib if pack else Section
    return elf(make(".debug_abbrev", table + GOOD_TABLE + b"\0"), zlib(".debug_info", info))


def attributes_of_units(*, pack: bool) -> bytes:
    """Units that share half a million attributes."""
    huge = declaration(1, d.DW_TAG_compile_unit, more=NOTHING * ATTRIBUTES) + b"\0"
    return with_table(huge, unit(b"\1") * 3000 + good(len(huge)), pack=pack)


def functions_of(attributes: bytes, *, pack: bool) -> bytes:
    """Functions that share these attributes."""
    location = ((d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4))
    function = declaration(2, d.DW_TAG_subprogram, *location, more=attributes)
    huge = declaration(1, d.DW_TAG_compile_unit, children=True) + function + b"\0"
    many = b"".join(b"\2" + address(CODE + 0x100 + 16 * n) + address(16, 4) for n in range(3000))
    return with_table(huge, unit(b"\1" + many + b"\0") + good(len(huge)), pack=pack)


def attributes_of_functions(*, pack: bool) -> bytes:
    return functions_of(NOTHING * ATTRIBUTES, pack=pack)


def attribute_again_and_again(*, pack: bool) -> bytes:
    """One attribute half a million times."""
    again = uleb(d.DW_AT_low_pc) + uleb(d.DW_FORM_implicit_const) + sleb(CODE)
    return functions_of(again * ATTRIBUTES, pack=pack)


def tables_in_each_other() -> bytes:
    """Abbreviation tables that begin inside each other."""
    item = declaration(1, d.DW_TAG_compile_unit, children=False)
    tables = item * 200_000 + b"\0"
    info = b"".join(unit(b"\1" + b"\0" * 16, len(item) * n) for n in range(20_000)) + good(len(tables))
    return elf(zlib(".debug_abbrev", tables + GOOD_TABLE + b"\0"), Section(".debug_info", info))


def line_program(rows: int) -> bytes:
    """Return a program of `rows` rows of one byte each, which advance by one byte and one line."""
    tables = b"\0" + b"a.c\0\0\0\0" + b"\0"
    head = b"\x01\x01\x01\xfb\x0e\x0d" + b"\0\1\1\1\1\0\0\0\1\0\0\1" + tables
    program = b"\0\x09\x02" + address(CODE) + bytes([0x21]) * rows + b"\0\x01\x01"
    body = (4).to_bytes(2, "little") + len(head).to_bytes(4, "little") + head + program
    return len(body).to_bytes(4, "little") + body


def line_rows(rows: int) -> bytes:
    """Return a compressed line program of `rows` rows."""
    root = Die(
        d.DW_TAG_compile_unit,
        [
            (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0),
            (d.DW_AT_low_pc, d.DW_FORM_addr, CODE),
            (d.DW_AT_high_pc, d.DW_FORM_data4, SIZE),
        ],
        [d.function("found", CODE, 16)],
    )
    debug = Debug().unit(root)
    return elf(
        Section(".debug_info", bytes(debug.info)), Section(".debug_abbrev", bytes(debug.abbrev)),
        Section(".debug_str", bytes(debug.strings)), zlib(".debug_line", line_program(rows)),
    )  # fmt: skip


def with_good_unit(before: bytes = b"", after: bytes = b"", *, pack: bool = False) -> bytes:
    info = before + good(0) + after
    return elf((zlib if pack else Section)(".debug_info", info), Section(".debug_abbrev", GOOD_TABLE + b"\0"))


def packed_zeros() -> bytes:
    return elf(zlib(".debug_info", bytes(64 << 20)), Section(".debug_abbrev", GOOD_TABLE + b"\0"))


def zeros() -> bytes:
    return with_good_unit(bytes(8 << 20))


def bad_units() -> bytes:
    bad = (8).to_bytes(4, "little") + (9).to_bytes(2, "little") + bytes(6)
    return with_good_unit(bad * 50_000)


def too_many_units() -> bytes:
    return with_good_unit(after=unit(b"\0") * 90_000, pack=True)


def overlapping_units() -> bytes:
    location = ((d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4))
    table = declaration(1, d.DW_TAG_compile_unit, *location) + b"\0"
    many = [unit(b"\1" + address(CODE + n % 256) + address(SIZE - 256, 4)) for n in range(256)]
    info = good(len(table)) + b"".join(many[n % 256] for n in range(200_000))
    return elf(Section(".debug_info", info), Section(".debug_abbrev", table + GOOD_TABLE + b"\0"))


def random_sections() -> bytes:
    return ten_headers(random.Random(1).randbytes(4 << 20))


def zero_sections() -> bytes:
    return ten_headers(bytes(200_000_000))


def ten_headers(content: bytes) -> bytes:
    """A file whose ten compressed sections are the same bytes."""
    names = ["info", "abbrev", "line", "str", "ranges", "addr", "rnglists", "line_str", "str_offsets", "aranges"]
    stream = zlib("", content).data
    filler = Section(".comment", bytes(range(256)) * 600)
    first = Section(".debug_info", stream, flags=0x800)
    offset = compressed(elf(filler, first)).pop()
    others = [Section(f".debug_{name}", flags=0x800, size=len(stream), file_offset=offset) for name in names[1:]]
    data = elf(filler, first, *others)
    assert compressed(data) == {offset}
    return data


def compressed(data: bytes) -> set[int]:
    with ElfFile.from_bytes(data) as file:
        return {section.file_offset for section in file.sections if section.compressed}


def ten_small_sections() -> bytes:
    """Sections that are small enough one by one."""
    return elf(*(zlib(f".debug_{n}", bytes([n]) * 1_000_000) for n in range(10)))


def large_units() -> Section:
    chance = random.Random(1)
    info = b"".join(
        unit(b"\1" + address(CODE) + address(SIZE, 4) + b"".join(
            b"\2f%d\0" % chance.randrange(1 << 40) + address(CODE + chance.randrange(SIZE)) + address(16, 4)
            for _ in range(90_000)
        ) + b"\0")
        for _ in range(12)
    )  # fmt: skip
    return Section(".debug_info", info)


def much_debug_info(*, pack: bool) -> bytes:
    info = large_units()
    return elf(packed(info, "zlib") if pack else info, Section(".debug_abbrev", GOOD_TABLE + b"\0"))


def ask(path: Path, count: int = 1) -> str:
    """Return the functions at CODE and later addresses, and the problems."""
    with whence.open(path) as binary:
        result = binary.lookup_many([CODE + n for n in range(count)])
        names = [tuple(frame.function for frame in frames) for frames in result][:8]
        return f"{names} {len(binary.problems)} problems: {' '.join(map(str, binary.problems[:2000]))}"


def ask_many(path: Path) -> str:
    return ask(path, 100_000)


def contents(path: Path) -> str:
    """Return the size of the largest of ten compressed sections, and how many contents there are in memory."""
    with ElfFile.open(path) as file:
        views = [file.content(section) for section in file.sections if section.compressed]
        assert len(views) == 10
        return f"{max(map(len, views))} bytes, {len({id(view.obj) for view in views})} in memory"
