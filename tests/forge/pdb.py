"""Forging PDB files: an MSF container with the streams of values, by the names of Microsoft's cvinfo.h."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.objects.pdb import PdbFile, layout

GUID = bytes(range(0x20, 0x30))
TEXT_FLAGS = 0x60000020
TEXT = (".text", 0x1000, 0x8000, TEXT_FLAGS)
DATA = (".data", 0x9000, 0x1000, 0xC0000040)
MD5 = (16, 1)
LF_CLASS, LF_FUNC_ID, LF_MFUNC_ID, LF_STRING_ID = 0x1504, 0x1601, 0x1602, 0x1605
S_END, S_INLINESITE, S_INLINESITE_END, S_PROC_ID_END = 0x0006, 0x114D, 0x114E, 0x114F
S_GPROC32, S_GPROC32_ID, S_LPROC32, S_BLOCK32, S_THUNK32, S_SEPCODE = 0x1110, 0x1147, 0x110F, 0x1103, 0x1102, 0x1132
S_PUB32 = 0x110E
LINES, CHECKSUMS, INLINEES = 0xF2, 0xF4, 0xF6
FIRST = 0x1000


def record(kind: int, body: bytes) -> bytes:
    """A symbol or type record, padded to 4 bytes."""
    body += b"\0" * (-(len(body) + 4) % 4)
    return struct.pack("<HH", len(body) + 2, kind) + body


# symbols


def procedure(
    name: str, offset: int, size: int, inside: bytes = b"", *, section: int = 1, kind: int = S_GPROC32_ID,
    end: int = S_PROC_ID_END,
) -> bytes:  # fmt: skip
    fields = struct.pack("<IIIIIIIIHB", 0, 0, 0, size, 0, size, 0, offset, section, 0)
    return record(kind, fields + name.encode() + b"\0") + inside + record(end, b"")


def block(offset: int, size: int, inside: bytes = b"") -> bytes:
    return record(S_BLOCK32, struct.pack("<IIIIHB", 0, 0, size, offset, 1, 0)) + inside + record(S_END, b"")


def thunk(name: str, offset: int, size: int) -> bytes:
    fields = struct.pack("<IIIIHHB", 0, 0, 0, offset, 1, size, 0)
    return record(S_THUNK32, fields + name.encode() + b"\0") + record(S_END, b"")


def separated(offset: int, size: int, parent: int) -> bytes:
    return record(S_SEPCODE, struct.pack("<IIIIIIHH", 0, 0, size, 0, offset, parent, 1, 1)) + record(S_END, b"")


def inline_site(inlinee: int, annotations: bytes, inside: bytes = b"") -> bytes:
    head = record(S_INLINESITE, struct.pack("<III", 0, 0, inlinee) + annotations)
    return head + inside + record(S_INLINESITE_END, b"")


def public(name: str, offset: int, *, section: int = 1, flags: int = 2) -> bytes:
    return record(S_PUB32, struct.pack("<IIH", flags, offset, section) + name.encode() + b"\0")


def number(value: int) -> bytes:
    """A compressed number of an annotation."""
    if value < 0x80:
        return bytes([value])
    if value < 0x4000:
        return struct.pack(">H", 0x8000 | value)
    return struct.pack(">I", 0xC0000000 | value)


def signed(value: int) -> int:
    return -value << 1 | 1 if value < 0 else value << 1


def annotate(*steps: tuple[str, int] | tuple[str, int, int]) -> bytes:
    """Binary annotations: ("code", delta), ("line", delta), ("length", n), ("file", checksum), ...

    "both" has a delta of code and one of lines, "part" a length and a delta of code.
    """
    out = b""
    for name, *values in steps:
        first = values[0]
        if name == "both":
            out += number(11) + number(signed(values[1]) << 4 | first)
        elif name == "part":
            out += number(12) + number(first) + number(values[1])
        else:
            ops = {"offset": 1, "base": 2, "code": 3, "length": 4, "file": 5, "line": 6, "column": 9}
            out += number(ops[name]) + number(signed(first) if name == "line" else first)
    return out


# C13 lines


def subsection(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body)) + body + b"\0" * (-len(body) % 4)


def checksums(names: Sequence[int]) -> bytes:
    """The files of a module, by offsets of names; a file's entry takes 24 bytes."""
    return subsection(CHECKSUMS, b"".join(struct.pack("<IBB16xxx", name, *MD5)[:24] for name in names))


CHECKSUM = 24


def lines(
    offset: int, size: int, rows: Sequence[tuple[int, int]], *, file: int = 0, section: int = 1,
    columns: Sequence[int] = (),
) -> bytes:  # fmt: skip
    """A line program: rows are (offset, line), of the file whose checksum is at `file`."""
    body = b"".join(struct.pack("<II", position, line | 1 << 31) for position, line in rows)
    body += b"".join(struct.pack("<HH", column, 0) for column in columns)
    head = struct.pack("<IHHI", offset, section, 1 if columns else 0, size)
    return subsection(LINES, head + struct.pack("<III", file, len(rows), 12 + len(body)) + body)


def inlinees(entries: Sequence[tuple[int, int, int]]) -> bytes:
    """First lines: (id, checksum, line)."""
    return subsection(INLINEES, struct.pack("<I", 0) + b"".join(struct.pack("<III", *entry) for entry in entries))


# types and ids


def string_id(text: str) -> bytes:
    return record(LF_STRING_ID, struct.pack("<I", 0) + text.encode() + b"\0")


def function_id(name: str, scope: int = 0) -> bytes:
    return record(LF_FUNC_ID, struct.pack("<II", scope, 0) + name.encode() + b"\0")


def member_id(name: str, owner: int) -> bytes:
    return record(LF_MFUNC_ID, struct.pack("<II", owner, 0) + name.encode() + b"\0")


def class_type(name: str) -> bytes:
    return record(LF_CLASS, struct.pack("<HHIIIH", 0, 0, 0, 0, 0, 8) + name.encode() + b"\0")


def type_stream(records: Sequence[bytes]) -> bytes:
    body = b"".join(records)
    head = struct.pack("<5I", 20040203, layout.TPI_SIZE, FIRST, FIRST + len(records), len(body))
    head += struct.pack("<HHII", layout.NO_STREAM, layout.NO_STREAM, 4, 0x1000)  # without a hash stream
    return head.ljust(layout.TPI_SIZE, b"\0") + body


# streams


@dataclass(frozen=True, slots=True)
class Module:
    """A module: symbols, C13 lines, and the code that it contributed as (section, offset, size)."""

    symbols: bytes = b""
    lines: bytes = b""
    code: Sequence[tuple[int, int, int]] = ()
    name: str = "a.obj"


def info_stream(named: dict[str, int], *, age: int = 1, guid: bytes = GUID, features: Sequence[int] = ()) -> bytes:
    texts, rows = b"", []
    for name, stream in named.items():
        rows.append((len(texts), stream))
        texts += name.encode() + b"\0"
    table = struct.pack("<IIII", len(rows), len(rows) + 1, 1, (1 << len(rows)) - 1) + struct.pack("<I", 0)
    table += b"".join(struct.pack("<II", *row) for row in rows)
    head = struct.pack("<III16s", 20000404, 0, age, guid)
    words = struct.pack(f"<{1 + len(features)}I", 0, *features)
    return head + struct.pack("<I", len(texts)) + texts + table + words


def names_stream(names: Sequence[str]) -> tuple[bytes, dict[str, int]]:
    """The stream /names and the offset of each name."""
    text, offsets = b"\0", {}
    for name in names:
        offsets[name] = len(text)
        text += name.encode() + b"\0"
    return struct.pack("<III", layout.NAMES_MAGIC, 1, len(text)) + text, offsets


def section_header(name: str, rva: int, size: int, flags: int) -> bytes:
    return struct.pack("<8sIIIIIIHHI", name.encode(), size, rva, size, 0x400, 0, 0, 0, 0, flags)


def dbi_stream(
    modules: Sequence[tuple[Module, int]], *, age: int = 1, machine: int = 0x8664, symbols: int = 0xFFFF,
    further: dict[int, int] | None = None,
) -> bytes:  # fmt: skip
    listed, contributed = b"", struct.pack("<I", layout.CONTRIBUTION_V1)
    for index, (module, stream) in enumerate(modules):
        sizes = (len(module.symbols) + 4 if stream != 0xFFFF else 0, 0, len(module.lines))
        row = struct.pack("<I28sHHIIIHHIII", 0, b"", 0, stream, *sizes, 0, 0, 0, 0, 0)
        row += module.name.encode() + b"\0" + module.name.encode() + b"\0"
        listed += row + b"\0" * (-len(row) % 4)
        for section, offset, size in module.code:
            contributed += struct.pack("<HHIIIHHII", section, 0, offset, size, TEXT_FLAGS, index, 0, 0, 0)
    optional = struct.pack("<11H", *((further or {}).get(index, 0xFFFF) for index in range(11)))
    head = struct.pack(
        layout.DBI, -1, 19990903, age, 0xFFFF, 0, 0xFFFF, 0, symbols, 0, len(listed), len(contributed), 0, 0, 0, 0,
        len(optional), 0, 0, machine, 0,
    )  # fmt: skip
    return head + listed + contributed + optional


@dataclass(slots=True)
class Pdb:
    """The content of a PDB file; `forge` writes it."""

    modules: Sequence[Module] = ()
    types: Sequence[bytes] = ()
    ids: Sequence[bytes] = ()
    files: Sequence[str] = ()
    publics: bytes = b""
    sections: Sequence[tuple[str, int, int, int]] = (TEXT, DATA)
    age: int = 1
    file_age: int = 1
    guid: bytes = GUID
    machine: int = 0x8664
    features: Sequence[int] = (20140508,)
    named: dict[str, bytes] = field(default_factory=dict)
    omap: bytes = b""
    further: dict[int, bytes] = field(default_factory=dict)  # more streams, by their index in the optional header

    def streams(self) -> list[bytes]:
        """The streams by number."""
        out = [b"", b"", type_stream(self.types), b"", type_stream(self.ids)]
        numbers: dict[str, int] = {}
        names, _ = names_stream(self.files)
        for name, content in {"/names": names, **self.named}.items():
            numbers[name] = len(out)
            out.append(content)
        headers = len(out)
        out.append(b"".join(section_header(*section) for section in self.sections))
        symbols = len(out)
        out.append(self.publics)
        further = {layout.SECTIONS: headers}
        if self.omap:
            further[layout.OMAP_FROM_SOURCE] = len(out)
            out.append(self.omap)
        for index, content in self.further.items():
            further[index] = len(out)
            out.append(content)
        listed = []
        for module in self.modules:
            listed.append((module, len(out) if module.symbols or module.lines else 0xFFFF))
            if module.symbols or module.lines:
                out.append(struct.pack("<I", 4) + module.symbols + module.lines)
        out[layout.PDB_STREAM] = info_stream(numbers, age=self.file_age, guid=self.guid, features=self.features)
        out[layout.DBI_STREAM] = dbi_stream(
            listed, age=self.age, machine=self.machine, symbols=symbols, further=further
        )
        return out

    def forge(self, block_size: int = 512, **changes: int) -> bytes:
        return msf(self.streams(), block_size, scattered=False, **changes)


def omap(rows: Sequence[tuple[int, int]]) -> bytes:
    """A stream of OMAP: RVAs before and after a program was rearranged, or the other way round."""
    return b"".join(struct.pack("<II", *row) for row in rows)


def msf(streams: Sequence[bytes], block_size: int = 512, *, scattered: bool = False, **changes: int) -> bytes:
    """An MSF file with these streams; `scattered` puts a free block after each.

    `changes` are fields of the superblock: size (of a block), free_map, count, directory_size, block_map.
    """
    blocks: list[bytes] = [b"", b"\xff" * block_size, b"\xff" * block_size]

    def add(data: bytes) -> list[int]:
        numbers = []
        for start in range(0, len(data), block_size):
            numbers.append(len(blocks))
            blocks.append(data[start : start + block_size].ljust(block_size, b"\0"))
            if scattered:
                blocks.append(b"\xee" * block_size)
        return numbers

    places = [add(stream) for stream in streams]
    words = [len(streams), *map(len, streams), *(number for location in places for number in location)]
    directory = struct.pack(f"<{len(words)}I", *words)
    listed = add(directory)
    block_map = len(blocks)
    blocks.append(struct.pack(f"<{len(listed)}I", *listed).ljust(block_size, b"\0"))
    fields = {
        "size": block_size, "free_map": 1, "count": len(blocks), "directory_size": len(directory), "unknown": 0,
        "block_map": block_map, **changes,
    }  # fmt: skip
    blocks[0] = struct.pack(layout.SUPERBLOCK, layout.MSF_MAGIC, *fields.values()).ljust(block_size, b"\0")
    return b"".join(blocks)


def program() -> Pdb:
    """A file with a function at 0x1010 of 0x40 bytes that inlines `ns::C::get`, which inlines `ns::low`.

    Lines of main.c: 10 from the start, 11 (the call) from 0x1018, 13 from 0x1030. The call of `get` (declared on line
    100 of inl.h) covers [0x1018, 0x1030), with line 101 and from 0x1020 line 102; `low` (line 200) covers
    [0x1020, 0x1028).
    """
    files = ["C:\\src\\main.c", "C:\\src\\inl.h"]
    _, offsets = names_stream(files)
    low = inline_site(FIRST + 2, annotate(("line", 1), ("part", 8, 0x10)))
    get = inline_site(FIRST + 1, annotate(("both", 8, 1), ("both", 8, 1), ("length", 0x10)), low)
    symbols = procedure("ns::run", 0x10, 0x40, block(0x18, 0x20, get))
    symbols += thunk("jump", 0x60, 5) + separated(0x70, 0x10, 0x10)
    text = checksums([offsets[name] for name in files])
    text += inlinees([(FIRST + 1, CHECKSUM, 100), (FIRST + 2, CHECKSUM, 200)])
    text += lines(0x10, 0x40, [(0, 10), (8, 11), (0x20, 13)])
    return Pdb(
        modules=[Module(symbols, text, [(1, 0x10, 0x70)])],
        types=[class_type("ns::C")],
        ids=[string_id("ns"), member_id("get", FIRST), function_id("low", FIRST)],
        files=files,
        publics=public("?run@ns@@YAXXZ", 0x10) + public("asm_only", 0x200) + public("datum", 4, section=2, flags=0),
    )


def rearranged(content: bytes, rows: Sequence[tuple[int, int]]) -> bytes:
    """A PDB file whose program was rearranged after linking: rows of OMAP_FROM_SOURCE, RVAs before and after."""
    with PdbFile.from_bytes(content) as file:
        assert file.dbi is not None
        sections = bytes(file.msf.stream(file.dbi.further_stream(layout.SECTIONS)))
        streams = [bytes(file.msf.stream(number)) for number in range(file.msf.count)]
        further = list(file.dbi.further)
    back = sorted((after, before) for before, after in rows if after)
    for index, words in ((layout.OMAP_FROM_SOURCE, rows), (layout.OMAP_TO_SOURCE, back)):
        further[index] = len(streams)
        streams.append(omap(words))
    further[layout.ORIGINAL_SECTIONS] = len(streams)
    streams.append(sections)
    dbi = streams[layout.DBI_STREAM]
    start = layout.DBI_SIZE + sum(struct.unpack_from("<iiiii", dbi, 24)) + struct.unpack_from("<i", dbi, 52)[0]
    packed = struct.pack(f"<{len(further)}H", *further)
    streams[layout.DBI_STREAM] = dbi[:start] + packed + dbi[start + len(packed) :]
    return msf(streams, 4096)
