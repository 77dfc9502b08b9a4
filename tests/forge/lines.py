"""Line programs from values.

`program` takes the machine's steps as tuples, `("set_address", 0x1000)`, `("special", advance, line_advance)`,
`("copy",)`, `("end", advance)`, ...; `sections` holds bytes the way the readers want them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from whence.dwarf.sections import Sections

STANDARD_LENGTHS = bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1])


def sections(line: bytes, line_str: bytes = b"", strings: bytes = b"", str_offsets: bytes = b"") -> Sections:
    """Return the sections of a file with nothing but line programs and their strings."""
    given = {"debug_line": line, "debug_line_str": line_str, "debug_str": strings, "debug_str_offsets": str_offsets}
    views: list[Any] = [memoryview(given.get(name, b"")) for name in Sections.__match_args__[:-2]]
    return Sections(*views)


def uleb(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sleb(value: int) -> bytes:
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


Step = tuple[object, ...]


@dataclass
class Machine:
    """What a header says, as far as the encoding of steps depends on it."""

    order: str = "little"
    address_size: int = 8
    line_base: int = -5
    line_range: int = 14
    opcode_base: int = 13

    def number(self, value: int, size: int) -> bytes:
        return value.to_bytes(size, self.order)  # type: ignore[arg-type]

    def extended(self, code: int, body: bytes = b"") -> bytes:
        return b"\0" + uleb(len(body) + 1) + bytes([code]) + body

    def encode(self, step: Step) -> bytes:
        name, *values = step
        if name == "raw":
            assert isinstance(values[0], bytes)
            return values[0]
        v = [value for value in values if isinstance(value, int)]
        match name:
            case "set_address":
                return self.extended(2, self.number(v[0], self.address_size))
            case "end":
                return (b"\x02" + uleb(v[0]) if v else b"") + self.extended(1)
            case "special":
                return bytes([v[1] - self.line_base + self.line_range * v[0] + self.opcode_base])
            case "copy":
                return b"\x01"
            case "advance_pc":
                return b"\x02" + uleb(v[0])
            case "advance_line":
                return b"\x03" + sleb(v[0])
            case "file":
                return b"\x04" + uleb(v[0])
            case "column":
                return b"\x05" + uleb(v[0])
            case "discriminator":
                return self.extended(4, uleb(v[0]))
            case "const_add_pc":
                return b"\x08"
            case "fixed_advance_pc":
                return b"\x09" + self.number(v[0], 2)
            case "define_file":
                return self.extended(3, str(values[1]).encode() + b"\0" + uleb(v[0]) + b"\0\0")
        raise ValueError(f"no step {name!r}")


def program(
    steps: Sequence[Step] | bytes,
    *,
    version: int = 4,
    wide: bool = False,
    order: str = "little",
    address_size: int = 8,
    directories: Sequence[bytes] = (b"include",),
    files: Sequence[tuple[bytes, int]] = ((b"main.c", 0), (b"util.h", 1)),
    tables: bytes | None = None,
    min_instruction: int = 1,
    max_operations: int = 1,
    line_range: int = 14,
    opcode_base: int = 13,
    lengths: bytes | None = None,
) -> bytes:
    """One program with its header. Version 5 tables hold inline strings unless `tables` gives their bytes."""
    machine = Machine(order, address_size, line_range=line_range, opcode_base=opcode_base)
    body = steps if isinstance(steps, bytes) else b"".join(map(machine.encode, steps))
    if tables is None:
        tables = new_tables(directories, files) if version >= 5 else old_tables(directories, files)
    fields = bytes([min_instruction]) + (bytes([max_operations]) if version >= 4 else b"")
    fields += struct.pack("bbBB", 1, machine.line_base, line_range, opcode_base)
    fields += (STANDARD_LENGTHS + b"\1" * 255)[: max(0, opcode_base - 1)] if lengths is None else lengths
    rest = fields + tables
    size = 8 if wide else 4
    head = machine.number(version, 2) + (bytes([address_size, 0]) if version >= 5 else b"")
    unit = head + machine.number(len(rest), size) + rest + body
    return (b"\xff" * 4 if wide else b"") + machine.number(len(unit), size) + unit


def old_tables(directories: Sequence[bytes], files: Sequence[tuple[bytes, int]]) -> bytes:
    named = b"".join(name + b"\0" + uleb(parent) + b"\0\0" for name, parent in files)
    return b"".join(name + b"\0" for name in directories) + b"\0" + named + b"\0"


def new_tables(directories: Sequence[bytes], files: Sequence[tuple[bytes, int]]) -> bytes:
    """Directory and file tables of version 5: (path string), and (path string, directory udata, MD5 data16)."""
    out = bytes([1, 1, 0x08]) + uleb(len(directories)) + b"".join(name + b"\0" for name in directories)
    out += bytes([3, 1, 0x08, 2, 0x0F, 5, 0x1E]) + uleb(len(files))
    return out + b"".join(name + b"\0" + uleb(parent) + bytes(range(16)) for name, parent in files)
