"""Functions from symbols: every address of code that a symbol covers, with the best name for it.

Sources are all tables of a file, each for what better ones lack: .symtab, the .symtab of MiniDebugInfo, .dynsym, and
the stubs of the PLT, named after their targets (plt.py).

Symbols that count: STT_FUNC and STT_GNU_IFUNC in memory, and STT_NOTYPE in executable sections (assembly), except
assemblers' marks: .L labels, and the mapping symbols $a $d $t $x of ARM, AArch64 and RISC-V. The bit that marks Thumb
and MIPS16 code is cleared; on ppc64 with function descriptors (ELFv1) the descriptor is followed to the code.

The name of an address (by the rule of Linux perf): a symbol with a size; of a better table; not weak; global; fewer
leading underscores; longer; not a SyS alias. A symbol inside another names its part. A symbol without size extends to
the next one or its section's end, unless a sized one covers it. Objects (STT_OBJECT with a size) in executable sections
count for that, so that labels of assembly do not name data: `.data` of Linux' vmlinux is executable.
"""

from __future__ import annotations

from array import array

from whence._base.budget import Budget
from whence._base.errors import ElfError, WhenceError
from whence._base.records import Record
from whence._base.source import Source
from whence.objects.elf.file import ElfFile
from whence.objects.elf.kernels import constants
from whence.objects.elf.kernels.symbols import Candidates, CodeSymbols, SymbolQueries
from whence.objects.elf.layout import ELF64
from whence.objects.elf.plt import stubs
from whence.objects.elf.symbols import SymbolTable
from whence.ranges import Ranges, StringSpace
from whence.ranges.strings import Arena
from whence.ranges.table import zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from whence.kernels.columns import Column
    from whence.objects.interface import ObjectFile
    from whence.objects.parts import ObjectSection

PREFERENCE = {Source.SYMTAB: 4, Source.MINIDEBUG: 3, Source.DYNSYM: 2, Source.PLT: 1}
NO_SECTION = 0xFFFFFFFF
LAST = (1 << 64) - 1
FUNCTION_TYPES = (constants.STT_FUNC, constants.STT_GNU_IFUNC, constants.STT_NOTYPE)
ALL = (1 << 63) - 1
FEW = 4096  # symbols that may concern a few addresses
NAMES_TIMES = 16  # names may overlap and repeat: their total is at most this many times the bytes of the table,
NAMES_ALLOWANCE = 1 << 20  # plus this number of bytes
MAX_RANGES = 256  # each symbol without a section is looked for in all of them


class CodeLayout(Record, frozen=True):
    """The code of a file for the kernel: sections by index, and ranges for symbols without a section.

    `descriptors` are the bytes of ppc64's .opd, the section `descriptors_section`, or NO_SECTION.
    """

    elf64: bool
    big: bool
    machine: int
    relative: bool  # values of symbols count from their section
    section_start: array[int]  # Q, vaddrs, as the following
    section_end: array[int]
    section_kind: array[int]  # B: NOT_LOADED, DATA or CODE
    range_start: array[int]
    range_end: array[int]
    descriptors: memoryview
    descriptors_section: int


def code_layout(elf: ObjectFile, program: ObjectFile) -> CodeLayout:
    """Return the layout of a file; `program` as for `functions`. Raises ElfError for damaged function descriptors."""
    start, end, kind = array("Q"), array("Q"), array("B")
    descriptors, descriptors_section = elf.data[:0], NO_SECTION
    for section in elf.sections:
        start.append(section.vaddr)
        end.append(min(section.vaddr + section.size, LAST))
        if not section.allocated:
            kind.append(constants.NOT_LOADED)
        else:
            kind.append(constants.CODE if section.executable else constants.DATA)
        if section.name == ".opd" and uses_descriptors(elf):
            descriptors, descriptors_section = descriptors_of(section, elf, program), section.index
    ranges = elf.code_ranges()[:MAX_RANGES]
    return CodeLayout(
        elf.bits == ELF64,
        elf.order == "big",
        elf.machine,
        elf.is_relocatable,
        start,
        end,
        kind,
        array("Q", [low for low, _ in ranges]),
        array("Q", [min(high, LAST) for _, high in ranges]),
        descriptors,
        descriptors_section,
    )


def uses_descriptors(elf: ObjectFile) -> bool:
    """Return True if function symbols are those of descriptors in .opd: ppc64's first ABI, or ABI 0."""
    if not isinstance(elf, ElfFile) or elf.machine != constants.EM_PPC64:
        return False
    return elf.header.flags & constants.EF_PPC64_ABI < 2


def descriptors_of(section: ObjectSection, elf: ObjectFile, program: ObjectFile) -> memoryview:
    """Return the function descriptors of a file, or else (for a debug file) those of its program."""
    other = program.section(section.name)
    if not section.in_file and other is not None and other.vaddr == section.vaddr:
        return program.content(other)
    return elf.content(section)


def functions(
    elf: ObjectFile,
    strings: StringSpace | None = None,
    *,
    sources: Collection[Source] = PREFERENCE.keys(),
    program: ObjectFile | None = None,
    problems: list[WhenceError] | None = None,
    near: Sequence[int] | None = None,
) -> Ranges:
    """Return every function with a symbol as ranges of depth 0 in order of vaddr, without overlaps.

    Names are references into `strings` to views of the file. Takes about 0.1 microseconds per symbol.

    Args:
        elf: the file with the symbols.
        strings: the space of the names.
        sources: the tables to read.
        program: the file that a debug file belongs to, for function descriptors.
        problems: gets the error of a damaged table, which is left out.
        near: vaddrs; only ranges with these are reliable, in a tenth of the time.
    """
    strings = strings if strings is not None else StringSpace()
    problems = problems if problems is not None else []
    tables: list[tuple[ObjectFile, SymbolTable, Source]] = []
    for source, name in ((Source.SYMTAB, ".symtab"), (Source.MINIDEBUG, ".symtab"), (Source.DYNSYM, ".dynsym")):
        if source in sources:
            try:
                owner = elf.mini_debug() if source is Source.MINIDEBUG else elf
                table = owner.symbol_table(name) if owner is not None else None
                if owner is not None and table is not None:
                    tables.append((owner, table, source))
            except WhenceError as error:
                problems.append(error.in_file(elf.path))
    jumps: list[tuple[int, int, bytes]] = []
    if Source.PLT in sources and isinstance(elf, ElfFile):
        try:
            jumps = stubs(elf)
        except ElfError as error:
            problems.append(error.in_file(elf.path))
    read: list[tuple[ObjectFile, SymbolTable, Source, CodeSymbols]] = []
    for owner, table, source in tables:
        try:
            read.append((owner, table, source, CodeSymbols(table, code_layout(owner, program or elf))))
        except WhenceError as error:
            problems.append(error.in_file(owner.path))
    queries = SymbolQueries(array("Q", near), zeros("Q", len(near))) if near else None
    if queries is not None:
        for *_, symbols in read:
            queries.find_starts(symbols)
    candidates = Candidates(ALL if near is None else FEW)
    for owner, table, source, symbols in read:
        base = strings.ref(strings.add(table.names), 0)
        budget = names_budget(table)
        if not candidates.collect(symbols, base, PREFERENCE[source], source.number, budget.most, queries):
            problems.append(budget.reached().in_file(owner.path))
    if near is not None and len(candidates) + len(jumps) >= FEW:  # some may have been left out
        return functions(elf, strings, sources=sources, program=program)
    if jumps:
        arena = Arena(strings)
        for vaddr, size, name_bytes in jumps:
            candidates.add(vaddr, size, arena.add(name_bytes + b"@plt"), PREFERENCE[Source.PLT], Source.PLT.number)
        arena.seal()
    return as_ranges(strings, *candidates.resolve_overlaps())


def names_budget(table: SymbolTable) -> Budget:
    """Return the budget of bytes of the names of a table's symbols, which may overlap."""
    return Budget(
        table.names_part, "names of symbols", len(table.names), times=NAMES_TIMES, allowance=NAMES_ALLOWANCE,
        error=ElfError,
    )  # fmt: skip


def as_ranges(strings: StringSpace, *columns: Column) -> Ranges:
    """Return a table of ranges with the given vaddr, length, name and source."""
    vaddr, length, name, source = arrays = [array(column.typecode) for column in columns]
    for out_column, column in zip(arrays, columns, strict=True):
        out_column.frombytes(column)
    count = len(vaddr)
    out = Ranges(strings, vaddr=vaddr, length=length, function=name, source=source)
    out.depth, out.line_index, out.line_count, out.call_line = (zeros("I", count) for _ in range(4))
    out.file, out.call_file = zeros("Q", count), zeros("Q", count)
    return out


def aliases(elf: ObjectFile, vaddr: int) -> tuple[str, ...]:
    """Return every function symbol that covers a vaddr or starts at it: folded code has several names."""
    names: dict[str, None] = {}
    for name in (".symtab", ".dynsym"):
        symbols = elf.symbols(name)
        for index, value in enumerate(symbols.value):
            covers = value <= vaddr and (vaddr < value + symbols.size[index] or value == vaddr)
            if covers and symbols.section[index] and symbols.info[index] & constants.STT_MASK in FUNCTION_TYPES:
                names[symbols.name(index)] = None
    names.pop("", None)
    return tuple(names)
