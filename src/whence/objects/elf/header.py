"""The ELF header: the kind of file, and the offsets of its two tables.

Counts that exceed the header's 16-bit fields (more than 65,279 sections, 65,535 segments) are in section 0 (gABI, "ELF
Header"): e_shnum 0 -> sh_size, e_phnum PN_XNUM -> sh_info, e_shstrndx SHN_XINDEX -> sh_link.
"""

from __future__ import annotations

import struct

from whence._base.errors import ElfError, cut_off, empty_file, wrong_magic
from whence._base.records import Record
from whence._base.window import ByteOrder, Window
from whence.objects.elf import layout
from whence.objects.elf.kernels import constants

# what people give by mistake, by the first four bytes
HINTS = {
    b".dia": "it is a lidia archive: whence addr and whence lidia info, verify and dump read it",
    b".dic": "it is a compact lidia archive: whence addr and whence lidia info, verify and dump read it",
    b"go 1": "it is a Go execution trace: whence trace reads it",
    b"!<ar": "it is a library of object files: ar x takes them out",
}


class HeaderTable(Record, frozen=True):
    """A table of headers: `count` entries of `stride` bytes from `file_offset`."""

    file_offset: int
    stride: int
    count: int


class Header(Record, frozen=True):
    bits: int
    order: ByteOrder
    type: int
    machine: int
    entry: int
    flags: int
    segments: HeaderTable
    sections: HeaderTable
    names_index: int  # the section that holds the sections' names


def read_header(data: memoryview) -> Header:
    """Return the header, with overflowing counts read from section 0.

    A table that exceeds the file raises an error when it is read, not here.
    """
    if not len(data):
        raise empty_file(ElfError)
    ident = Window(data, "header", "little", ElfError)
    magic = ident.raw(0, min(4, len(data)))
    if magic != layout.MAGIC:
        raise wrong_magic(ElfError, "an ELF file", magic, layout.MAGIC).with_hint(HINTS.get(magic, ""))
    ident.need(0, constants.EI_NIDENT)
    bits = layout.BITS_OF_CLASS.get(data[constants.EI_CLASS])
    if bits is None:
        raise ElfError(
            "header", constants.EI_CLASS, f"the class is {data[constants.EI_CLASS]}, expected 1 (32-bit) or 2 (64-bit)"
        )
    order = layout.ORDER_OF_DATA.get(data[constants.EI_DATA])
    if order is None:
        fault = f"the byte order is {data[constants.EI_DATA]}, expected 1 (little) or 2 (big)"
        raise ElfError("header", constants.EI_DATA, fault)
    window = Window(data, "header", order, ElfError)
    (
        type_,
        machine,
        _version,
        entry,
        segment_offset,
        section_offset,
        flags,
        _size,
        segment_stride,
        segment_count,
        section_stride,
        section_count,
        names_index,
    ) = window.unpack(layout.HEADER[bits], constants.EI_NIDENT)
    overflows = section_count == 0 or segment_count == constants.PN_XNUM or names_index == constants.SHN_XINDEX
    if section_offset and overflows:
        first = _section_zero(data, bits, order, section_offset)
        if first is not None:
            size, link, info = first
            section_count = section_count or size
            segment_count = info if segment_count == constants.PN_XNUM and info else segment_count
            names_index = link if names_index == constants.SHN_XINDEX else names_index
    return Header(
        bits,
        order,
        type_,
        machine,
        entry,
        flags,
        HeaderTable(segment_offset, segment_stride, segment_count if segment_offset else 0),
        HeaderTable(section_offset, section_stride, section_count if section_offset else 0),
        names_index,
    )


def _section_zero(data: memoryview, bits: int, order: ByteOrder, file_offset: int) -> tuple[int, int, int] | None:
    """Return sh_size, sh_link and sh_info of section 0; None if it is outside the file."""
    form = layout.ORDER_MARK[order] + layout.SECTION[bits]
    if file_offset + struct.calcsize(form) > len(data):
        return None
    fields = struct.unpack_from(form, data, file_offset)
    return fields[5], fields[6], fields[7]


def entries(data: memoryview, header: Header, table: HeaderTable, form: str, part: str) -> list[tuple[int, ...]]:
    """Return the fields of every entry of a table of headers. Raises ElfError if the table exceeds the file."""
    full = layout.ORDER_MARK[header.order] + form
    size = struct.calcsize(full)
    if not table.count:
        return []
    if table.stride < size:
        raise ElfError(part, None, f"an entry has {table.stride} bytes, expected at least {size}")
    needed = table.count * table.stride
    if table.file_offset + needed > len(data):
        raise cut_off(ElfError, part, None, needed, max(0, len(data) - table.file_offset))
    if table.stride == size:
        return list(struct.iter_unpack(full, data[table.file_offset : table.file_offset + table.count * size]))
    position = range(table.file_offset, table.file_offset + table.count * table.stride, table.stride)
    return [struct.unpack_from(full, data, offset) for offset in position]
