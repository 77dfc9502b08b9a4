"""Functions from symbols: every address of code that a symbol covers, with the best name for it.

Sources are all the tables a file has, each giving what the better ones lack: .symtab, the .symtab of MiniDebugInfo,
.dynsym, and the stubs of the PLT, named after what they jump to (plt.py).

Which symbols count: STT_FUNC and STT_GNU_IFUNC in memory, and STT_NOTYPE in executable sections (assembly), but no
assembler's marks: .L labels, and the mapping symbols $a $d $t $x of ARM, AArch64 and RISC-V. The bit that marks Thumb
and MIPS16 code is cleared; on ppc64 with function descriptors (ELFv1) the descriptor is followed to the code.

Which name an address gets (the rule Linux perf uses among names of one address): one with a size; of a better table;
not weak; global; fewer leading underscores; longer; not a SyS alias. Where a symbol lies inside another, the inner one
names its part. A symbol without size reaches to the next one or its section's end, unless a sized one covers it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.budget import Budget
from whence.elf import layout
from whence.elf.kernels import constants
from whence.elf.plt import stubs
from whence.elf.symbols import SymbolTable, find_table, read_symbols
from whence.errors import ElfError, WhenceError
from whence.model import Source
from whence.ranges import Ranges, StringSpace
from whence.ranges.strings import OFFSET_BITS, Arena

if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.elf.file import ElfFile
    from whence.elf.sections import Section

PREFERENCE = {Source.SYMTAB: 4, Source.MINIDEBUG: 3, Source.DYNSYM: 2, Source.PLT: 1}
NO_SECTION = 0xFFFFFFFF
FUNCTION_TYPES = (constants.STT_FUNC, constants.STT_GNU_IFUNC, constants.STT_NOTYPE)
FEW = 4096  # symbols that may have a say in what a few addresses are called
NAMES_TIMES = 16  # names may overlap and repeat: together they are at most so many times their bytes,
NAMES_ALLOWANCE = 1 << 20  # and so many bytes more
MAX_REGIONS = 256  # each symbol without a section is looked for in all of them


class Collector:
    """Symbols of several tables, appended to one set of columns."""

    def __init__(self, room: int, near: Sequence[int] = ()) -> None:
        self.rows = 0
        self.near, self.leads = array("Q", near), array("Q", bytes(8 * len(near)))
        self.va = array("Q", bytes(8 * room))
        self.end = array("Q", bytes(8 * room))
        self.limit = array("Q", bytes(8 * room))
        self.name = array("Q", bytes(8 * room))
        self.rank = array("Q", bytes(8 * room))
        self.source = array("B", bytes(room))

    def add_table(
        self, elf: ElfFile, table: SymbolTable, strings: StringSpace, source: Source, program: ElfFile, *,
        leading: bool = False,
    ) -> None:  # fmt: skip
        """Append a table's symbols. Where only those near some vaddrs are wanted, all tables come twice: `leading`
        first. ElfError, after those before, where names overlap beyond what their bytes justify."""
        from whence.elf.kernels import symbols as symbols_kernel

        start, end, kind = array("Q"), array("Q"), array("B")
        top = (1 << 64) - 1
        descriptors, descriptors_section = elf.data[:0], NO_SECTION
        for section in elf.sections:
            start.append(section.vaddr)
            end.append(min(section.vaddr + section.size, top))
            if not section.allocated:
                kind.append(constants.NOT_LOADED)
            else:
                kind.append(constants.CODE if section.executable else constants.DATA)
            if section.name == ".opd" and uses_descriptors(elf):
                descriptors, descriptors_section = descriptors_of(section, elf, program), section.index
        code_start, code_end = array("Q"), array("Q")
        for low, high in code_regions(elf)[:MAX_REGIONS]:
            code_start.append(low)
            code_end.append(min(high, top))
        names = Budget(
            table.names_part, "names of symbols", len(table.names), times=NAMES_TIMES, allowance=NAMES_ALLOWANCE,
            error=ElfError,
        )  # fmt: skip
        self.rows, reached = symbols_kernel.collect(
            table.entries,
            elf.bits == 64,
            elf.order == "big",
            table.extended,
            table.names,
            0 if leading else strings.add(table.names) << OFFSET_BITS,
            elf.machine,
            PREFERENCE[source],
            start,
            end,
            kind,
            code_start,
            code_end,
            descriptors,
            descriptors_section,
            elf.type == constants.ET_REL,
            self.va,
            self.end,
            self.limit,
            self.name,
            self.rank,
            self.source,
            source.number,
            self.rows,
            self.near,
            self.leads,
            leading,
            names.most,
        )
        if reached:
            raise names.reached()

    def add(self, va: int, size: int, name: int, source: Source) -> None:
        row = self.rows
        self.va[row] = va
        self.end[row] = self.limit[row] = va + size
        self.name[row] = name
        self.rank[row] = 1 << 25 | PREFERENCE[source] << 22
        self.source[row] = source.number
        self.rows += 1

    def settle(self, strings: StringSpace) -> Ranges:
        from whence.elf.kernels import settle as settle_kernel

        rows = self.rows
        out = Ranges(strings, va=array("Q", bytes(16 * rows)), length=array("Q", bytes(16 * rows)))
        out.function, out.source = array("Q", bytes(16 * rows)), array("B", bytes(2 * rows))
        made = settle_kernel.settle(
            rows,
            self.va,
            self.end,
            self.limit,
            self.name,
            self.rank,
            self.source,
            array("I", bytes(4 * rows)),
            array("I", bytes(4 * rows)),
            out.va,
            out.length,
            out.function,
            out.source,
        )
        del out.va[made:], out.length[made:], out.function[made:], out.source[made:]
        out.depth, out.line_index, out.line_count, out.call_line = (array("I", bytes(4 * made)) for _ in range(4))
        out.file, out.call_file = array("Q", bytes(8 * made)), array("Q", bytes(8 * made))
        return out


def uses_descriptors(elf: ElfFile) -> bool:
    """Whether symbols of functions are of descriptors in .opd: ppc64's first ABI (0 stands for it, too)."""
    return elf.machine == constants.EM_PPC64 and elf.header.flags & constants.EF_PPC64_ABI < 2


def descriptors_of(section: Section, elf: ElfFile, program: ElfFile) -> memoryview:
    """The function descriptors a file has, or else (a debug file has none) those of its program."""
    other = program.section(section.name)
    if section.type == constants.SHT_NOBITS and other is not None and other.vaddr == section.vaddr:
        return program.content(other)
    return elf.content(section)


def code_regions(elf: ElfFile) -> list[tuple[int, int]]:
    """[start, end) in vaddrs of executable sections, or of executable segments in a file without sections."""
    if elf.sections:
        return [(s.vaddr, s.vaddr + s.size) for s in elf.sections if s.executable and s.allocated]
    return [(s.vaddr, s.vaddr + s.memory_size) for s in elf.segments if s.executable and s.type == constants.PT_LOAD]


def functions(
    elf: ElfFile,
    strings: StringSpace | None = None,
    *,
    symtab: bool = True,
    mini_debug: bool = True,
    dynsym: bool = True,
    plt: bool = True,
    program: ElfFile | None = None,
    problems: list[WhenceError] | None = None,
    near: Sequence[int] | None = None,
) -> Ranges:
    """Every function that a symbol names, as depth-0 ranges in order of va, none overlapping, with their source.

    `program` is the file a debug file belongs to, which has what the debug file only mentions (function descriptors). A
    damaged table is left out and its error appended to `problems`. Names are references into `strings`; the bytes
    they point into are views of the file. Costs about 0.1 microseconds a symbol. With vaddrs in `near` only the ranges
    that hold those are sure to be right; that costs a tenth.
    """
    strings = strings if strings is not None else StringSpace()
    problems = problems if problems is not None else []
    tables: list[tuple[ElfFile, SymbolTable, Source]] = []
    wanted = [
        (symtab, Source.SYMTAB, ".symtab"),
        (mini_debug, Source.MINIDEBUG, ""),
        (dynsym, Source.DYNSYM, ".dynsym"),
    ]
    for asked, source, name in wanted:
        if asked:
            try:
                holder = elf if name else elf.mini_debug()
                table = find_table(holder, name or ".symtab") if holder is not None else None
                if holder is not None and table is not None:
                    tables.append((holder, table, source))
            except WhenceError as error:
                problems.append(error.in_file(elf.path))
    jumps: list[tuple[int, int, bytes]] = []
    if plt:
        try:
            jumps = stubs(elf)
        except ElfError as error:
            problems.append(error.in_file(elf.path))
    room = sum(len(table.entries) // layout.SYMBOL_SIZE[holder.bits] for holder, table, _ in tables) + len(jumps)
    collector = Collector(room if near is None else min(room, FEW), () if near is None else near)
    for leading in (False,) if near is None else (True, False):
        for holder, table, source in list(tables):
            try:
                collector.add_table(holder, table, strings, source, program or elf, leading=leading)
            except WhenceError as error:
                problems.append(error.in_file(holder.path))
                tables.remove((holder, table, source))
    if near is not None and collector.rows + len(jumps) >= FEW:  # some may have been left out
        return functions(
            elf, strings, symtab=symtab, mini_debug=mini_debug, dynsym=dynsym, plt=plt, program=program
        )  # fmt: skip
    if jumps:
        arena = Arena(strings)
        for va, size, name_bytes in jumps:
            collector.add(va, size, arena.add(name_bytes + b"@plt"), Source.PLT)
        arena.seal()
    return collector.settle(strings)


def aliases(elf: ElfFile, vaddr: int) -> tuple[str, ...]:
    """Every function symbol that covers a vaddr by its size, or starts at it: folded code has many true names."""
    found: dict[str, None] = {}
    for name in (".symtab", ".dynsym"):
        symbols = read_symbols(elf, name)
        for index, value in enumerate(symbols.value):
            covers = value <= vaddr and (vaddr < value + symbols.size[index] or value == vaddr)
            if covers and symbols.section[index] and symbols.info[index] & constants.STT_MASK in FUNCTION_TYPES:
                found[symbols.name(index)] = None
    found.pop("", None)
    return tuple(found)
