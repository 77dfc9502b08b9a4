"""Frame data of 32-bit x86: streams of PDB files, STACK WIN records, tables of archives, programs."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.frame_data import MODULE, ROWS, forged
from whence._base.errors import WhenceError
from whence.objects.breakpad import BreakpadFile
from whence.objects.pdb import PdbFile
from whence.unwind.frame_data import FrameTable, read_epilogue, run_program

REGISTERS = {"$esp": 0x1000, "$ebp": 0x2000, ".raSearch": 0x1010, ".cbLocals": 16, ".cbSavedRegs": 8}


def seeds() -> list[bytes]:
    content = forged(ROWS)
    table = FrameTable.of_file(PdbFile.from_bytes(content))
    assert table is not None
    records = MODULE + "\n".join(table.records()) + "\n"
    return [content, records.encode(), table.packed()]


def target(data: bytes) -> None:
    with suppress(WhenceError):
        table: FrameTable | None
        if data.startswith(b"Microsoft"):
            table = FrameTable.of_file(PdbFile.from_bytes(data))
        elif data.startswith(b"MODULE"):
            table = FrameTable.of_file(BreakpadFile.from_bytes(data))
        else:
            table = FrameTable.of_archive(memoryview(data), 0)
        if table is None:
            return
        for rva in range(0x1000, 0x1200, 16):
            row = table.find(rva)
            if row is not None:
                run_program(row.effective, REGISTERS, lambda address: address ^ 0x5555)
        assert len([*table.records()]) <= len(table)
        table.packed()
    read_epilogue(data[:32])
