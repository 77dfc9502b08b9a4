"""Public symbols, which have linkage names, as a symbol table of ELF's form."""

from __future__ import annotations

import struct
from array import array

from whence._base.errors import CUT_OFF, PdbError
from whence._base.records import Record
from whence.objects.elf.symbols import SymbolTable
from whence.objects.machines import EM_386
from whence.objects.pdb.kernels import publics as publics_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.pdb.dbi import Contributions
    from whence.objects.pdb.omap import AddressMap

# Elf64_Sym: name info other section value size; Elf32_Sym: name value size info other section
WIDE, NARROW = struct.Struct("<IBBHQQ"), struct.Struct("<IIIBBH")


class Program(Record, frozen=True):
    """The context of the entries: 32 or 64 bits, the machine, the image base, and how its code was rearranged."""

    bits: int
    machine: int
    base: int
    address_map: AddressMap | None = None


def read_publics(
    records: memoryview, sections: Sequence[int], contributions: Contributions, program: Program,
    problems: list[PdbError],
) -> SymbolTable | None:  # fmt: skip
    """Return the public symbols of the symbol records; None without public symbols.

    `sections` are RVAs by section number. `problems` gets the fault of damaged records.
    """
    count = publics_kernel.count_publics(records)
    if not count:
        return None
    entries = bytearray((count + 1) * publics_kernel.ENTRY[program.bits])
    size, damaged = publics_kernel.read_publics(
        records, array("I", sections), program.base, contributions, program.bits == 64, program.machine == EM_386,
        entries,
    )  # fmt: skip
    if damaged:
        problems.append(PdbError("symbol records", None, "a record extends past the end of the stream", code=CUT_OFF))
    if program.address_map is not None:
        rearrange(entries, program.address_map, program)
    return SymbolTable(memoryview(entries)[:size], records, records[:0], "symbol records")


def rearrange(entries: bytearray, address_map: AddressMap, program: Program) -> None:
    """Move symbols to where their code is now; symbols of code that was removed become undefined."""
    form, value, size, section = (WIDE, 4, 5, 3) if program.bits == 64 else (NARROW, 1, 2, 5)
    for offset in range(form.size, len(entries) - form.size + 1, form.size):
        fields = list(form.unpack_from(entries, offset))
        after, length = address_map.after(fields[value] - program.base)
        fields[value] = after + program.base if after else 0
        fields[size] = min(fields[size], length)
        if not after:
            fields[section] = 0
        form.pack_into(entries, offset, *fields)
