"""Functions and inlined calls of units: names, call sites, declarations and line rows.

Input: units of a set. Output: scopes, rows and starts of whence.ranges, and the ranges that they make. A `UnitReader`
is one thread's share of the work. A fault costs the rest of its unit and is reported in the reader's problems.

Qualified names: C++ and Rust functions without a linkage name (static functions, functions in unnamed namespaces,
`main`) have only a DW_AT_name. The namespaces, classes and functions around them are ancestors of the DIE with that
name, and are joined by `::`. A function among the ancestors (of a lambda or a local class) is declared elsewhere if it
is a member or in a namespace: the scopes around its declaration continue the name. A class without a name that has an
operator() is printed as the demangler prints a lambda, `main::'lambda'::operator()`.

Declarations: a DW_AT_decl_file is an index into the line program of the unit that contains the DIE. Usually that is the
unit being read; link-time optimization and dwz put the DIE into another unit, whose file table is then read by itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate, chain

from whence._base.errors import DwarfError
from whence._base.records import Record
from whence._base.source import Source
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import dies as dies_kernel
from whence.dwarf.kernels import names as names_kernel
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.units import (
    COMP_DIR,
    DWO_NAME,
    HAS,
    HAS_STMT_LIST,
    NAME,
    STMT_LIST,
    WIDTH,
)
from whence.dwarf.line_files import FileNames, LineBudgets, Paths
from whence.dwarf.lines import LinePrograms
from whence.dwarf.problems import Problems, unit_problem
from whence.dwarf.split import SplitFiles
from whence.dwarf.unit_set import Units, UnitSet
from whence.kernels.rows import above, numbered, put, taken
from whence.ranges import Ranges, Rows, Scopes, Starts
from whence.ranges.holding import holding
from whence.ranges.kernels import overlay as overlay_kernel
from whence.ranges.overlay import overlay_groups
from whence.ranges.strings import OFFSET_BITS, Arena
from whence.ranges.table import zeros

SCOPE_COLUMNS = ("vaddr", "end", "depth", "function", "call_file", "call_line", "call_column", "call_discriminator")
SCOPE_TAGS = {
    constants.DW_TAG_class_type,
    constants.DW_TAG_enumeration_type,
    constants.DW_TAG_structure_type,
    constants.DW_TAG_union_type,
    constants.DW_TAG_module,
    constants.DW_TAG_interface_type,
    constants.DW_TAG_namespace,
    constants.DW_TAG_subprogram,
}
DIE_TAG, DIE_MASK = names_kernel.TAG_SHIFT, (1 << names_kernel.TAG_SHIFT) - 1  # of an ancestor
NAME_STYLES = {  # of whence._base.model.NameStyle
    "qualified": names_kernel.QUALIFIED,
    "linkage": names_kernel.LINKAGE,
    "short": names_kernel.SHORT,
}
ALT_KEY, BARE_KEY = 1 << units_kernel.ALT_BIT, 1 << names_kernel.BARE_BIT
OTHER_FILE, ALT_FILE = 1 << names_kernel.OTHER_FILE_BIT, 1 << names_kernel.ALT_FILE_BIT
FILE_NUMBER = (1 << names_kernel.FILE_UNIT_SHIFT) - 1  # of a start's file


class UnitQuery(Record, frozen=True):
    """The parts of units that are read.

    Without `lines` there are no files, lines and starts; without `starts` no declarations of functions. With `vaddrs`
    (in ascending order), only ranges that contain any of them are returned.
    """

    lines: bool = True
    starts: bool = True
    vaddrs: memoryview | None = None


DEFAULT_QUERY = UnitQuery()
NO_VADDRS = array("Q")


class UnitReader:
    """A reader of units for one thread; it has its own memory and tables, so that threads share nothing they write.

    `bare` are the names of functions that have nothing but a name (clang -g1). `unresolved_refs` is True if names are
    in units outside the set.
    """

    def __init__(
        self, units: UnitSet, *, split: SplitFiles | None = None, query: UnitQuery = DEFAULT_QUERY,
        copied_source: int = 0, budgets: LineBudgets | None = None,
    ) -> None:  # fmt: skip
        """Make a reader of the units of a set.

        Args:
            split: the split files of the binary.
            query: what to read.
            copied_source: a source of names that is dropped later, so its names are copied, or 0.
            budgets: the budgets for line programs, shared by all readers of a query.
        """
        self.set, self._split, self._query, self._copied_source = units, split, query, copied_source
        file, sections = units.file, units.sections
        self.arena = Arena(file.strings)
        self.problems = Problems()
        self.bare: set[int] = set()
        self._unresolved_refs = False
        self._scopes = _scope_reader(units, query)
        self._sweep = overlay_kernel.Sweep()
        paths = Paths(sections, file.order, self.arena, go=file.go, style=file.read.paths, budgets=budgets)
        self._programs = LinePrograms(
            sections, file.order, file.lowest, paths, file.strings, columns=file.read.columns,
            skip_line_zero=file.read.skip_line_zero,
        )  # fmt: skip
        self._declarations = Declarations(units, self._programs, paths)

    def __repr__(self) -> str:
        return f"<UnitReader of {self.set!r}>"

    def set_units(self, units: UnitSet) -> None:
        """Continue with the units of another set, of the same file and sections."""
        self.set = units
        self._scopes.set_sections(units.kernel)

    def ranges(self, groups: list[list[int]]) -> Ranges:
        """Return the ranges of groups of units (rows); the units of a group share a line program."""
        out = Ranges(self.set.file.strings)
        scopes, ends, rows, row_ends, starts = self._read(groups)
        if self._query.starts:
            out.starts = starts
        units = array("I", chain.from_iterable(groups))
        unit_ends = array("I", accumulate(map(len, groups)))
        rows, row_ends = self.set.ranges.clip(units, unit_ends, scopes, ends, rows, row_ends)
        if len(scopes) or len(rows):
            overlay_groups(scopes, ends, rows, row_ends, out, Source.DWARF, self._sweep)
        if self._query.vaddrs is None:
            return out
        return holding(out, self._query.vaddrs)

    def read_unit(self, index: int) -> tuple[Scopes, Rows]:
        """Return the scopes and rows of one unit, before they become ranges."""
        scopes, _, rows, _, _ = self._read([[index]])
        return scopes, rows

    @property
    def unresolved_refs(self) -> bool:
        return self._unresolved_refs or bool(self._scopes.unresolved_refs)

    @property
    def unresolved(self) -> set[int]:
        """Offsets in .debug_info of DIEs outside the set that name functions, as far as known."""
        offsets: set[int] = self._scopes.unresolved
        return offsets

    def finish(self) -> Problems:
        """Make the names readable and return the problems."""
        self.arena.seal()
        return self.problems

    def _read(self, groups: list[list[int]]) -> tuple[Scopes, array[int], Rows, array[int], Starts]:
        """Return the scopes and rows of groups of units with the ends of each group, and the starts."""
        chosen = array("I", chain.from_iterable(groups))
        scopes, starts = self._read_scopes(self.set, self._scopes, chosen)
        last = [end - 1 for end in accumulate(map(len, groups))]
        ends, start_ends = (
            array("I", map(column.numbers().__getitem__, last))
            for column in (self._scopes.scope_ends, self._scopes.start_ends)
        )
        faults, fault_offsets = self._scopes.faults.numbers().tolist(), self._scopes.fault_offsets.numbers().tolist()
        units = self.set.units.rows
        if any(units[index * WIDTH + DWO_NAME] for index in chosen):
            scopes, ends, starts, start_ends = self._with_split(scopes, ends, starts, start_ends, groups)
        if not self._query.starts:
            starts, start_ends = Starts(), zeros("I", len(groups))
        if self._query.lines and (self.set.complete or not self.unresolved_refs):  # otherwise they are read again
            from_others = above(starts.file, FILE_NUMBER).numbers()
            of_which, files = numbered(taken(starts.file, "Q", from_others), "Q")
            names_of_files = self._declarations.files_of_other_units(files.numbers(), self.set.units)
            firsts = array("I", [group[0] for group in groups])
            named = scopes, ends, starts, start_ends
            rows, row_ends = self._programs.read(self.set.units.rows, firsts, *named, self.problems)
            put(starts.file, "Q", from_others, taken(names_of_files, "Q", of_which.numbers()))
        else:
            scopes.call_file = zeros("Q", len(scopes))
            rows, row_ends, starts = Rows(), zeros("I", len(groups)), Starts()
        for index, fault, offset in zip(chosen, faults, fault_offsets, strict=True):
            if fault:
                self._add_problem(index, fault, offset)
        return scopes, ends, rows, row_ends, starts

    def _add_problem(self, index: int, fault: int, offset: int) -> None:
        if not self.problems.full:
            name = self.set.file.strings.text(self.set.units.value(index, NAME))
            self.problems.append(unit_problem(fault, offset, index, name))

    def _read_scopes(
        self, units: UnitSet, reader: dies_kernel.ScopeReader, chosen: array[int], *, copy_names: bool = False
    ) -> tuple[Scopes, Starts]:
        """Return the scopes and starts of units of the set or of a split file.

        With `copy_names`, names are copied because the file is closed afterwards.
        """
        plain_names, starts_count = reader.read(chosen)
        scopes = Scopes()
        for name in SCOPE_COLUMNS:
            getattr(scopes, name).frombytes(getattr(reader, name))
        starts = Starts(zeros("Q", starts_count), zeros("Q", starts_count), zeros("I", starts_count))
        reader.take_starts(starts)
        if copy_names:
            own = {name for name in scopes.function if name >> OFFSET_BITS != names_kernel.PLAIN_SOURCE}
            copied = {name: self.arena.add(units.file.strings.raw(name)) for name in own}
            for columns in (scopes, starts):
                columns.function = array("Q", [copied.get(name, name) for name in columns.function])
        if plain_names:
            keys = zeros("Q", plain_names)
            reader.take_plain(keys)
            bare = [row for row, key in enumerate(keys) if key & BARE_KEY]
            for row in bare:
                keys[row] ^= BARE_KEY
            names, unresolved_refs = qualified_names(units, keys, self.arena)
            self._unresolved_refs |= unresolved_refs and units is self.set
            self.bare.update(map(names.__getitem__, bare))
            for columns in (scopes, starts):
                dies_kernel.put_qualified_names(columns.function, names)
        if self._copied_source:
            for columns in (scopes, starts):
                self._copy_names(columns.function)
        return scopes, starts

    def _copy_names(self, names: array[int]) -> None:
        """Copy the names of the source that is dropped later."""
        rows = zeros("I", len(names))
        copied: dict[int, int] = {}
        for row in rows[: dies_kernel.rows_of_source(names, self._copied_source, rows)]:
            name = names[row]
            if name not in copied:
                copied[name] = self.arena.add(self.set.file.strings.raw(name))
            names[row] = copied[name]

    def _with_split(
        self, scopes: Scopes, ends: array[int], starts: Starts, start_ends: array[int], groups: list[list[int]]
    ) -> tuple[Scopes, array[int], Starts, array[int]]:
        """Return the scopes and starts of groups, each followed by those of the split units of its skeletons.

        Their files are indexes into the line programs of the skeletons.
        """
        out, out_ends, first = Scopes(), array("I"), 0
        out_starts, out_start_ends, first_start = Starts(), array("I"), 0
        for group, end, start_end in zip(groups, ends, start_ends):
            for name in SCOPE_COLUMNS:
                getattr(out, name).extend(getattr(scopes, name)[first:end])
            out_starts.extend(starts.part(first_start, start_end))
            for index in group:
                self._add_split(out, out_starts, index)
            out_ends.append(len(out))
            out_start_ends.append(len(out_starts))
            first, first_start = end, start_end
        return out, out_ends, out_starts, out_start_ends

    def _add_split(self, scopes: Scopes, starts: Starts, index: int) -> None:
        """Append the scopes and starts of the split unit of a unit that is a skeleton."""
        if self._split is None or not self.set.units.value(index, DWO_NAME):
            return
        try:
            match = self._split.find(self.set, index)
        except DwarfError as error:
            self.problems.append(error)
            return
        if match is not None:
            file, row = match
            reader = _scope_reader(file.set, self._query)
            more, more_starts = self._read_scopes(file.set, reader, array("I", [row]), copy_names=file.single)
            for name in SCOPE_COLUMNS:
                getattr(scopes, name).extend(getattr(more, name))
            self._declarations.forget_other_units(more_starts)
            starts.extend(more_starts)
            if reader.faults[0]:
                self._add_problem(index, reader.faults[0], reader.fault_offsets[0])
            if file.single:
                elf = file.elf
                del match, file, reader  # their views would keep the file mapped
                elf.close()


def _scope_reader(units: UnitSet, query: UnitQuery) -> dies_kernel.ScopeReader:
    style = NAME_STYLES[units.file.read.names]
    vaddrs = NO_VADDRS if query.vaddrs is None or query.starts else query.vaddrs  # starts are found by name
    return dies_kernel.ScopeReader(units.kernel, units.alt.kernel, style, units.file.read.columns, vaddrs)


def qualified_names(units: UnitSet, keys: array[int], arena: Arena) -> tuple[array[int], bool]:
    """Return the qualified name of the DIE of each key, in the arena.

    A key is an offset in .debug_info, or with ALT_KEY in the supplementary file. The second result is True if parts of
    names are in units outside the set.
    """
    names: dict[int, int] = {}
    unresolved_refs = False
    for owner, alt_key in ((units, 0), (units.alt, ALT_KEY)):
        chosen = array("Q", sorted({key ^ alt_key for key in keys if key & ALT_KEY == alt_key}))
        if chosen:
            own_names, unresolved = _qualified(owner, chosen)
            unresolved_refs |= unresolved
            names |= {key | alt_key: arena.add(name) for key, name in own_names.items()}
    return array("Q", [names[key] for key in keys]), unresolved_refs


def _qualified(units: UnitSet, keys: array[int]) -> tuple[dict[int, bytes], bool]:
    """Return the qualified name of each DIE, and True if parts of names are in units outside the set.

    `keys` are offsets in ascending order.
    """
    around = _ancestors(units, keys)
    functions = sorted({die & DIE_MASK for die in chain(*around) if die >> DIE_TAG == constants.DW_TAG_subprogram})
    declared = {function: function for function in functions}  # and the DIE with its name, among its own ancestors
    unresolved_refs = False
    if functions:
        _, named, unresolved_refs = _names(units, array("Q", functions))
        declared |= {die: other for die, other in zip(functions, named) if other and other <= DIE_MASK and other != die}
    others = array("Q", sorted({die for function, die in declared.items() if die != function}))
    around_declared = dict(zip(others, _ancestors(units, others)))

    def scopes_around(index: int) -> Iterator[int]:
        for die in around[index]:
            yield die
            other = declared.get(die & DIE_MASK, 0)
            if other in around_declared:
                yield from around_declared[other]
                return

    scopes = [[*scopes_around(index)] for index in range(len(keys))]
    dies = keys + array("Q", sorted({die & DIE_MASK for die in chain(*scopes)}))
    refs, _, unresolved = _names(units, dies)
    raw = units.file.strings.raw
    texts = {die: raw(ref) for die, ref in zip(dies, refs)}
    names = {}
    for key, dies_around in zip(keys, scopes):
        parts = [texts[key]]
        for die in dies_around:
            parts.append(texts[die & DIE_MASK] or _unnamed(die >> DIE_TAG, parts[-1]))
        names[key] = b"::".join(reversed(parts))
    return names, unresolved_refs or unresolved


def _ancestors(units: UnitSet, keys: array[int]) -> list[list[int]]:
    """Return the scopes around each DIE, innermost first: tag << DIE_TAG | offset."""
    count = names_kernel.MAX_ANCESTORS
    dies = array("Q", bytes(names_kernel.ancestors(units.kernel, keys)))
    rows = (dies[start : start + count] for start in range(0, len(dies), count))
    return [[die for die in row if die >> DIE_TAG in SCOPE_TAGS] for row in rows]


def _names(units: UnitSet, dies: array[int]) -> tuple[array[int], array[int], bool]:
    """Return the names of DIEs, the DIEs that have them, and True if names are in units outside the set."""
    refs, named = zeros("Q", len(dies)), zeros("Q", len(dies))
    unresolved = names_kernel.read_names(units.kernel, units.alt.kernel, None, dies, refs, named)
    if unresolved and units.types is not None:
        unresolved = names_kernel.read_names(units.kernel, units.alt.kernel, units.types.kernel, dies, refs, named)
    return refs, named, unresolved


def _unnamed(tag: int, member: bytes) -> bytes:
    """Return what is printed for a scope without a name around a member."""
    if tag == constants.DW_TAG_namespace:
        return b"(anonymous namespace)"
    return b"'lambda'" if member.startswith(b"operator()") else b"(anonymous)"


class Declarations:
    """The files of functions that are declared in another unit than the one being read, for one thread.

    Each file table is read once.
    """

    def __init__(self, units: UnitSet, programs: LinePrograms, paths: Paths) -> None:
        """Make the files of other units, from the reader of line programs and the paths of the file."""
        self._set, self._programs = units, programs
        file, sections = units.file, units.alt.sections
        self._alt_programs = LinePrograms(sections, file.order, file.lowest, paths.beside(sections), file.strings)
        self._known: dict[tuple[bool, int, int], FileNames] = {}  # by supplementary file or not, program, directory

    def files_of_other_units(self, keys: Iterable[int], own: Units) -> array[int]:
        """Return the names of files of other units.

        Each key (see names.pxd) refers to a unit of `own` or of the supplementary file.
        """
        return array("Q", [self._files(key, own).ref(key & FILE_NUMBER) for key in keys])

    @staticmethod
    def forget_other_units(starts: Starts) -> None:
        """Mark files of other units as unknown: split units have no line programs."""
        from_others = above(starts.file, FILE_NUMBER).numbers()
        no_file = array("Q", [FILE_NUMBER])  # no table has this many files
        put(starts.file, "Q", from_others, no_file * len(from_others))

    def _files(self, key: int, own: Units) -> FileNames:
        """Return the files of the unit that a start's file refers to."""
        alt = bool(key & ALT_FILE)
        units = self._set.alt.units if alt else own
        index = (key & ~(OTHER_FILE | ALT_FILE)) >> names_kernel.FILE_UNIT_SHIFT
        unit = units.row(index)
        offset = unit[STMT_LIST] if unit[HAS] & HAS_STMT_LIST else -1
        program = alt, offset, unit[COMP_DIR]  # dwz: units of many directories share a table
        if program not in self._known:
            self._known[program] = (self._alt_programs if alt else self._programs).file_names(units.rows, index)
        return self._known[program]
