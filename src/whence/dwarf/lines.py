"""Line programs: .debug_line, versions 2 to 5, as rows of (vaddr, file, line).

A program (DWARF 5, section 6.2) belongs to a unit and writes rows in sequences, each over contiguous code. The result
is one set of columns in ascending order: sequences are sorted and joined, sequences of dropped code are left out, and
rows without a file mark the gaps. Of several rows at one address the last counts; where sequences overlap, the first to
end wins (as in LLVM). is_stmt flags are not read; columns and discriminators are read on request.

A fault costs the rest of its program: the sequences before it are kept, and `problems` has the error. Malformed
contents never raise. `kernels/lines.py` is the reader; this module has its callers, for the programs of many units and
for a single program, and the messages for its faults.

>>> from tests.forge.lines import program, sections
>>> from whence.ranges import StringSpace
>>> from whence.ranges.strings import Arena
>>> space = StringSpace()
>>> data = sections(program([("set_address", 0x1000), ("special", 0, 6), ("special", 4, 1), ("end", 8)]))
>>> table = read_lines(data, offset=0, comp_dir=b"/src", arena=Arena(space))
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
from whence.dwarf.line_files import INLINE, POSITION_BITS, FileNames, Paths
from whence.dwarf.problems import Problems
from whence.ranges import Rows, Scopes, Starts, StringSpace
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE, Locations, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.dwarf.sections import Sections

NO_DIRECTORY = (1 << 64) - 1  # a missing directory

FAULTS = {  # by the kernel's number, with the value that is wrong
    lines_kernel.BAD_UNIT_LENGTH: "unit length {:#x} is reserved",
    lines_kernel.BEYOND_SECTION: "program length {:#x} extends past the end of the section",
    lines_kernel.BAD_VERSION: "line program version {} is not supported (2 to 5 are)",
    lines_kernel.BAD_ADDRESS_SIZE: "address size {} is not 1, 2, 4 or 8",
    lines_kernel.BAD_SEGMENT_SELECTOR_SIZE: "segment selector size {} is not supported (0 is)",
    lines_kernel.BAD_HEADER_LENGTH: "header length {:#x} extends past the end of the program",
    lines_kernel.READ_TOO_OFTEN: "line programs are read more often than the size of the section allows",
    lines_kernel.NO_TABLES: "the header has no tables of directories and files",
    lines_kernel.TOO_MANY_ENTRIES: "a table of {} entries extends past the end of the header",
    lines_kernel.BAD_FORM: "an entry of a table has a form that is not allowed there",
    lines_kernel.CUT_SHORT: "a table or the program is cut off",
    lines_kernel.BAD_OPCODE_LENGTH: "an extended opcode extends past the end of the program",
    lines_kernel.NO_LINE_RANGE: "line_range is 0",
    lines_kernel.BAD_ADDRESS: "DW_LNE_set_address has no address of 1 to 8 bytes",
}


class LinePrograms:
    """A reader of the line programs of units, for one thread.

    Args:
        sections, order: the sections of the file and its byte order.
        lowest: the first vaddr that can be code; sequences that start below are dead code.
        paths: the paths of the file.
        names: the space of the names and compilation directories of units.
        columns: make the lines of rows, and of the calls of scopes, numbers of locations.
        skip_line_zero: give rows of line 0 the location of the last row with a line in their sequence.
    """

    def __init__(
        self, sections: Sections, order: ByteOrder, lowest: int, paths: Paths, names: StringSpace, *,
        columns: bool = False, skip_line_zero: bool = False,
    ) -> None:  # fmt: skip
        data = sections.debug_line, sections.debug_str_offsets
        self._kernel = lines_kernel.LineProgramReader(*data, order == "big", lowest, columns, skip_line_zero)
        self._with_columns = columns
        self._size = len(sections.debug_line)
        self._paths, self._names = paths, names

    def read(
        self, rows_of_units: array[int], chosen: array[int], scopes: Scopes, scope_ends: array[int], starts: Starts,
        start_ends: array[int], problems: list[DwarfError] | Problems,
    ) -> tuple[Rows, array[int]]:  # fmt: skip
        """Return the rows of the programs of the chosen units, and the end of each unit's rows.

        `scope_ends` and `start_ends` are the ends of each unit's scopes and starts, whose files change from numbers to
        names (0 for a number past the table). Errors are added to `problems`.
        """
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
        capacity = self._kernel.max_rows()
        rows = Rows(zeros("Q", capacity), zeros("I", capacity), zeros("I", capacity))
        rows.files.extend(numbers)
        ends = zeros("I", len(chosen))
        count = self._kernel.emit_rows(number_of, names, *named, rows, ends)
        del rows.vaddr[count:], rows.file[count:], rows.line[count:]
        if self._with_columns:
            rows.locations = Locations(*(array("I", column) for column in self._kernel.locations()))
        return rows, ends

    def file_names(self, rows_of_units: array[int], unit: int) -> FileNames:
        """Return the files of one unit's program without reading its rows. Errors are left to readers of the rows."""
        row = unit * WIDTH
        if rows_of_units[row + HAS] & HAS_STMT_LIST:
            self._paths.tables_left = self._kernel.read_tables(rows_of_units, unit, self._paths.tables_left)
            return self.last_file_names(self._names.raw(rows_of_units[row + COMP_DIR]))
        return FileNames(b"", self._paths, 0)

    def last_file_names(self, comp_dir: bytes) -> FileNames:
        """Return the files of the program that was read last."""
        first, *tables = self._kernel.tables()
        return FileNames(comp_dir, self._paths, first, *(array("Q", table) for table in tables))

    def _problems(self) -> Iterator[tuple[int, DwarfError]]:
        """Yield the errors in the programs read last, each with the index of its program in the batch."""
        numbers = iter(array("Q", self._kernel.faults()))
        for program, fault, offset, value in zip(numbers, numbers, numbers, numbers):
            if fault == lines_kernel.CUT_OFF:
                error = cut_off(DwarfError, ".debug_line", offset, value, max(0, self._size - offset))
            else:
                error = DwarfError(".debug_line", offset, FAULTS[fault].format(value))
            yield program, error

    def _file_names(self) -> array[int]:
        """Return the path of each file that is used."""
        names = array("Q")
        last, comp_dir, composed = NO_DIRECTORY, b"", dict[tuple[int, int], int]()
        keys = iter(array("Q", self._kernel.keys()))
        for ref, directory, name in zip(keys, keys, keys):
            if ref != last:
                last, comp_dir = ref, self._names.raw(ref)
                composed = self._paths.composed(comp_dir)
            # No other program refers to a string in the program itself.
            paths = {} if name >> POSITION_BITS == INLINE else composed
            key = -1 if directory == NO_DIRECTORY else directory, name
            names.append(self._paths.ref(paths, comp_dir, key))
        return names


class LineTable(Record):
    """The rows of one program, and its files by number (as in a DIE's DW_AT_call_file)."""

    rows: Rows
    names: FileNames
    problems: list[DwarfError] = field(default_factory=list)

    def file(self, number: int) -> int:
        """Return the name reference of a file's path by its number in the program, or 0."""
        return self.names.ref(number)


def read_lines(
    sections: Sections,
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
    """Return the line program at an offset of .debug_line, read by itself.

    `comp_dir`, `name` and `str_base` (DW_AT_str_offsets_base) are those of the unit: paths are relative to the first,
    errors name the second. One pass over the program; time and memory are proportional to its size.
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
