"""Every source of names of one object file.

In: an object file, and a callable that opens the files that complete it. Out: one table of ranges, in which each
address is named by its best source: DWARF or PDB (of the file or of its debug file), .gopclntab, .symtab,
.gnu_debugdata, .dynsym, PLT stubs. Damaged parts are skipped and reported as problems.
"""

from __future__ import annotations

from _weakref import ref
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from whence._base.closing import CheckedClosing
from whence._base.cores import share
from whence._base.errors import WhenceError
from whence._base.forks import cached_property
from whence._base.mapped import checked
from whence._base.options import DEFAULTS, ReadOptions
from whence._base.reasons import Reason
from whence.dwarf.info import DebugInfo
from whence.dwarf.linked import LinkedInfo
from whence.kernels.rows import ascending
from whence.objects.companions import Companion, CompanionKind
from whence.objects.elf.function_symbols import functions
from whence.objects.elf.kernels import symbols as symbols_kernel
from whence.objects.interface import ObjectFile
from whence.ranges import Ranges, StringSpace
from whence.ranges.holding import holding
from whence.ranges.merge import merge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from whence.dwarf.unit_set import Unit
    from whence.gopclntab import Pclntab
    from whence.objects.companions import Complete
    from whence.objects.parts import LinkedObject
    from whence.pdb import PdbDebugInfo


class Producers(CheckedClosing):
    """The sources of names of one object file.

    Args:
        elf: the file; it stays the caller's.
        complete: opens a file that completes it, which `close` closes. None: the file is all there is.
        options: what to read.
    """

    def __init__(self, elf: ObjectFile, *, complete: Complete | None = None, options: ReadOptions = DEFAULTS) -> None:
        self.elf = elf
        self._complete = complete
        self.strings = StringSpace()
        self.options = options
        self.problems: list[WhenceError] = []
        self._problems_at_close: list[str] | None = None
        self._opened: list[ObjectFile] = []
        self.debug_elf = elf
        self.alt_elf: ObjectFile | None = None
        if options.dwarf or options.symtab:
            self.debug_elf = self._companion(CompanionKind.DEBUG_FILE) or elf
        self.names_file = self.debug_elf if self.debug_elf.has_only_names else None
        self.dwarf: DebugInfo | None = self._open_dwarf() if options.dwarf else None
        self.linked: LinkedInfo | None = self._open_linked() if options.dwarf else None
        self.pdb: PdbDebugInfo | None = self._open_pdb()

    def __repr__(self) -> str:
        debug_info = "DWARF" if self.pdb is None else "PDB"
        kinds: dict[str, object] = {
            debug_info: self.debug_info,
            ".gopclntab": self.pclntab,
            "symbols": self.options.symtab or None,
        }
        if self.names_file is not None:
            kinds = {self.names_file.format: self.names_file}
        kinds_read = ", ".join(kind for kind, source in kinds.items() if source is not None)
        return f"<Producers of {self.elf.path or 'bytes in memory'}: {kinds_read or 'none'}>"

    def prepare(self) -> None:
        """Import every module that reading the files imports (see ObjectFile.prepare)."""
        self.find_companions()
        _ = self.pclntab
        for file in (self.elf, *self._opened):
            file.prepare()

    def find_companions(self) -> None:
        """Open the package of split units now, not with the first such unit."""
        if self.dwarf is not None:
            _ = self._package

    @cached_property
    def _package(self) -> ObjectFile | None:
        return self._companion(CompanionKind.PACKAGE) if self.debug_elf.path else None

    def _companion(
        self, kind: CompanionKind, comp_dir: str = "", name: str = "", linked: LinkedObject | None = None
    ) -> ObjectFile | None:
        """Open a file that completes the one with the debug info."""
        if self._complete is None:
            return None
        companion = self._complete(Companion(kind, self.debug_elf, comp_dir, name, linked))
        if companion is not None and companion is not self.elf:
            self._opened.append(companion)
        return companion

    def _open_linked(self) -> LinkedInfo | None:
        elf = self.debug_elf
        if self._complete is None or self.dwarf is not None or not elf.linked_objects:
            return None
        weak = ref(self)

        def open_object(entry: LinkedObject) -> ObjectFile | None:
            producers = weak()
            if producers is None:
                return None
            return producers._companion(CompanionKind.LINKED_OBJECT, linked=entry)

        return LinkedInfo(elf, elf.linked_objects, strings=self.strings, open_object=open_object, options=self.options)

    def _open_pdb(self) -> PdbDebugInfo | None:
        """Return the debug info of a PDB file, which is rebased to the image base of its program."""
        pdb = self.debug_elf
        if pdb.format != "PDB":
            return None
        from whence.objects.pdb import PdbFile
        from whence.objects.pe import PeFile
        from whence.pdb import PdbDebugInfo

        assert isinstance(pdb, PdbFile)
        if isinstance(self.elf, PeFile):
            pdb.rebase(self.elf.header.base)
        if not self.options.dwarf or not pdb.has_debug_info:
            return None
        try:
            return PdbDebugInfo(pdb, strings=self.strings, options=self.options)
        except WhenceError as error:
            self.problems.append(error.in_file(pdb.path))
            return None

    @property
    def debug_info(self) -> DebugInfo | LinkedInfo | PdbDebugInfo | None:
        """The debug info of the file, its debug file or its object files."""
        return next((source for source in (self.dwarf, self.linked, self.pdb) if source is not None), None)

    def _open_dwarf(self) -> DebugInfo | None:
        elf = self.debug_elf
        if elf.section(".debug_info") is None:
            return None
        weak = ref(self)  # a cycle would keep the files mapped until garbage is collected

        def split_unit(unit: Unit) -> ObjectFile | None:
            producers = weak()
            if producers is None:
                return None
            return producers._companion(CompanionKind.SPLIT_UNIT, unit.comp_dir, unit.dwo_name)

        def package() -> ObjectFile | None:
            producers = weak()
            return None if producers is None else producers._package

        if elf.section(".gnu_debugaltlink") is not None:
            self.alt_elf = self._companion(CompanionKind.ALT_FILE)
        return DebugInfo(elf, strings=self.strings, alt=self.alt_elf, dwp=package, dwo=split_unit, options=self.options)

    @cached_property
    def pclntab(self) -> Pclntab | None:
        """Go's tables; None if the file has none. The first use searches for them."""
        if not self.options.gopclntab or not may_be_go(self.elf):
            return None
        from whence.gopclntab import Pclntab

        try:
            return Pclntab.find(self.elf)
        except WhenceError as error:
            self.problems.append(error)
            return None

    def units_at(self, vaddrs: Sequence[int]) -> list[int]:
        """Return the units of debug info that can contain any of the vaddrs.

        They are offsets in .debug_info, or numbers of object files of a debug map, or of modules of a PDB file.
        """
        debug_info = self.debug_info  # another thread may close the producers
        if debug_info is None:
            return []
        with self.reading():
            return debug_info.units_at(vaddrs)

    def ranges(
        self,
        units: Iterable[int] | None = None,
        *,
        near: Sequence[int] | None = None,
        vaddrs: Iterable[int] | None = None,
        lines: bool = True,
        files: bool = True,
        starts: bool = True,
        only: str = "",
    ) -> Ranges:
        """Return the table of all sources. Its names are in the files: read them in a `reading` block.

        Args:
            units: units as `units_at` returns them; only these are read.
            near: vaddrs; only symbols and Go functions at these are read.
            vaddrs: only ranges that contain any of these are returned.
            lines, files: include line rows, and files.
            starts: include where functions begin.
            only: a single source, "dwarf" (also PDB), "gopclntab", "symtab", or "exchange" (GSYM and Breakpad files).
        """
        with self.reading():
            return self._ranges(units, near, vaddrs, lines, files, starts, only)

    def _ranges(
        self, units: Iterable[int] | None, near: Sequence[int] | None, vaddrs: Iterable[int] | None, lines: bool,
        files: bool, starts: bool, only: str,
    ) -> Ranges:  # fmt: skip
        sorted_vaddrs: memoryview | None = None
        if vaddrs is not None:
            sorted_vaddrs = ascending(array("Q", vaddrs))[0].numbers()
        elif near is not None:
            sorted_vaddrs = memoryview(array("Q", sorted(near)))
        if self.names_file is not None and self.names_file is self.elf:
            return self._exchanged(near, sorted_vaddrs)
        by_dwarf = Ranges(self.strings)
        debug_info = self.debug_info
        by_go: list[Ranges] = []
        by_symbols: list[Ranges] = []

        def read_dwarf() -> None:
            nonlocal by_dwarf
            if debug_info is not None and only in ("", "dwarf"):
                by_dwarf = debug_info.ranges(
                    units, jobs=self.options.jobs, lines=lines, starts=starts, vaddrs=sorted_vaddrs
                )

        def read_others() -> None:
            if self.pclntab is not None and only in ("", "gopclntab"):
                by_go.append(self.pclntab.ranges(self.strings, lines=lines, files=files, near=near))
            if self.options.symtab and only in ("", "symtab"):
                for file in dict.fromkeys((self.debug_elf, self.elf)):
                    by_symbols.append(
                        functions(file, self.strings, program=self.elf, problems=self.problems, near=near)
                    )
                    if near is None:
                        for section in (".symtab", ".strtab"):
                            file.done_with(section)

        if near is None:  # read symbols while units of DWARF are read
            share(range(1 if self.options.jobs == 1 else 2), [read_dwarf, read_others], lambda _, read: read())
        else:
            read_dwarf()
            if (
                debug_info is not None and not debug_info.bare and not self.elf.is_go
            ):  # Go's tables know where methods start
                by_dwarf = merge([by_dwarf])
                if names_all(by_dwarf, near):  # other sources would be overlaid
                    return by_dwarf
            read_others()
        if debug_info is not None and debug_info.bare:
            for symbols in by_symbols:
                take_linkage_names(by_dwarf, symbols, debug_info.bare)
        if self.pdb is not None and self.options.names == "linkage":
            for symbols in by_symbols:
                take_names(by_dwarf, symbols)
        if self.names_file is not None and only in ("", "exchange"):
            by_dwarf = self._exchanged(near, sorted_vaddrs)
        return merge([by_dwarf, *(part_for(table, sorted_vaddrs) for table in (*by_go, *by_symbols))])

    def _exchanged(self, near: Sequence[int] | None, vaddrs: memoryview | None) -> Ranges:
        """Return the functions of the GSYM or Breakpad file, or the lines of the source map."""
        from whence.exchange.reading import image_start, ranges_of_file  # most files are not such files

        assert self.names_file is not None
        base = 0 if self.names_file is self.elf else image_start(self.elf)
        table = ranges_of_file(
            self.names_file, self.strings, self.problems, near=near, base=base, columns=self.options.columns
        )
        return merge([part_for(table, vaddrs)])

    def symbol_vaddrs(self, name: str) -> list[int]:
        """Return the vaddrs of symbols with a name, the first in each symbol table."""
        vaddrs = []
        for elf in dict.fromkeys((self.elf, self.debug_elf)):
            for table in (".symtab", ".dynsym"):
                with suppress(WhenceError):
                    symbols = elf.symbols(table)
                    index = symbols.find(name)
                    if index is not None and symbols.value[index]:
                        vaddrs.append(symbols.value[index])
        return vaddrs

    def why_unnamed(self) -> Reason:
        """Return why an address in code has no frames: the file is stripped, or has no name for it."""
        if self.dwarf is not None or self.pclntab is not None or self.names_file is not None:
            return Reason.NOT_IN_ARCHIVE
        has_symbols = any(elf.has_symtab for elf in (self.elf, self.debug_elf))
        return Reason.NOT_IN_ARCHIVE if has_symbols else Reason.NO_DEBUG_FILE

    def again(self) -> Producers:
        """Return new producers of the same file, with nothing read."""
        return Producers(self.elf, complete=self._complete, options=self.options)

    @property
    def nameless(self) -> bool:
        """True if no source could name an address."""
        if self.dwarf is not None or self.pclntab is not None or self.names_file is not None:
            return False
        for file in dict.fromkeys((self.elf, self.debug_elf)):
            if file.has_symtab or any(file.section(name) is not None for name in (".dynsym", ".gnu_debugdata")):
                return False
            if not file.sections and file.symbol_table(".dynsym") is not None:
                return False
        return True

    def check(self) -> None:
        """Raise ElfError if a file was truncated or written to since it was opened."""
        for file in (self.elf, *self._opened):
            file.check()

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager for a block that reads the files; checks at its end that they are unchanged."""
        return checked(self.check)

    def close(self) -> None:
        """Close the companion files and drop what was read. Problems stay available."""
        if self._problems_at_close is None:
            self._problems_at_close = list(self.all_problems())
        self.dwarf = self.linked = self.pdb = self.pclntab = None
        self.strings = StringSpace()
        for file in self._opened:
            file.close()

    def all_problems(self) -> Iterable[str]:
        """Return descriptions of damaged parts that were skipped, each once."""
        return dict.fromkeys(self._met()) if self._problems_at_close is None else self._problems_at_close

    def errors(self) -> Iterator[WhenceError]:
        """Yield the errors of damaged parts that were skipped, the file's own first."""
        for file in dict.fromkeys((self.elf, self.debug_elf)):
            yield from (problem.in_file(file.path) for problem in file.problems)
        yield from (problem.in_file(self.elf.path) for problem in self.problems)
        if self.dwarf is not None:
            yield from (problem.in_file(self.debug_elf.path) for problem in self.dwarf.problems)
        if self.linked is not None:
            yield from self.linked.problems
        if self.pdb is not None:
            yield from (problem.in_file(self.debug_elf.path) for problem in self.pdb.problems)

    def _met(self) -> Iterator[str]:
        yield from map(str, self.errors())
        pclntab: Pclntab | None = self.__dict__.get("pclntab")  # None until it was searched for
        if pclntab is not None:
            for what, count in pclntab.skipped.items():
                if count:
                    yield f"gopclntab: {count} functions without their {what}"


def names_all(table: Ranges, vaddrs: Iterable[int]) -> bool:
    """Return True if a merged table names the function of every vaddr."""
    for vaddr in vaddrs:
        row = bisect_right(table.vaddr, vaddr) - 1
        while row >= 0 and table.depth[row]:  # inlined calls follow their function
            row -= 1
        if row < 0 or not table.function[row] or vaddr >= table.vaddr[row] + table.length[row]:
            return False
    return True


LINKAGE_NAMES = (b"_Z", b"_R")  # prefixes of C++ and Rust


def part_for(table: Ranges, vaddrs: memoryview | None) -> Ranges:
    """Return the part of a table that answers for ascending vaddrs; all of it for None."""
    if vaddrs is None:
        return table
    return holding(table, vaddrs)


def take_linkage_names(table: Ranges, symbols: Ranges, bare: Iterable[int]) -> None:
    """Replace bare function names by the linkage name of the symbol there, if it has one.

    Line tables alone (clang -g1) name functions without their scope: a constructor is `Q<int>`, while the symbol has
    the class, too. `symbols` are in order of vaddr. Costs a look at each range, and a binary search for such names.
    """
    raw = table.strings.raw
    unscoped = {name for name in bare if b"::" not in raw(name)}  # otherwise the name has its scope
    for row, name in enumerate(table.function):
        if name in unscoped and not table.depth[row]:
            index = bisect_right(symbols.vaddr, table.vaddr[row]) - 1
            if index >= 0 and table.vaddr[row] < symbols.vaddr[index] + symbols.length[index]:
                symbol = symbols.function[index]
                if raw(symbol).startswith(LINKAGE_NAMES):
                    table.function[row] = symbol


def take_names(table: Ranges, symbols: Ranges) -> None:
    """Replace names of functions by those of the symbols at their starts, which are in order of vaddr.

    A PDB file has linkage names of functions only among its public symbols, and none of inlined calls. A function of
    several files is several ranges, of which the first one is at the symbol.
    """
    names = dict(zip(symbols.vaddr, symbols.function))
    previous, name, end = 0, 0, 0  # the function before, its new name, and where it ends
    for row, depth in enumerate(table.depth):
        if not depth:
            function = table.function[row]
            if function != previous or table.vaddr[row] != end:
                previous, name = function, names.get(table.vaddr[row], function)
            table.function[row] = name
            end = table.vaddr[row] + table.length[row]


GO_SYMBOLS = b"\0runtime.pc"  # prefix of runtime.pclntab and runtime.pcheader


def may_be_go(elf: ObjectFile) -> bool:
    """Return False if a file has sections, but none of the Go linker, and no symbols of .gopclntab."""
    if not elf.sections or elf.is_go:
        return True
    try:
        has_symbols: bool = symbols_kernel.holds(elf.symbol_names(), GO_SYMBOLS)
        return has_symbols
    except WhenceError:
        return True
