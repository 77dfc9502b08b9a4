"""Forging Go programs: a table of each layout, the moduledata that belongs to it, an ELF file around both.

    program([Function("main.main", 32, lines=[(0, 10), (8, 11)], files=[(0, 0)])], since="1.20")

Functions follow one another, starting at TEXT. A function's `lines`, `files` and `inlined` are (offset, value) steps.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.forge.elf import Section, Segment, Symbol, forge, mark
from whence._base.window import ByteOrder
from whence.gopclntab.header import VERSIONS, PclntabVersion
from whence.gopclntab.inlining import SHAPES, Shape
from whence.gopclntab.moduledata import GOFUNC, SECTION_MAP, WORDS

TEXT = 0x401000
TABLE = 0x600000
TREES = 0x700000
MODULE = 0x800000
PIECES = 0x900000


@dataclass(frozen=True, slots=True)
class Node:
    """An inlined call: what, its parent node, where it was called from."""

    name: str
    parent: int = -1
    file: int = 0
    line: int = 0
    pc: int = 0
    start: int = 1


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    size: int = 16
    lines: Sequence[tuple[int, int]] = ()
    files: Sequence[tuple[int, int]] = ()
    inlined: Sequence[tuple[int, int]] = ()
    nodes: Sequence[Node] = ()
    padding: int = 0
    raw_lines: bytes | None = None  # the encoded table itself
    start: int = 1


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def steps(values: Sequence[tuple[int, int]], size: int, quantum: int) -> bytes:
    """A pc-value table: each value from its offset to the next one's, the last to the function's end."""
    out = bytearray()
    before = -1
    ends = [offset for offset, _ in values[1:]] + [size]
    for (start, value), end in zip(values, ends):
        delta = value - before
        out += varint(((delta << 1) ^ (delta >> 31)) & 0xFFFFFFFF) + varint((end - start) // quantum)
        before = value
    return bytes(out) + b"\0"


@dataclass(slots=True)
class Strings:
    data: bytearray = field(default_factory=bytearray)
    known: dict[str, int] = field(default_factory=dict)

    def add(self, text: str, start: int = 0) -> int:
        if text not in self.known:
            self.known[text] = len(self.data) + start
            self.data += text.encode() + b"\0"
        return self.known[text]


def version_of(since: str) -> PclntabVersion:
    return next(version for version in VERSIONS if version.since == since)


def tables(
    functions: Sequence[Function],
    files: Sequence[str],
    since: str,
    pointer: int,
    order: ByteOrder,
    quantum: int,
    header_text: int,
    shape: Shape,
) -> tuple[bytes, bytes]:
    """Return the bytes of the table, for address TABLE, and of the trees, for address TREES."""
    version = version_of(since)
    head, word = mark(order), "I" if pointer == 4 else "Q"
    field_code = "I" if version.relative else word
    field_size = 4 if version.relative else pointer
    old = since == "1.2"
    header_size = 8 + pointer * len(version.words)
    functab_size = (2 * len(functions) + 1) * field_size + (4 if old else 0)

    names, texts, pctab, trees = Strings(), Strings(), bytearray(b"\0"), bytearray()
    text_start = header_size + functab_size if old else 0  # 1.2: offsets of everything count from the table's start
    if old:
        names = texts
    for function in functions:
        names.add(function.name, text_start)
        for node in function.nodes:
            names.add(node.name, text_start)
    numbers = [texts.add(name, text_start) for name in files]
    if old:
        units = struct.pack(f"{head}{len(files) + 1}I", len(files) + 1, *numbers)
    else:
        units = struct.pack(f"{head}{len(files)}I", *numbers)
    align = lambda data, size: data + bytes(-len(data) % size)  # noqa: E731

    name_bytes, text_bytes = align(bytes(names.data), pointer), align(bytes(texts.data), pointer)
    pctab_start = text_start + len(name_bytes) if old else 0

    def encoded(values: Sequence[tuple[int, int]], size: int, raw: bytes | None = None) -> int:
        if not values and raw is None:
            return 0
        offset = pctab_start + len(pctab)
        pctab.extend(steps(values, size, quantum) if raw is None else raw)
        return offset

    bodies = []
    for function in functions:
        tree = None
        if function.nodes:
            tree = len(trees) if version.relative else TREES + len(trees)
            for node in function.nodes:
                offset = names.known[node.name]
                if shape.parent_width == 0:
                    trees += struct.pack(head + "B3xIII", 0, offset, node.pc, node.start)
                elif shape.size == 20:
                    trees += struct.pack(head + "hBxiIII", node.parent, 0, node.file, node.line, offset, node.pc)
                else:
                    trees += struct.pack(head + "iiII", node.parent, node.file, node.line, offset)
        pcdata = [0] * (shape.pcdata + 1)
        pcdata[shape.pcdata] = encoded(function.inlined, function.size)
        body = struct.pack(head + "III", names.known[function.name], 0, 0)
        body += struct.pack(head + "I", encoded([(0, 0)], function.size))
        body += struct.pack(head + "I", encoded(function.files, function.size))
        body += struct.pack(head + "I", encoded(function.lines, function.size, function.raw_lines))
        body += struct.pack(head + "I", len(pcdata))
        if version.cu_at >= 0:
            body += struct.pack(head + "I", 0)
        if version.last_at == 36:
            body += struct.pack(head + "I", function.start)
        count = shape.funcdata + 1
        wide = old and shape.size == 16
        body += struct.pack(head + "I", count) if wide else bytes([0, 0, 0, count])
        body += struct.pack(f"{head}{len(pcdata)}I", *pcdata)
        bodies.append((body, count, tree))

    if old:
        records_at = pctab_start + len(pctab)
    else:
        records_at = functab_size
    records, rows, entry = bytearray(), [], 0 if version.relative else TEXT
    for function, (body, count, tree) in zip(functions, bodies):
        records += bytes(-(records_at + len(records)) % pointer)
        rows += [entry, records_at + len(records)]
        records += struct.pack(head + field_code, entry) + body
        if version.relative:
            records += struct.pack(f"{head}{count}I", *[0xFFFFFFFF] * (count - 1), 0xFFFFFFFF if tree is None else tree)
        else:
            records += bytes(-(records_at + len(records)) % pointer)
            records += struct.pack(f"{head}{count}{word}", *[0] * (count - 1), 0 if tree is None else tree)
        entry += function.size + function.padding
    rows.append(entry - (functions[-1].padding if functions else 0))
    functab = struct.pack(f"{head}{len(rows)}{field_code}", *rows)

    start = version.magic.to_bytes(4, order) + bytes([0, 0, quantum, pointer])
    if old:
        records += bytes(-(records_at + len(records)) % 4)
        start += struct.pack(head + word, len(functions))
        functab += struct.pack(head + "I", records_at + len(records))
        return start + functab + name_bytes + bytes(pctab) + bytes(records) + units, bytes(trees)
    parts = [name_bytes, align(units, pointer), text_bytes, align(bytes(pctab), pointer)]
    offset, offsets = header_size, []
    for part in parts:
        offsets.append(offset)
        offset += len(part)
    words = [len(functions), len(files)] + ([header_text] if version.relative else []) + offsets + [offset]
    start += struct.pack(f"{head}{len(words)}{word}", *words)
    return start + b"".join(parts) + functab + bytes(records), bytes(trees)


def program(
    functions: Sequence[Function],
    files: Sequence[str] = ("/src/main.go",),
    *,
    since: str = "1.20",
    pointer: int = 8,
    order: ByteOrder = "little",
    quantum: int = 1,
    header_text: int = TEXT,
    module: bool = True,
    module_text: int = TEXT,
    gofunc_word: int | None = None,
    shape: Shape | None = None,
    pieces: Sequence[tuple[int, int, int]] = (),
    symbols: Sequence[Symbol] | None = None,
    section: str = ".gopclntab",
    note: bool = False,
    relocated: bool = False,
    section_table: bool = True,
    edit: tuple[int, bytes] | None = None,
    cut: int | None = None,
) -> bytes:
    """A Go program as an ELF file. `pieces` is the map of text sections: (offset, end, vaddr) each; `note` adds Go's.
    With `relocated`, addresses in data are zeros, with relocations in .rela.dyn, as in position-independent programs.

    `edit` puts bytes over the table at an offset, `cut` ends it early.
    """
    shape = shape or SHAPES[since][0]
    table, trees = tables(functions, files, since, pointer, order, quantum, header_text, shape)
    code = sum(function.size + function.padding for function in functions)
    last = code - (functions[-1].padding if functions else 0)
    words = [0] * WORDS
    if since in GOFUNC:
        head = struct.unpack_from(f"{mark(order)}8{'I' if pointer == 4 else 'Q'}", table, 8)
        words[0], words[17] = TABLE, head[0] + 1
        for index, offset in zip((1, 4, 7, 10, 13), head[3:]):
            words[index] = TABLE + offset
        words[20:24] = module_text, module_text + last, module_text, module_text + code
        word = GOFUNC[since][0] if gofunc_word is None else gofunc_word
        words[word] = TREES
        if pieces:
            words[SECTION_MAP[word] : SECTION_MAP[word] + 3] = PIECES, len(pieces), len(pieces)
    if edit is not None:
        table = table[: edit[0]] + edit[1] + table[edit[0] + len(edit[1]) :]
    if cut is not None:
        table = table[:cut]
    relocations: list[int] = []
    expected = ((TEXT, code), (TABLE, len(table)), (TREES, len(trees)))

    def placed(data: bytes, vaddr: int) -> bytes:
        """The data, its addresses taken out and made relocations."""
        if not relocated:
            return data
        out, code_word = bytearray(data), mark(order) + ("I" if pointer == 4 else "Q")
        for offset in range(0, len(data) - pointer + 1, pointer):
            value = struct.unpack_from(code_word, data, offset)[0]
            if any(start <= value <= start + size for start, size in expected):
                struct.pack_into(code_word, out, offset, 0)
                relocations.extend((vaddr + offset, 8, value))
        return bytes(out)

    table = placed(table, TABLE)
    sections = [
        Section(".text", bytes(code), vaddr=TEXT, flags=6, align=16),
        Section(section, table, vaddr=TABLE, flags=2, align=16),
        Section(".rodata", trees or b"\0", vaddr=TREES, flags=2, align=16),
    ]
    segments = [Segment(of=".text"), Segment(of=section, flags=4), Segment(of=".rodata", flags=4)]
    if note:
        sections.append(Section(".note.go.buildid", b"", type=7, flags=2))
    if pieces:
        rows = [value for piece in pieces for value in piece]
        data = struct.pack(f"{mark(order)}{len(rows)}{'I' if pointer == 4 else 'Q'}", *rows)
        sections.append(Section(".data.rel", data, vaddr=PIECES, flags=2, align=16))
        segments.append(Segment(of=".data.rel", flags=4))
    if module and since in GOFUNC:
        data = struct.pack(f"{mark(order)}{len(words)}{'I' if pointer == 4 else 'Q'}", *words)
        sections.append(Section(".noptrdata", placed(data, MODULE), vaddr=MODULE, flags=3, align=16))
        segments.append(Segment(of=".noptrdata", flags=6))
    if relocated:
        rela = struct.pack(f"{mark(order)}{len(relocations)}{'I' if pointer == 4 else 'Q'}", *relocations)
        sections.append(Section(".rela.dyn", rela, type=4, flags=2, vaddr=PIECES + 0x10000, align=8))
    return forge(
        sections,
        segments,
        symbols=symbols,
        bits=8 * pointer,
        order=order,
        type=2,
        section_table=section_table,
    )
