"""trim.py CORE OUT: what unwinding needs of a core of qemu-user: its notes, its map, and the used part of the stack."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

PAGE, KEPT = 4096, 8192  # bytes of the stack from the first page that is used on
STACK_LEAST = 1 << 20
PT_LOAD, PT_NOTE = 1, 4


def main(source: str, target: str) -> None:
    data = Path(source).read_bytes()
    wide, mark = data[4] == 2, "<" if data[5] == 1 else ">"
    head, width = (64, 56) if wide else (52, 32)
    (position,) = struct.unpack_from(mark + ("Q" if wide else "I"), data, 32 if wide else 28)
    (count,) = struct.unpack_from(mark + "H", data, 56 if wide else 44)
    rows = body = b""
    for index in range(count):
        row = struct.unpack_from(mark + ("IIQQQQQQ" if wide else "IIIIIIII"), data, position + index * width)
        if wide:
            kind, flags, offset, vaddr, _, kept, memory, _ = row
        else:
            kind, offset, vaddr, _, kept, memory, flags, _ = row
        content = data[offset : offset + kept]
        if kind == PT_LOAD and kept >= STACK_LEAST:
            first = next(n for n, byte in enumerate(content) if byte) // PAGE * PAGE
            content, vaddr, memory = content[first : first + KEPT], vaddr + first, memory - first
        elif kind != PT_NOTE:
            content = b""
        location = head + width * count + len(body)
        if wide:
            rows += struct.pack(mark + "IIQQQQQQ", kind, flags, location, vaddr, 0, len(content), memory, 4)
        else:
            rows += struct.pack(mark + "IIIIIIII", kind, location, vaddr, 0, len(content), memory, flags, 4)
        body += content
    header = bytearray(data[:head])
    struct.pack_into(mark + ("Q" if wide else "I"), header, 32 if wide else 28, head)
    Path(target).write_bytes(bytes(header) + rows + body)


if __name__ == "__main__":
    main(*sys.argv[1:])
