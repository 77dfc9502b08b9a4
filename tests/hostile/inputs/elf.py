"""ELF files that claim much."""

from __future__ import annotations

import struct

from tests.forge.elf import Section, forge
from whence.objects.elf.kernels import constants


def big_text(symbols: int, size: int) -> bytes:
    """The same in a .text that holds them all, without bytes of its own."""
    entry = struct.Struct("<IBBHQQ")
    table = bytes(24) + b"".join(
        entry.pack(1 + row, 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + 16 * row, 16) for row in range(symbols)
    )
    return forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=16 * symbols),
            Section(".symtab", table, constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", b"\0" + b"a" * size + b"\0", constants.SHT_STRTAB),
        ]
    )


def big_text_of_short_names(symbols: int) -> bytes:
    entry = struct.Struct("<IBBHQQ")
    names = b"\0" + b"".join(b"f%07d\0" % row for row in range(symbols))
    table = bytes(24) + b"".join(
        entry.pack(1 + 9 * row, 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + 16 * row, 16) for row in range(symbols)
    )
    return forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=16 * symbols),
            Section(".symtab", table, constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", names, constants.SHT_STRTAB),
        ]
    )
