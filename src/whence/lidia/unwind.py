"""The chunk UNWD of an archive: what unwinds the file's code, so that stacks can be unwound without the file.

    u16 ELF machine · u8 bits (32, 64) · u8 1 for big-endian · u32 number of tables · u64 vaddr of .text
    for each table: u32 which (1 .eh_frame, 2 .debug_frame, 3 .sframe) · u32 0 · u64 vaddr · u64 size
    the bytes of the tables, one after the other

Tables are the file's own sections, uncompressed, .debug_frame perhaps of its debug file. They take no more than rows
made of them would (6 bytes of .eh_frame a row in libraries), and keep all that those lack.
"""

from __future__ import annotations

import struct

from whence._base.errors import LidiaError, cut_off
from whence._base.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final

HEAD: Final = struct.Struct("<HBBIQ")
TABLE: Final = struct.Struct("<IIQQ")
NAMES: Final = {1: ".eh_frame", 2: ".debug_frame", 3: ".sframe"}
NUMBERS: Final = {name: number for number, name in NAMES.items()}
PART: Final = "UNWD"


class UnwindTable(Record, frozen=True):
    """A section: its name, its vaddr, its bytes."""

    name: str
    vaddr: int
    data: memoryview | bytes


class UnwindTables(Record, frozen=True):
    """What a chunk holds. `machine` is ELF's number; `text_vaddr` what DW_EH_PE_textrel counts from."""

    machine: int
    bits: int
    big: bool
    text_vaddr: int
    tables: tuple[UnwindTable, ...]


def pack_unwind(machine: int, bits: int, big: bool, text_vaddr: int, tables: Iterable[UnwindTable]) -> bytes:
    """The content of a chunk."""
    kept = list(tables)
    out = [HEAD.pack(machine, bits, big, len(kept), text_vaddr)]
    out += [TABLE.pack(NUMBERS[table.name], 0, table.vaddr, len(table.data)) for table in kept]
    return b"".join((*out, *(table.data for table in kept)))


def read_unwind(data: memoryview) -> UnwindTables:
    """What a chunk holds, without a copy; tables of unknown kinds are left out. Raises LidiaError for a damaged one."""
    if len(data) < HEAD.size:
        raise cut_off(LidiaError, PART, 0, HEAD.size, len(data))
    machine, bits, big, count, text_vaddr = HEAD.unpack_from(data)
    if bits not in (32, 64) or big > 1:
        raise LidiaError(PART, 2, "a machine has 32 or 64 bits, and is big-endian or not", f"{bits} and {big}")
    at = HEAD.size + count * TABLE.size
    if at > len(data):
        raise cut_off(LidiaError, PART, HEAD.size, count * TABLE.size, len(data) - HEAD.size)
    tables = []
    for index in range(count):
        number, _, vaddr, size = TABLE.unpack_from(data, HEAD.size + index * TABLE.size)
        if size > len(data) - at:
            raise cut_off(LidiaError, PART, at, size, len(data) - at)
        if number in NAMES:
            tables.append(UnwindTable(NAMES[number], vaddr, data[at : at + size]))
        at += size
    return UnwindTables(machine, bits, bool(big), text_vaddr, tuple(tables))
