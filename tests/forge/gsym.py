"""Builds GSYM files of versions 1 and 2 from values, in either byte order."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.forge.lines import sleb, uleb

LINES, INLINED, MERGED, CALL_SITES = 1, 2, 3, 4


@dataclass
class Inlined:
    """An inlined call; ranges are (offset from the first range of the call around it, size)."""

    name: str
    ranges: Sequence[tuple[int, int]]
    call_file: int = 0
    call_line: int = 0
    calls: Sequence[Inlined] = ()


@dataclass
class Function:
    """A function. `lines` are opcodes: ("file", n), ("pc", delta), ("line", delta), ("special", n)."""

    vaddr: int
    size: int
    name: str
    first_line: int = 1
    lines: Sequence[tuple[str, int]] = ()
    deltas: tuple[int, int] = (-4, 10)
    calls: Sequence[Inlined] = ()
    more: Sequence[tuple[int, bytes]] = ()  # further items
    end: bool = True


@dataclass
class Gsym:
    """The file: `files` are (folder, name) from number 1."""

    functions: Sequence[Function] = ()
    files: Sequence[tuple[str, str]] = ()
    identity: bytes = b""
    version: int = 1
    order: str = "little"
    width: int = 4
    base: int = 0x1000
    strings: bytearray = field(default_factory=lambda: bytearray(b"\0"))

    @property
    def sign(self) -> str:
        return "<" if self.order == "little" else ">"

    def string(self, text: str) -> int:
        if not text:
            return 0
        self.strings += text.encode() + b"\0"
        return len(self.strings) - len(text.encode()) - 1

    def name(self, text: str) -> bytes:
        return struct.pack(self.sign + ("I" if self.version == 1 else "Q"), self.string(text))

    def tree(self, call: Inlined) -> bytes:
        out = uleb(len(call.ranges)) + b"".join(uleb(start) + uleb(size) for start, size in call.ranges)
        out += bytes([bool(call.calls)]) + self.name(call.name) + uleb(call.call_file) + uleb(call.call_line)
        return out + b"".join(map(self.tree, call.calls)) + (b"\0" if call.calls else b"")

    def item(self, kind: int, content: bytes) -> bytes:
        return struct.pack(self.sign + "II", kind, len(content)) + content

    def info(self, function: Function) -> bytes:
        out = struct.pack(self.sign + "I", function.size) + self.name(function.name)
        if function.lines:
            program = sleb(function.deltas[0]) + sleb(function.deltas[1]) + uleb(function.first_line)
            for code, value in function.lines:
                match code:
                    case "file":
                        program += b"\1" + uleb(value)
                    case "pc":
                        program += b"\2" + uleb(value)
                    case "line":
                        program += b"\3" + sleb(value)
                    case _:
                        program += bytes([value])
            out += self.item(LINES, program + b"\0")
        if function.calls:
            root = Inlined(function.name, [(0, function.size)], calls=function.calls)
            out += self.item(INLINED, self.tree(root))
        out += b"".join(self.item(*item) for item in function.more)
        return out + (self.item(0, b"") if function.end else b"")

    def pack(self) -> bytes:
        return self.first() if self.version == 1 else self.second()

    def parts(self) -> tuple[bytes, list[int], bytes, bytes]:
        """Return address offsets, offsets in the infos, infos and files."""
        infos, offsets = b"", []
        for function in self.functions:
            infos += bytes(-len(infos) % 4)
            offsets.append(len(infos))
            infos += self.info(function)
        code = {1: "B", 2: "H", 4: "I", 8: "Q"}[self.width]
        count = len(self.functions)
        addresses = struct.pack(f"{self.sign}{count}{code}", *(each.vaddr - self.base for each in self.functions))
        files = struct.pack(self.sign + "I", len(self.files) + 1) + 2 * self.name("")
        files += b"".join(self.name(folder) + self.name(name) for folder, name in self.files)
        return addresses, offsets, infos, files

    def first(self) -> bytes:
        addresses, offsets, infos, files = self.parts()
        count = len(self.functions)
        before = 48 + -48 % self.width + len(addresses)
        padding = -before % 4
        strings_start = before + padding + 4 * count + len(files)
        start = strings_start + len(self.strings)
        start += -start % 4
        header = struct.pack(
            self.sign + "IHBBQIII20s", 0x4753594D, 1, self.width, len(self.identity), self.base, count, strings_start,
            len(self.strings), self.identity,
        )  # fmt: skip
        out = header + bytes(-48 % self.width) + addresses + bytes(padding)
        out += struct.pack(f"{self.sign}{count}I", *(start + offset for offset in offsets)) + files + self.strings
        return out + bytes(start - len(out)) + infos

    def second(self) -> bytes:
        addresses, offsets, infos, files = self.parts()
        count = len(self.functions)
        infos_offsets = struct.pack(f"{self.sign}{count}Q", *offsets)
        sections = [(6, self.identity)] if self.identity else []
        sections += [(3, bytes(self.strings)), (5, infos), (4, files), (2, infos_offsets), (1, addresses)]
        head = struct.pack(self.sign + "IHBBQI", 0x4753594D, 2, self.width, 0, self.base, count)
        offset = 20 + 20 * (len(sections) + 1)
        table, body = b"", b""
        for kind, content in sections:
            padding = -(offset + len(body)) % 8
            body += bytes(padding)
            table += struct.pack(self.sign + "IQQ", kind, offset + len(body), len(content))
            body += content
        return head + table + bytes(20) + body


IDENTITY = bytes(range(1, 21))


def example(version: int = 1, order: str = "little", width: int = 4) -> Gsym:
    """A function of two files with nested calls, one without lines, one of size 0."""
    inner = Inlined("inner", [(0, 4), (6, 2)], call_file=2, call_line=71)
    outer = Inlined("outer", [(0x10, 0x10)], call_file=1, call_line=12, calls=[inner])
    lines = [("pc", 0), ("special", 4 + 4 + 1 + 15 * 8), ("file", 2), ("line", 100), ("pc", 8), ("file", 1)]
    lines += [("line", -90), ("pc", 0x10)]
    functions = [
        Function(0x1000, 0x40, "main", first_line=10, lines=lines, calls=[outer]),
        Function(0x1040, 8, "plain", more=[(MERGED, b"\0" * 4)]),
        Function(0x1050, 0, "endless"),
        Function(0x1060, 4, "last"),
    ]
    return Gsym(functions, [("/src", "main.c"), ("", "inner.h")], IDENTITY, version, order, width)
