"""Fuzz debug info: DIE trees, abbreviations, range lists, names, split units and the index of a package.

A packet holds the sections of a binary and of its package, each preceded by its length, so that damage mostly
changes DWARF and not the ELF file around it.
"""

from __future__ import annotations

import struct

from tests.forge import dwarf as d
from tests.forge import split
from tests.forge.dwarf import Debug, Die, function, inlined
from whence.dwarf import DebugInfo
from whence.objects.elf import ElfFile
from whence.ranges import StringSpace

SECTIONS = ("info", "abbrev", "strings", "line_strings", "ranges", "rnglists", "addr", "str_offsets", "line")


def pack(debug: Debug, package: Debug | None = None, index: bytes = b"") -> bytes:
    out = struct.pack("<BBBB", debug.version, debug.order == "big", debug.address_size, debug.wide)
    for each in (debug, package or Debug()):
        for name in SECTIONS:
            out += struct.pack("<I", len(getattr(each, name))) + getattr(each, name)
    return out + index


def unpack(data: bytes) -> tuple[Debug, Debug, bytes]:
    head, offset = data[:4].ljust(4, b"\0"), 4
    files = []
    for _ in range(2):
        debug = Debug(order="big" if head[1] & 1 else "little", address_size=4 if head[2] & 4 else 8)
        for name in SECTIONS:
            size = int.from_bytes(data[offset : offset + 4], "little")
            setattr(debug, name, bytearray(data[offset + 4 : offset + 4 + size]))
            offset += 4 + size
        files.append(debug)
    return files[0], files[1], data[offset:]


def program(debug: Debug) -> Debug:
    """A bit of everything a walk meets."""
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "helper")])
    lists = debug.range_list((0x4000, 0x4010), (0x5000, 0x5010))
    debug.rnglists += b"\7" + debug.number(0x4000, debug.address_size) + b"\x10\4\x01\x02\0"
    spread = Die(
        d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "spread"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, lists)]
    )
    members = [
        Die(d.DW_TAG_member, [(d.DW_AT_name, d.DW_FORM_strp, "m"), (d.DW_AT_location, d.DW_FORM_exprloc, b"abc")])
    ]
    kind = Die(
        d.DW_TAG_structure_type,
        [(d.DW_AT_name, d.DW_FORM_string, "kind"), (d.DW_AT_sibling, d.DW_FORM_ref4, None)],
        members,
    )
    space = Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "space")], [function("inside", 0x3000, 8)])
    main = function("main", 0x1000, 0x40, Die(d.DW_TAG_lexical_block, [], [inlined(helper, 0x1010, 0x10, 7)]))
    for language in (4, 12):
        root = [
            (d.DW_AT_language, d.DW_FORM_data1, language),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_data2, 0x5000),
        ]
        debug.unit(Die(d.DW_TAG_compile_unit, root, [kind, helper, main, spread, space]))
    return debug


def hostile() -> list[bytes]:
    """Small ones of what tests/hostile has: units and functions that share attributes without bytes, empty units."""
    nothing = [(0x2FFF, d.DW_FORM_flag_present, 1)] * 500
    shared, many = Debug(4), Debug(4)
    for n in range(40):
        shared.unit(Die(d.DW_TAG_compile_unit, nothing), abbrev_at=0 if n else None)
    shared.info += bytes(64)
    location = [
        (d.DW_AT_name, d.DW_FORM_string, "f"),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
        (d.DW_AT_high_pc, d.DW_FORM_data4, 16),
    ]
    many.unit(Die(d.DW_TAG_compile_unit, [], [Die(d.DW_TAG_subprogram, [*location, *nothing]) for _ in range(40)]))
    return [pack(shared), pack(many)]


def seeds() -> list[bytes]:
    result = [
        pack(program(Debug(2, "little", 4))),
        pack(program(Debug(3, "big", 8, True))),
        pack(program(Debug(4))),
        pack(program(Debug(5, "big", 4))),
        pack(program(Debug(5, "little", 8, True))),
    ]
    result += hostile()
    return result + [pack(split.skeleton(version), *split.package(version)) for version in (4, 5)]


def target(data: bytes) -> None:
    debug, package, index = unpack(data)
    elf = ElfFile.from_bytes(debug.elf())
    info = DebugInfo(elf, strings=StringSpace(), dwp=lambda: split.packaged(package, index))
    info.units_at([0x1000, 0x4000])
    table = info.ranges(jobs=1)
    for name in set(table.function):
        info.strings.text(name)
