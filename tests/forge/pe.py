"""Forging PE files: sections with long names, COFF symbols, exports, .pdata and a CodeView record."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whence.objects.pe import layout

BASE = 0x140000000
GUID = bytes(range(0x20, 0x30))
CODE, DATA, DEBUG = 0x60000020, 0xC0000040, 0x42000040
ALIGNMENT, PAGE = 0x200, 0x1000


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    data: bytes
    flags: int = DATA
    relocations: Sequence[tuple[int, int, int]] = ()  # of an object file: offset, symbol, type


@dataclass(frozen=True, slots=True)
class Symbol:
    name: str
    value: int
    section: int = 1
    type: int = layout.FUNCTION_TYPE
    storage: int = layout.CLASS_EXTERNAL
    auxiliary: int = 0


def codeview(rva: int, offset: int, path: bytes = b"", age: int = 1, guid: bytes = GUID) -> bytes:
    """A debug directory with one entry, and its record after it."""
    record = layout.RSDS + guid + struct.pack("<I", age) + path + b"\0"
    return struct.pack(layout.DEBUG_ENTRY, 0, 0, 0, 0, 2, len(record), rva + 28, offset + 28) + record


def exports(rva: int, named: Sequence[tuple[str, int]]) -> bytes:
    """An export directory at an RVA, of names and RVAs."""
    count = len(named)
    tables = rva + 40
    names = tables + 10 * count
    pointers, text = [], b""
    for name, _ in named:
        pointers.append(names + len(text))
        text += name.encode() + b"\0"
    head = struct.pack("<IIHHIII", 0, 0, 0, 0, 0, 1, count) + struct.pack(
        "<4I", count, tables, tables + 4 * count, tables + 8 * count
    )
    body = struct.pack(f"<{count}I", *(target for _, target in named)) + struct.pack(f"<{count}I", *pointers)
    return head + body + struct.pack(f"<{count}H", *range(count)) + text


def forge(
    sections: Sequence[Section],
    *,
    symbols: Sequence[Symbol] = (),
    directories: dict[int, tuple[int, int]] | None = None,
    machine: int = 0x8664,
    base: int = BASE,
    wide: bool = True,
) -> bytes:
    """A PE file. Section number n (from 1) starts at RVA n * PAGE; its bytes are padded to ALIGNMENT."""
    strings = bytearray(4)

    def long(name: str) -> int:
        strings.extend(name.encode() + b"\0")
        return len(strings) - len(name.encode()) - 1

    body, rows = bytearray(), []
    for number, section in enumerate(sections, 1):
        raw = section.name.encode()
        if len(raw) > 8:
            raw = f"/{long(section.name)}".encode()
        size = len(section.data) + -len(section.data) % ALIGNMENT
        fields = (len(section.data), number * PAGE, size, PAGE + len(body), 0, 0, 0, 0, section.flags)
        rows.append(struct.pack(layout.SECTION, raw, *fields))
        body += section.data.ljust(size, b"\0")
    table = bytearray()
    count = 0
    for symbol in symbols:
        raw = symbol.name.encode()
        if len(raw) > 8:
            raw = struct.pack("<II", 0, long(symbol.name))
        numbers = (symbol.value, symbol.section, symbol.type, symbol.storage, symbol.auxiliary)
        table += struct.pack(layout.SYMBOL, raw, *numbers) + bytes(18 * symbol.auxiliary)
        count += 1 + symbol.auxiliary
    struct.pack_into("<I", strings, 0, len(strings))
    optional = bytearray(240 if wide else 224)
    struct.pack_into("<H", optional, 0, layout.PE32_PLUS if wide else layout.PE32)
    struct.pack_into("<I", optional, layout.ENTRY_RVA, PAGE)
    form, offset = layout.BASE[layout.PE32_PLUS if wide else layout.PE32]
    struct.pack_into(form, optional, offset, base)
    struct.pack_into("<II", optional, layout.IMAGE_SIZE, (len(sections) + 1) * PAGE, PAGE)
    first = layout.DIRECTORIES[layout.PE32_PLUS if wide else layout.PE32]
    struct.pack_into("<I", optional, first - 4, 16)
    for index, location in (directories or {}).items():
        struct.pack_into("<II", optional, first + 8 * index, *location)
    head = bytearray(b"MZ".ljust(0x80, b"\0"))
    struct.pack_into("<I", head, layout.HEADER_OFFSET, len(head))
    coff = struct.pack(layout.COFF, machine, len(sections), 0x5F000000, PAGE + len(body), count, len(optional), 0x22)
    head += layout.MAGIC + coff + optional + b"".join(rows)
    assert len(head) <= PAGE
    return bytes(head.ljust(PAGE, b"\0") + body + table + strings)


def forge_object(
    sections: Sequence[Section], *, symbols: Sequence[Symbol] = (), machine: int = 0x8664, big: bool = False
) -> bytes:
    """A COFF object file; a bigobj file if `big`."""
    strings = bytearray(4)

    def short(name: str, long_form: Callable[[int], bytes]) -> bytes:
        raw = name.encode()
        if len(raw) <= 8:
            return raw
        strings.extend(raw + b"\0")
        return long_form(len(strings) - len(raw) - 1)

    head = 56 if big else 20
    start = head + 40 * len(sections)
    body, rows = bytearray(), []
    for section in sections:
        raw = short(section.name, lambda offset: f"/{offset}".encode())
        table = b"".join(struct.pack("<IIH", *row) for row in section.relocations)
        fields = (0, 0, len(section.data), start + len(body), start + len(body) + len(section.data) if table else 0, 0)
        rows.append(struct.pack(layout.SECTION, raw, *fields, len(section.relocations), 0, section.flags))
        body += section.data + table
    form = "<8sIiHBB" if big else layout.SYMBOL
    entries = [
        struct.pack(
            form, short(each.name, lambda offset: struct.pack("<II", 0, offset)), each.value, each.section, each.type,
            each.storage, each.auxiliary,
        ) + bytes((20 if big else 18) * each.auxiliary)
        for each in symbols
    ]  # fmt: skip
    count = len(symbols) + sum(each.auxiliary for each in symbols)
    struct.pack_into("<I", strings, 0, len(strings))
    if big:
        table_of = (len(sections), start + len(body), count)
        header = struct.pack(layout.BIG_HEADER, 0, 0xFFFF, 2, machine, layout.BIG_CLASS_ID, *table_of)
    else:
        header = struct.pack(layout.COFF, machine, len(sections), 0, start + len(body), count, 0, 0)
    return header + b"".join(rows) + bytes(body) + b"".join(entries) + bytes(strings)
