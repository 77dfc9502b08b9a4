"""ELF files that claim much."""

from __future__ import annotations

import lzma
import struct

from tests.forge.elf import Section, forge, note, packed
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


def symbols_over_each_other(rows: int = 300_000) -> bytes:
    """Every third symbol reaches to the end of the code."""
    entry = struct.Struct("<IBBHQQ")
    table = bytes(24) + b"".join(
        entry.pack(1, 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + row // 2, 0 if row % 3 else rows - row)
        for row in range(rows)
    )
    return forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=rows),
            Section(".symtab", table, constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", b"\0f\0", constants.SHT_STRTAB),
        ]
    )


def shared_notes(sections: int = 5000) -> bytes:
    """As many sections of notes over the same bytes."""
    notes = note("GNU", 1, b"") * 20_000
    shared = [Section(".notes", notes, 7, 2, align=4)]
    offset = forge(shared).index(notes)
    many = [
        Section(f"n{row}", b"", 7, 2, align=4, size=len(notes) - 4 * row, file_offset=offset + 4 * row)
        for row in range(sections)
    ]
    data = forge([*shared, *many])
    assert data.index(notes) == offset
    return data


def minidebuginfo(*, wrapped: bool) -> bytes:
    """A .gnu_debugdata that unpacks to 64 MiB, itself in a compressed section if `wrapped`."""
    bomb = Section(".gnu_debugdata", lzma.compress(bytes(64 << 20), preset=0))
    return forge([Section(".text", bytes(64), flags=6, vaddr=0x1000), packed(bomb, "zlib") if wrapped else bomb])
