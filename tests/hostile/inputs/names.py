"""Linkage names that expand to much, and programs that have them."""

from __future__ import annotations

import struct

from tests.forge.elf import Section, forge
from tests.forge.mangled import bomb
from whence.objects.elf.kernels import constants


def numbered(levels: int, count: int) -> list[str]:
    """Different names of about the same expansion."""
    return [bomb(levels).replace("_Z1f", f"_Z{len(str(row)) + 1}f{row}") for row in range(count)]


def program(names: list[str]) -> bytes:
    entry = struct.Struct("<IBBHQQ")
    texts, table = bytearray(b"\0"), bytearray(24)
    for row, name in enumerate(names):
        table += entry.pack(len(texts), 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + 16 * row, 16)
        texts += name.encode() + b"\0"
    return forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=16 * len(names)),
            Section(".symtab", bytes(table), constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", bytes(texts), constants.SHT_STRTAB),
        ]
    )


def expanding(levels: int, count: int) -> bytes:
    return program(numbered(levels, count))


def names_of_a_megabyte() -> bytes:
    size = 1 << 20
    return program([*("_Z" + str(size) + letter * size + "v" for letter in "abcd"), "_Z1fv"])
