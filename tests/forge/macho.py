"""Forging Mach-O files of both widths and byte orders, thin and fat.

    forge([Section("__TEXT", "__text", code, vaddr=0x100001000)], symbols=[Symbol("_main", 0x100001000)])

A segment is made for each segment name, in order. Its bytes start on a page of their own, so that a vaddr and a file
offset never agree by themselves.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whence._base.window import ByteOrder
from whence.objects.macho import layout

CODE = layout.CODE_ATTRIBUTES
X86_64, ARM64 = (0x01000007, 3), (0x0100000C, 0)
UUID = bytes(range(0x10, 0x20))
MARKS = {"little": "<", "big": ">"}


@dataclass(frozen=True, slots=True)
class Section:
    segment: str
    name: str
    data: bytes = b""
    vaddr: int = 0
    flags: int = 0
    size: int | None = None  # in the header, if that is not len(data)
    relocations: bytes = b""


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    value: int
    type: int = 0x0F  # N_SECT | N_EXT
    section: int = 1
    description: int = 0


def debug_map(path: str, *functions: tuple[str, int, int], time: int = 0) -> list[Symbol]:
    """Entries of an object file and its functions (name, vaddr, size), as linkers write them."""
    entries = [Symbol("/src/", 0, 0x64, 0), Symbol("a.c", 0, 0x64, 0), Symbol(path, time, 0x66, 0, 1)]
    for name, vaddr, size in functions:
        entries += [Symbol("", vaddr, 0x2E), Symbol(name, vaddr, 0x24)]
        entries += [Symbol("", size, 0x24, 0), Symbol("", size, 0x4E)]
    return [*entries, Symbol("", 0, 0x64)]


def text(vaddr: int = 0x100001000, size: int = 0x100) -> Section:
    return Section("__TEXT", "__text", b"\xcc" * size, vaddr, CODE)


def dwarf_sections(contents: Mapping[str, bytes]) -> list[Section]:
    """The sections of debug info by their names after .debug_, names cut as linkers cut them."""
    return [Section("__DWARF", f"__debug_{name}"[:16], data, 0x200000000) for name, data in contents.items()]


def command(number: int, body: bytes, mark: str = "<") -> bytes:
    body += bytes(-len(body) % 8)
    return struct.pack(mark + "II", number, 8 + len(body)) + body


def starts(*deltas: int) -> bytes:
    out = bytearray()
    for delta in deltas:
        while delta > 0x7F:
            out.append(delta & 0x7F | 0x80)
            delta >>= 7
        out.append(delta)
    return bytes(out) + b"\0"


def forge(
    sections: Sequence[Section] = (),
    *,
    symbols: Sequence[Symbol] | None = None,
    function_starts: bytes = b"",
    uuid: bytes = UUID,
    commands: Sequence[bytes] = (),
    cpu: tuple[int, int] = X86_64,
    type: int = 2,
    bits: int = 64,
    order: ByteOrder = "little",
    page: int = 0x400,
) -> bytes:
    """A Mach-O file. In a dSYM (type 10) only the bytes of __DWARF are in the file."""
    mark = MARKS[order]
    names = list(dict.fromkeys(section.segment for section in sections))
    layouts, body, more = [], bytearray(), list(commands)
    base = page * 4
    for name in names:
        inside = [section for section in sections if section.segment == name]
        stored = type != 10 or name == "__DWARF"
        start = base + len(body)
        offsets = []
        for section in inside:
            offsets.append(base + len(body) if stored else 0)
            body += section.data if stored else b""
        size = base + len(body) - start
        body += bytes(-len(body) % page)
        first = min(section.vaddr for section in inside)
        low = first - first % page
        spans = [section.vaddr + (len(section.data) if section.size is None else section.size) for section in inside]
        layouts.append((name, inside, offsets, start - (first - low), low, size + (first - low) if size else 0, spans))

    def blob(data: bytes) -> tuple[int, int]:
        offset = base + len(body)
        body.extend(data)
        return offset, len(data)

    if symbols is not None:
        table, strings = bytearray(), bytearray(b" \0")
        for symbol in symbols:
            fields = (len(strings), symbol.type, symbol.section, symbol.description, symbol.value)
            table += struct.pack(mark + layout.SYMBOL[bits], *fields)
            strings += symbol.name.encode() + b"\0"
        offset, _ = blob(bytes(table))
        more.append(
            command(layout.LC_SYMTAB, struct.pack(mark + "4I", offset, len(symbols), *blob(bytes(strings))), mark)
        )
    if function_starts:
        more.append(command(layout.LC_FUNCTION_STARTS, struct.pack(mark + "II", *blob(function_starts)), mark))
    if uuid:
        more.append(command(layout.LC_UUID, uuid, mark))
    tables = {
        section: (blob(section.relocations)[0], len(section.relocations) // 8) if section.relocations else (0, 0)
        for section in sections
    }
    loads = []
    for name, inside, offsets, file_offset, low, size, spans in layouts:
        protection = 5 if any(section.flags & CODE for section in inside) else 3
        rows = b"".join(
            struct.pack(
                mark + layout.SECTION[bits], section.name.encode(), name.encode(), section.vaddr,
                len(section.data) if section.size is None else section.size, offset, 0,
                *tables[section], section.flags,
                *[0] * (2 if bits == 32 else 3),
            )
            for section, offset in zip(inside, offsets, strict=True)
        )  # fmt: skip
        head = struct.pack(
            mark + layout.SEGMENT[bits], name.encode(), low, max(spans) - low, file_offset if size else 0, size, 7,
            protection, len(inside), 0,
        )  # fmt: skip
        number = layout.LC_SEGMENT if bits == 32 else layout.LC_SEGMENT_64
        loads.append(struct.pack(mark + "II", number, 8 + len(head) + len(rows)) + head + rows)
    every = b"".join([*loads, *more])
    magic = layout.MAGIC_32 if bits == 32 else layout.MAGIC_64
    header = struct.pack(mark + "I" + layout.HEADER, magic, *cpu, type, len(loads) + len(more), len(every), 0)
    head_bytes = header + bytes(layout.HEADER_SIZE[bits] - len(header)) + every
    assert len(head_bytes) <= base
    return head_bytes.ljust(base, b"\0") + bytes(body)


def fat(*files: tuple[tuple[int, int], bytes], wide: bool = False, page: int = 0x1000) -> bytes:
    """A fat file of (cpu and subtype, bytes)."""
    magic = layout.FAT_MAGIC_64 if wide else layout.FAT_MAGIC
    form = layout.FAT_ENTRY[magic]
    head = bytearray(struct.pack(">II", magic, len(files)))
    body = bytearray()
    for cpu, data in files:
        extra = (0,) if wide else ()
        head += struct.pack(form, *cpu, page + len(body), len(data), 12, *extra)
        body += data + bytes(-len(data) % page)
    return bytes(head.ljust(page, b"\0") + body)
