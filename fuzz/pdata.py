"""Function tables of PE files: .pdata, .xdata of x64 and arm64, epilogues."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.pdata import TEXT, arm64, code, info, packed, x64
from tests.forge.pe import BASE
from whence._base.errors import DwarfError, WhenceError
from whence.objects.pe import PeFile
from whence.unwind.encoding import encoded
from whence.unwind.pdata import FunctionTable


def seeds() -> list[bytes]:
    first = info([code(9, 3), code(6, 2, 3), code(2, 0, 3), code(1, 0, 5)], frame=5)
    second = info([code(5, 4, 3, 1)], chained=(TEXT, TEXT + 0x20, 0x3000))
    epilogue = bytes(0x18) + bytes.fromhex("4883c4205b5dc3") + bytes(0x20)
    words = [packed(0x20, 48, integers=3, chain=3), packed(0x20, 32, integers=1, chain=1)]
    xdata = bytes.fromhex("10004010 08000040 02e1c906 c88289e4")
    return [
        x64([(0, 0x20, 0), (0x20, 0x40, len(first))], first + second, epilogue),
        arm64([(0, words[0]), (0x20, words[1]), (0x40, 0)], xdata),
    ]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        table = FunctionTable.of_file(PeFile.from_bytes(data))
        if table is None:
            return
        for vaddr in range(BASE + TEXT, BASE + TEXT + 0x80, 3):
            with suppress(DwarfError):
                table.find(vaddr)
        encoded(table.fdes(), 64)
