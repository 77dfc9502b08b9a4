"""Compact unwind information of Mach-O files."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.compact import TEXT, macho, unwind_info
from whence._base.errors import DwarfError, WhenceError
from whence.objects.macho import MachoFile
from whence.unwind.compact import CompactUnwind
from whence.unwind.encoding import encoded

X64 = bytes.fromhex("55 4889e5 4156 53 90 90 e800010000 5b 415e 5d c3")
ARM64 = bytes.fromhex("f44fbea9fd7b01a9fd43009140000094fd7b41a9f44fc2a8c0035fd6")


def seeds() -> list[bytes]:
    functions = [(0, 0x01020021), (0x20, 0x02221800), (0x30, 0x03030000)]
    return [
        macho(unwind_info(functions, 0x40), X64, functions=[0, 0x20, 0x30]),
        macho(unwind_info(functions, 0x40, compressed=False), X64),
        macho(unwind_info([(0, 0x04000001), (0x20, 0x02005001)], 0x40), ARM64, is_arm64=True),
    ]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        table = CompactUnwind.of_file(MachoFile.from_bytes(data))
        if table is None:
            return
        for vaddr in range(TEXT, TEXT + 0x48, 3):
            with suppress(DwarfError):
                table.find(vaddr)
        encoded(table.fdes(), 64)
