"""Split DWARF: skeletons, .dwo files, packages."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die
from tests.forge.elf import Section, forge
from tests.forge.lines import uleb
from whence.dwarf import Unit
from whence.objects.elf import ElfFile

IDS = (0x1111222233334444, 0x5555666677778888)


def skeleton(version: int, ids: tuple[int, ...] = IDS, lines: bytes = b"") -> Debug:
    """A binary with a skeleton per id: unit n has its addresses from 0x1000 * (n + 1) on. All share the `lines`."""
    debug = Debug(version)
    debug.line += lines
    more = [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0), (d.DW_AT_comp_dir, d.DW_FORM_string, "/src")] if lines else []
    debug.addr += bytes(8)
    for n, number in enumerate(ids):
        offset = 0x1000 * (n + 1)
        base = len(debug.addr)
        for address in (offset, offset + 0x10, offset + 0x100):
            debug.addr += debug.number(address, 8)
        if version == 5:
            root = [
                (d.DW_AT_dwo_name, d.DW_FORM_strp, f"{n}.dwo"),
                (d.DW_AT_addr_base, d.DW_FORM_sec_offset, base),
                (d.DW_AT_low_pc, d.DW_FORM_addrx, 0),
            ]
            debug.unit(Die(d.DW_TAG_compile_unit, root + more), kind=4, extra=debug.number(number, 8))
        else:
            lists = len(debug.ranges)
            debug.range_list((0, 0x10), (0x100, 0x110))
            root = [
                (d.DW_AT_GNU_dwo_name, d.DW_FORM_strp, f"{n}.dwo"), (d.DW_AT_GNU_dwo_id, d.DW_FORM_data8, number),
                (d.DW_AT_GNU_addr_base, d.DW_FORM_sec_offset, base),
                (d.DW_AT_GNU_ranges_base, d.DW_FORM_sec_offset, lists), (d.DW_AT_low_pc, d.DW_FORM_addr, offset),
            ]  # fmt: skip
            debug.unit(Die(d.DW_TAG_compile_unit, root + more))
    return debug


Attributes = list[tuple[int, int, object]]


def split(version: int, number: int, name: str, debug: Debug | None = None, extra: Attributes | None = None) -> Debug:
    """A split unit: a function in two parts by range list, with an inlined call by address index."""
    debug = debug or Debug(version)
    places = b"".join(debug.offset(debug.text(text)) for text in (name, f"{name}_inner"))
    if version == 5:
        debug.str_offsets += debug.length(b"\5\0\0\0" + places)
        entries = b"\3" + uleb(0) + uleb(0x10) + b"\3" + uleb(2) + uleb(0x10) + b"\0"
        debug.rnglists += debug.length(b"\5\0\x08\0" + debug.number(1, 4) + debug.offset(4) + entries)
        name_form, index, lists = d.DW_FORM_strx1, d.DW_FORM_addrx, (d.DW_AT_ranges, d.DW_FORM_rnglistx, 0)
    else:
        debug.str_offsets += places
        name_form, index, lists = (
            d.DW_FORM_GNU_str_index,
            d.DW_FORM_GNU_addr_index,
            (d.DW_AT_ranges, d.DW_FORM_sec_offset, 0),
        )
    inner = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, name_form, 1), *(extra or [])])
    call = Die(
        d.DW_TAG_inlined_subroutine,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref4, inner),
            (d.DW_AT_low_pc, index, 0),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
            (d.DW_AT_call_line, d.DW_FORM_data1, 9),
        ],
    )
    outer = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, name_form, 0), *(extra or []), lists], [call])
    root: list[tuple[int, int, object]] = [] if version == 5 else [(d.DW_AT_GNU_dwo_id, d.DW_FORM_data8, number)]
    id_ = debug.number(number, 8) if version == 5 else b""
    return debug.unit(Die(d.DW_TAG_compile_unit, root, [inner, outer]), kind=5, extra=id_)


def dwo_files(
    version: int, ids: tuple[int, ...] = IDS, extra: Attributes | None = None
) -> Callable[[Unit], ElfFile | None]:
    files = {
        f"{n}.dwo": ElfFile.from_bytes(split(version, number, f"f{n}", extra=extra).elf(suffix=".dwo"))
        for n, number in enumerate(ids)
    }
    return lambda unit: files.get(unit.dwo_name)


def package(version: int) -> tuple[Debug, bytes]:
    """Both units in one package, and its index; each one's offsets count from its own share."""
    debug = Debug(version)
    shares = []
    for n, number in enumerate(IDS):
        begin = len(debug.info), len(debug.abbrev), len(debug.str_offsets), len(debug.rnglists)
        split(version, number, f"f{n}", debug)
        struct.pack_into("<I", debug.info, begin[0] + (8 if version == 5 else 6), 0)  # its abbreviations' offset
        shares.append((number, begin))
    kinds = (1, 3, 6, 8) if version == 5 else (1, 3, 6)
    head = struct.pack("<HHIII" if version == 5 else "<IIII", *((5, 0) if version == 5 else (2,)), len(kinds), 2, 4)
    slots = [0] * 4
    places = [0] * 4
    for row, (number, _) in enumerate(shares):
        offset = next(slot for slot in range(4) if not slots[slot])
        slots[offset], places[offset] = number, row + 1
    index = head + struct.pack("<4Q4I", *slots, *places) + struct.pack(f"<{len(kinds)}I", *kinds)
    for _, begin in shares:
        index += struct.pack(f"<{len(kinds)}I", *begin[: len(kinds)])
    return debug, index + bytes(4 * len(kinds) * 2)


def packaged(debug: Debug, index: bytes) -> ElfFile:
    sections = [
        Section(f".debug_{name}.dwo", bytes(getattr(debug, attribute)))
        for name, attribute in (
            ("info", "info"), ("abbrev", "abbrev"), ("str", "strings"), ("str_offsets", "str_offsets"),
            ("rnglists", "rnglists"),
        )
    ]  # fmt: skip
    return ElfFile.from_bytes(forge([*sections, Section(".debug_cu_index", index)]))
