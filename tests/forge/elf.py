"""Forging ELF files of both classes and byte orders.

    forge([Section(".text", code, vaddr=0x401000, flags=6)], [Segment(1, 5, of=".text")], symbols=[Symbol("main", ...)])

Sections follow the headers in order; .symtab/.strtab, .dynsym/.dynstr and .shstrtab are added.
p_vaddr and p_offset never agree by themselves: a mix-up of vaddr and file_offset fails a test.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whence._base.window import ByteOrder
from whence.objects.elf import layout
from whence.objects.elf.kernels import constants

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    data: bytes = b""
    type: int = 1
    flags: int = 0
    vaddr: int = 0
    link: int | str = 0  # an index, or another section's name
    info: int | str = 0
    align: int = 1
    entry_size: int = 0
    size: int | None = None  # in the header, if not len(data): for SHT_NOBITS and damaged files
    file_offset: int | None = None  # in the header, if not the offset of the data


@dataclass(frozen=True, slots=True)
class Segment:
    type: int = 1
    flags: int = 5
    of: str | None = None  # the section whose bytes and vaddr it takes; what is given below wins
    file_offset: int | None = None
    vaddr: int | None = None
    file_size: int | None = None
    memory_size: int | None = None
    align: int = 1


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    value: int = 0
    size: int = 0
    type: int = constants.STT_FUNC
    bind: int = constants.STB_GLOBAL
    section: int | str = ".text"  # an index (0 undefined), or a section's name
    other: int = 0


def mark(order: ByteOrder) -> str:
    return "<" if order == "little" else ">"


def note(owner: str, type: int, desc: bytes, order: ByteOrder = "little", align: int = 4) -> bytes:
    """One note, padded."""
    name = owner.encode() + b"\0"
    out = struct.pack(mark(order) + "III", len(name), len(desc), type) + name
    out += bytes(-len(out) % align) + desc
    return out + bytes(-len(out) % align)


def build_id_note(build_id: str, order: ByteOrder = "little") -> Section:
    """A .note.gnu.build-id section."""
    return Section(".note.gnu.build-id", note("GNU", 3, bytes.fromhex(build_id), order), type=7, flags=2, align=4)


def debug_link(name: str, crc: int, order: ByteOrder = "little") -> Section:
    text = name.encode() + b"\0"
    return Section(".gnu_debuglink", text + bytes(-len(text) % 4) + struct.pack(mark(order) + "I", crc))


def packed(section: Section, method: str, bits: int = 64, order: ByteOrder = "little") -> Section:
    """The section compressed: "zlib" or "zstd" (SHF_COMPRESSED), or "zdebug" (.zdebug_* as before there was a flag)."""
    if method == "zdebug":
        body = b"ZLIB" + struct.pack(">Q", len(section.data)) + zlib.compress(section.data)
        return replace(section, name=".z" + section.name[1:], data=body)
    if method == "zlib":
        body, number = zlib.compress(section.data), 1
    else:
        body, number = zstd.compress(section.data), 2
    fields = (number, len(section.data), 1) if bits == 32 else (number, 0, len(section.data), 1)
    head = struct.pack(mark(order) + layout.COMPRESSION[bits], *fields)
    return replace(section, data=head + body, flags=section.flags | constants.SHF_COMPRESSED)


def symbol_tables(
    symbols: Sequence[Symbol], indexes: dict[str, int], bits: int = 64, order: ByteOrder = "little"
) -> tuple[bytes, bytes]:
    """A symbol table (with its null entry) and its string table."""
    table = bytearray(layout.SYMBOL_SIZE[bits])
    names = bytearray(b"\0")
    for symbol in symbols:
        section = indexes[symbol.section] if isinstance(symbol.section, str) else symbol.section
        info = symbol.bind << 4 | symbol.type
        offset = len(names) if symbol.name else 0
        if symbol.name:
            names += symbol.name.encode("utf-8", "surrogateescape") + b"\0"
        if bits == 64:
            table += struct.pack(mark(order) + "IBBHQQ", offset, info, symbol.other, section, symbol.value, symbol.size)
        else:
            table += struct.pack(mark(order) + "IIIBBH", offset, symbol.value, symbol.size, info, symbol.other, section)
    return bytes(table), bytes(names)


def forge(
    sections: Sequence[Section] = (),
    segments: Sequence[Segment] = (),
    *,
    symbols: Sequence[Symbol] | None = None,
    dynamic_symbols: Sequence[Symbol] | None = None,
    bits: int = 64,
    order: ByteOrder = "little",
    type: int = constants.ET_DYN,
    machine: int = constants.EM_X86_64,
    entry: int = 0,
    section_table: bool = True,
    big_counts: bool = False,
) -> bytes:
    """An ELF file. `big_counts` puts the counts into section 0, as files with more than 65,279 sections have them."""
    every = [Section("", type=0), *sections]
    indexes = {section.name: index for index, section in reversed(list(enumerate(every)))}
    for given, table_name, names_name, kind in (
        (symbols, ".symtab", ".strtab", constants.SHT_SYMTAB),
        (dynamic_symbols, ".dynsym", ".dynstr", constants.SHT_DYNSYM),
    ):
        if given is not None:
            table, names = symbol_tables(given, indexes, bits, order)
            size = layout.SYMBOL_SIZE[bits]
            every.append(Section(table_name, table, kind, link=len(every) + 1, info=1, align=8, entry_size=size))
            every.append(Section(names_name, names, constants.SHT_STRTAB))
    every.append(Section(".shstrtab", b"", constants.SHT_STRTAB))
    indexes = {section.name: index for index, section in reversed(list(enumerate(every)))}

    names_data = bytearray(b"\0")
    name_at = []
    for section in every:
        name_at.append(len(names_data) if section.name else 0)
        if section.name:
            names_data += section.name.encode() + b"\0"
    every[-1] = replace(every[-1], data=bytes(names_data))

    head = mark(order)
    header_size = constants.EI_NIDENT + struct.calcsize(head + layout.HEADER[bits])
    segment_size = struct.calcsize(head + layout.SEGMENT[bits])
    section_size = struct.calcsize(head + layout.SECTION[bits])
    out = bytearray(header_size + segment_size * len(segments))
    offsets = []
    for section in every:
        out += bytes(-len(out) % max(1, section.align))
        offsets.append(len(out))
        out += section.data
    out += bytes(-len(out) % 8)
    section_table_at = len(out)

    def index_of(value: int | str) -> int:
        return indexes[value] if isinstance(value, str) else value

    if section_table:
        for index, (section, offset, name) in enumerate(zip(every, offsets, name_at)):
            size = len(section.data) if section.size is None else section.size
            link, info = index_of(section.link), index_of(section.info)
            position = (offset if section.type else 0) if section.file_offset is None else section.file_offset
            if index == 0 and big_counts:
                size, link, info = len(every), len(every) - 1, len(segments)
            out += struct.pack(
                head + layout.SECTION[bits],
                *(name, section.type, section.flags, section.vaddr, position, size),
                *(link, info, section.align, section.entry_size),
            )
    for index, segment in enumerate(segments):
        offset, vaddr, size = 0, 0, 0
        if segment.of is not None:
            which = indexes[segment.of]
            offset, vaddr, size = offsets[which], every[which].vaddr, len(every[which].data)
        offset = offset if segment.file_offset is None else segment.file_offset
        vaddr = vaddr if segment.vaddr is None else segment.vaddr
        size = size if segment.file_size is None else segment.file_size
        memory = size if segment.memory_size is None else segment.memory_size
        fields = (segment.type, segment.flags, offset, vaddr, vaddr, size, memory, segment.align)
        if bits == 32:
            fields = (segment.type, offset, vaddr, vaddr, size, memory, segment.flags, segment.align)
        struct.pack_into(head + layout.SEGMENT[bits], out, header_size + index * segment_size, *fields)
    ident = layout.MAGIC + bytes([bits // 32, 1 if order == "little" else 2, 1]) + bytes(9)
    struct.pack_into(
        head + f"16s{layout.HEADER[bits]}",
        out,
        0,
        *(ident, type, machine, 1, entry),
        *(header_size if segments else 0, section_table_at if section_table else 0, 0, header_size),
        *(segment_size, constants.PN_XNUM if big_counts else len(segments)),
        *(section_size, 0 if big_counts or not section_table else len(every)),
        (constants.SHN_XINDEX if big_counts else len(every) - 1) if section_table else 0,
    )
    return bytes(out)
