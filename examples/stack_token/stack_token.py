"""Encode native stacks as stack tokens (docs/formats/stack-token.md). Linux, without other packages.

`token()` returns the token of the calling thread's native stack; `encode(frames)` that of addresses you have.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LENGTHS = 1, 2, 3, 4, 5, 6, 8, 11
MODULES, NO_MODULE, FRAMES = 31, 63, 64
PT_LOAD, PT_NOTE, NT_GNU_BUILD_ID = 1, 4, 3


def characters(value: int, count: int) -> str:
    return "".join(ALPHABET[value >> 6 * index & 63] for index in reversed(range(count)))


def encode(frames: Iterable[tuple[str, int]], *, is_return: bool = True) -> str:
    """Return the token of (build-id in hex, vaddr) pairs, innermost first; ("", address) for other code."""
    modules: dict[str, int] = {}
    current, previous, body = 0, dict[int, int](), ""
    for build_id, address in frames:
        full = build_id not in modules and len(modules) == MODULES
        number = modules.setdefault(build_id, len(modules)) if build_id and not full else NO_MODULE
        delta = address - previous.get(number, 0)
        code = next(code for code, length in enumerate(LENGTHS) if abs(delta) >> 6 * length < 2)
        first = code << 1 | abs(delta) >> 6 * LENGTHS[code] | (16 if delta < 0 else 0)
        body += ALPHABET[first | 32] + ALPHABET[number] if number != current else ALPHABET[first]
        body += characters(abs(delta), LENGTHS[code])
        current, previous[number] = number, address
    head = ALPHABET[len(modules) | (32 if is_return else 0)]
    text = head + "".join(characters(int(build_id[:10].ljust(10, "0"), 16) << 2, 7) for build_id in modules) + body
    check = 0x811C9DC5
    for byte in text.encode():
        check = (check ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "wst1." + text + characters(check ^ check >> 12 ^ check >> 24, 2)


def read_elf(path: str) -> tuple[str, list[tuple[int, int, int]]]:
    """Return the build-id of a 64-bit ELF file and (file offset, vaddr, size) of its segments."""
    build_id, loads = "", list[tuple[int, int, int]]()
    with open(path, "rb") as file:
        head = file.read(64)
        table, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
        for index in range(count):
            file.seek(table + index * size)
            kind, _, offset, vaddr, _, stored = struct.unpack("<IIQQQQ", file.read(40))
            if kind == PT_LOAD:
                loads.append((offset, vaddr, stored))
            elif kind == PT_NOTE:
                file.seek(offset)
                notes = file.read(stored)
                while len(notes) > 12:
                    name, length, number = struct.unpack_from("<III", notes)
                    end = 12 + name + -name % 4
                    if number == NT_GNU_BUILD_ID and notes[12:16] == b"GNU\0":
                        build_id = notes[end : end + length].hex()
                    notes = notes[end + length + -length % 4 :]
    return build_id, loads


def token() -> str:
    """Return the token of the calling thread's native stack."""
    buffer = (ctypes.c_void_p * FRAMES)()
    addresses = buffer[: ctypes.CDLL(None).backtrace(buffer, FRAMES)]
    mappings, frames = [], []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, end = (int(number, 16) for number in fields[0].split("-"))
                mappings.append((start, end, int(fields[2], 16), fields[5].rstrip("\n")))
    for address in filter(None, addresses):
        frame = "", address
        for start, end, offset, path in mappings:
            if start <= address < end:
                try:
                    build_id, loads = read_elf(path)
                except (OSError, struct.error):
                    break
                position = address - start + offset
                for begin, vaddr, size in loads:
                    if begin <= position < begin + size and build_id:
                        frame = build_id, position - begin + vaddr
        frames.append(frame)
    return encode(frames)
