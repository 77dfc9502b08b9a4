"""The chunk UNWD of an archive: unwind tables, so that stacks can be unwound without the binary.

    u16 ELF machine · u8 bits (32, 64) · u8 1 for big-endian · u32 number of tables · u64 vaddr of .text
    for each table: u32 kind (1 .eh_frame, 2 .debug_frame, 3 .sframe, 4 .frame_data) · u32 0 · u64 vaddr · u64 size
    the bytes of the tables in order

.frame_data is that of the PDB file of a 32-bit x86 program: u32 number of rows, FRAMEDATA rows of 32 bytes, and the
programs, ended by zeros; its vaddr is the image base. The other tables are sections of the binary, uncompressed;
.debug_frame may be from its debug file. They need as much space as the rows that they describe (6 bytes of .eh_frame a
row in libraries), or less, and lose nothing.
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
SFRAME: Final = ".sframe"
FRAME_DATA: Final = ".frame_data"
NAMES: Final = {1: ".eh_frame", 2: ".debug_frame", 3: SFRAME, 4: FRAME_DATA}
NUMBERS: Final = {name: number for number, name in NAMES.items()}
PART: Final = "UNWD"


class UnwindTable(Record, frozen=True):
    """A section with unwind information."""

    name: str
    vaddr: int
    data: memoryview | bytes


class UnwindTables(Record, frozen=True):
    """The content of the chunk. `machine` is ELF's number; `text_vaddr` is the base of DW_EH_PE_textrel."""

    machine: int
    bits: int
    big: bool
    text_vaddr: int
    tables: tuple[UnwindTable, ...]


def pack_unwind(machine: int, bits: int, big: bool, text_vaddr: int, tables: Iterable[UnwindTable]) -> bytes:
    """Return the bytes of the chunk."""
    tables = list(tables)
    out = [HEAD.pack(machine, bits, big, len(tables), text_vaddr)]
    out += [TABLE.pack(NUMBERS[table.name], 0, table.vaddr, len(table.data)) for table in tables]
    return b"".join((*out, *(table.data for table in tables)))


def read_unwind(data: memoryview) -> UnwindTables:
    """Parse the chunk without a copy; tables of unknown kinds are skipped. Raises LidiaError for a damaged chunk."""
    if len(data) < HEAD.size:
        raise cut_off(LidiaError, PART, 0, HEAD.size, len(data))
    machine, bits, big, count, text_vaddr = HEAD.unpack_from(data)
    if bits not in (32, 64) or big > 1:
        raise LidiaError(PART, 2, f"{bits} bits and byte order {big}, expected 32 or 64 bits and byte order 0 or 1")
    offset = HEAD.size + count * TABLE.size
    if offset > len(data):
        raise cut_off(LidiaError, PART, HEAD.size, count * TABLE.size, len(data) - HEAD.size)
    tables = []
    for index in range(count):
        number, _, vaddr, size = TABLE.unpack_from(data, HEAD.size + index * TABLE.size)
        if size > len(data) - offset:
            raise cut_off(LidiaError, PART, offset, size, len(data) - offset)
        if number in NAMES:
            tables.append(UnwindTable(NAMES[number], vaddr, data[offset : offset + size]))
        offset += size
    return UnwindTables(machine, bits, bool(big), text_vaddr, tuple(tables))
