"""Line programs: .debug_line, versions 2 to 5, as rows of (vaddr, file, line).

A program (DWARF 5, section 6.2) belongs to a unit and writes rows in sequences, each over contiguous code. Out comes
one set of columns in ascending order: sequences sorted and joined, those of code that the linker dropped left out, the
stretches between them marked by rows without a file. Of rows at one address the last counts; where sequences overlap,
the one that ends first has the bytes (as LLVM decides it). is_stmt flags are not read; columns and discriminators are
when they are asked for.

A fault costs what comes after it in its program: the sequences before it are kept, and `problems` has what is wrong.
Nothing here raises for what a file holds. `kernels/lines.py` is the reader; here are its callers, one for the programs
of many units and one for a single program, and what its faults mean.

>>> from tests.forge.lines import program, sections
>>> from whence.ranges import StringSpace
>>> from whence.ranges.strings import Arena
>>> space = StringSpace()
>>> found = sections(program([("set_address", 0x1000), ("special", 0, 6), ("special", 4, 1), ("end", 8)]))
>>> table = read_lines(found, offset=0, comp_dir=b"/src", arena=Arena(space))
>>> [(hex(vaddr), line) for vaddr, line in zip(table.rows.vaddr, table.rows.line)]
[('0x1000', 7), ('0x1004', 8), ('0x100c', 0)]
"""

from __future__ import annotations

from array import array

from whence._base.errors import DwarfError, cut_off
from whence._base.records import Record, field
from whence._base.window import ByteOrder
from whence.dwarf.kernels import lines as lines_kernel
from whence.dwarf.kernels.units import ADDRESS_SIZE, COMP_DIR, HAS, HAS_STMT_LIST, NAME, STMT_LIST, STR_BASE, WIDTH
from whence.dwarf.line_files import INLINE, PLACE_BITS, FileNames, Paths
from whence.dwarf.problems import Problems
from whence.ranges import Rows, Scopes, Starts, StringSpace
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE, Locations, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from whence.dwarf.line_files import LineSections

NO_DIRECTORY = (1 << 64) - 1  # the place of a directory that is not there

# What a fault breaks, and how the number found is shown (None: there is none)
RULES: dict[int, tuple[str, Callable[[int], object] | None]] = {
    lines_kernel.BAD_UNIT_LENGTH: ("unit_length is below fffffff0 or ffffffff", hex),
    lines_kernel.BEYOND_SECTION: ("a program ends inside its section", "{:#x} bytes".format),
    lines_kernel.BAD_VERSION: ("the version of a line program is 2 to 5", int),
    lines_kernel.BAD_ADDRESS_SIZE: ("an address has 1, 2, 4 or 8 bytes", int),
    lines_kernel.BAD_SEGMENT_SELECTOR_SIZE: ("segment_selector_size is 0", int),
    lines_kernel.BAD_HEADER_LENGTH: ("header_length ends inside its program", hex),
    lines_kernel.READ_TOO_OFTEN: ("line programs are not read more often than their bytes justify", None),
    lines_kernel.NO_TABLES: ("the tables come before the program", lambda _: "no bytes"),
    lines_kernel.TOO_MANY_ENTRIES: ("a table's entries fit before its program", "{} entries".format),
    lines_kernel.BAD_FORM: ("an entry's form is one that line tables may use", None),
    lines_kernel.CUT_SHORT: ("the bytes go on to where the table or program says it ends", None),
    lines_kernel.BAD_OPCODE_LENGTH: ("an extended opcode ends inside its program", None),
    lines_kernel.NO_LINE_RANGE: ("line_range is not 0 where opcodes divide by it", None),
    lines_kernel.BAD_ADDRESS: ("DW_LNE_set_address has 1 to 8 bytes of address", None),
}


class LinePrograms:
    """Reads the line programs of units, on one thread.

    `names` is the space that the units' names and compilation directories refer to. A sequence that starts below
    `lowest` is dead code (0 in files whose code may be at 0, as in relocatable ones). `paths` has each path once for
    all programs of a file and arena. With `columns` the lines of rows, and those of scopes' calls, become numbers of
    locations. With `skip_line_zero` a row of line 0 has the location of the last row before it in its sequence that has
    a line.
    """

    def __init__(
        self, sections: LineSections, order: ByteOrder, lowest: int, paths: Paths, names: StringSpace, *,
        columns: bool = False, skip_line_zero: bool = False,
    ) -> None:  # fmt: skip
        data = sections.debug_line, sections.debug_str_offsets
        self._kernel = lines_kernel.LinePrograms(*data, order == "big", lowest, columns, skip_line_zero)
        self._with_columns = columns
        self._size = len(sections.debug_line)
        self._paths, self._names = paths, names

    def read(
        self, rows_of_units: array[int], chosen: array[int], scopes: Scopes, scope_ends: array[int], starts: Starts,
        start_ends: array[int], problems: list[DwarfError] | Problems,
    ) -> tuple[Rows, array[int]]:  # fmt: skip
        """The rows of the programs of these units, and where those of each end. `scope_ends` and `start_ends` say where
        the scopes and starts of each end: their files, numbers so far, become names (a number beyond the table: 0).
        What is wrong is added to `problems`."""
        named = scopes, scope_ends, starts, start_ends
        budget = self._paths.budget
        granted = budget.take(self._kernel.bytes_of_programs(rows_of_units, chosen))
        budget.give_back(self._kernel.read(rows_of_units, chosen, *named, granted))
        for program, error in self._problems():
            name = self._names.raw(rows_of_units[chosen[program] * WIDTH + NAME])
            error.add_note(
                f"in the line program of {name.decode('utf-8', 'backslashreplace') or 'a unit without name'}"
            )
            problems.append(error)
        if self._with_columns:
            self._kernel.number_calls(scopes)
        names = self._file_names()
        numbers: dict[int, int] = {}
        number_of = array("I", [numbers.setdefault(ref, len(numbers)) if ref else NO_FILE for ref in names])
        room = self._kernel.room()
        rows = Rows(zeros("Q", room), zeros("I", room), zeros("I", room))
        rows.files.extend(numbers)
        ends = zeros("I", len(chosen))
        count = self._kernel.emit_rows(number_of, names, *named, rows, ends)
        del rows.vaddr[count:], rows.file[count:], rows.line[count:]
        if self._with_columns:
            rows.locations = Locations(*(array("I", column) for column in self._kernel.locations()))
        return rows, ends

    def file_names(self, rows_of_units: array[int], unit: int) -> FileNames:
        """The files of one unit's program, whose rows are not read; whoever reads those reports what is wrong."""
        row = unit * WIDTH
        if rows_of_units[row + HAS] & HAS_STMT_LIST:
            self._paths.tables_left = self._kernel.read_tables(rows_of_units, unit, self._paths.tables_left)
            return self.last_file_names(self._names.raw(rows_of_units[row + COMP_DIR]))
        return FileNames(b"", self._paths, 0)

    def last_file_names(self, comp_dir: bytes) -> FileNames:
        """The files of the program read last."""
        first, *tables = self._kernel.tables()
        return FileNames(comp_dir, self._paths, first, *(array("Q", table) for table in tables))

    def _problems(self) -> Iterator[tuple[int, DwarfError]]:
        """What is wrong with the programs read last: (the program's place in the batch, the error)."""
        numbers = iter(array("Q", self._kernel.faults()))
        for program, fault, offset, found in zip(numbers, numbers, numbers, numbers):
            if fault == lines_kernel.CUT_OFF:
                error = cut_off(DwarfError, "debug_line", offset, found, max(0, self._size - offset))
            else:
                rule, shown = RULES[fault]
                error = DwarfError("debug_line", offset, rule, *([shown(found)] if shown else []))
            yield program, error

    def _file_names(self) -> array[int]:
        """The path of each file that is named."""
        names = array("Q")
        last, comp_dir, kept = NO_DIRECTORY, b"", dict[tuple[int, int], int]()
        keys = iter(array("Q", self._kernel.keys()))
        for ref, directory, name in zip(keys, keys, keys):
            if ref != last:
                last, comp_dir = ref, self._names.raw(ref)
                kept = self._paths.known(comp_dir)
            # A string in the program itself has a place that no other program names.
            known = {} if name >> PLACE_BITS == INLINE else kept
            key = -1 if directory == NO_DIRECTORY else directory, name
            names.append(self._paths.ref(known, comp_dir, key))
        return names


class LineTable(Record):
    """The rows of one program, and its files by number (a DIE's DW_AT_call_file counts the same way)."""

    rows: Rows
    names: FileNames
    problems: list[DwarfError] = field(default_factory=list)

    def file(self, number: int) -> int:
        """The name reference of a file's path, by its number in the program; 0 when there is no such file."""
        return self.names.ref(number)


def read_lines(
    sections: LineSections,
    *,
    offset: int,
    arena: Arena,
    order: ByteOrder = "little",
    address_size: int = 8,
    comp_dir: bytes = b"",
    name: bytes = b"",
    lowest: int = 1,
    paths: Paths | None = None,
    str_base: int = 0,
    columns: bool = False,
) -> LineTable:
    """The line program at an offset of .debug_line, by itself.

    `comp_dir`, `name` and `str_base` (DW_AT_str_offsets_base) are the unit's own: paths are relative to the first, and
    may be found by the last; problems name the second. Cost: one pass over the bytes; time and memory are bounded by
    the program's size.
    """
    space = StringSpace()
    unit = zeros("Q", WIDTH)
    unit[HAS], unit[STMT_LIST] = HAS_STMT_LIST, offset
    unit[ADDRESS_SIZE], unit[STR_BASE] = address_size, str_base
    unit[COMP_DIR], unit[NAME] = (space.ref(space.add(text + b"\0"), 0) for text in (comp_dir, name))
    programs = LinePrograms(sections, order, lowest, paths or Paths(sections, order, arena), space, columns=columns)
    problems: list[DwarfError] = []
    none = array("I", [0])
    rows, _ = programs.read(unit, none, Scopes(), none, Starts(), none, problems)
    return LineTable(rows, programs.last_file_names(comp_dir), problems)


__all__ = ["NO_FILE", "LinePrograms", "LineTable", "read_lines"]
