"""Public symbols, which have linkage names, as a symbol table of ELF's form."""

from __future__ import annotations

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


class Program(Record, frozen=True):
    """What the entries depend on: 32 or 64 bits, the machine, the image base."""

    bits: int
    machine: int
    base: int


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
    return SymbolTable(memoryview(entries)[:size], records, records[:0], "symbol records")
