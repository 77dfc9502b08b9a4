"""Line programs: .debug_line, versions 2 to 5, as rows of (vaddr, file, line).

A program (DWARF 5, section 6.2) belongs to a unit and writes rows in sequences, each over contiguous code. Out comes
one set of columns in ascending order: sequences sorted and joined, those of code that the linker dropped left out, the
stretches between them marked by rows without a file. Of rows at one address the last counts; where sequences overlap,
the one that ends first has the bytes (as LLVM decides it). Columns and is_stmt flags are not read.

A fault costs what comes after it in its program: the sequences before it are kept, and the LineTable says what was
wrong in `problems`. Nothing here raises for what a file holds.

    line_header.py    the header and its directory and file tables
    line_files.py     file numbers to paths
    lines_kernel.py   the machine, and putting sequences in order; line_tables_kernel.py: the tables

>>> from tests.forge.lines import program, sections
>>> from whence.ranges import StringSpace
>>> from whence.ranges.strings import Arena
>>> space = StringSpace()
>>> found = sections(program([("set_address", 0x1000), ("special", 0, 6), ("special", 4, 1), ("end", 8)]))
>>> table = read_lines(found, offset=0, comp_dir=b"/src", arena=Arena(space))
>>> [(hex(va), line) for va, line in zip(table.rows.va, table.rows.line)]
[('0x1000', 7), ('0x1004', 8), ('0x100c', 0)]
"""

from __future__ import annotations

import threading
from array import array

from whence.dwarf.kernels import lines as lines_kernel
from whence.dwarf.line_files import PLACE_BITS, STRING, FileNames, LineSections, Paths
from whence.dwarf.line_header import RULES, Header, read_header, read_names, uleb
from whence.errors import DwarfError
from whence.ranges import Rows
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE
from whence.records import Record, field
from whence.window import ByteOrder, Window

# What lines_kernel.run stops with, when it is no fault
DONE, FULL, DEFINE_FILE = range(3)

# Registers in the state that run goes on from, by place
AT, ROWS, SEQUENCES, FIRST = 0, 6, 7, 8

UNSORTED = 1 << 63


class LineTable(Record):
    """The rows of one program, and its files by number (a DIE's DW_AT_call_file counts the same way)."""

    rows: Rows = field(default_factory=Rows)
    names: FileNames | None = None
    problems: list[DwarfError] = field(default_factory=list)

    def file(self, number: int) -> int:
        """The name reference of a file's path, by its number in the program; 0 when there is no such file."""
        return self.names.ref(number) if self.names is not None else 0


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
) -> LineTable:
    """The line program at an offset of .debug_line.

    `comp_dir`, `name` and `str_base` (DW_AT_str_offsets_base) are the unit's own: paths are relative to the first, and
    may be found by the last; problems tell the second. A sequence that starts below `lowest` is dead code (0 in files
    whose code may be at 0, as in relocatable ones). `paths` is shared by the programs of one file and arena, so that
    each path is put together once. Cost: one pass over the bytes; time and memory are bounded by the program's size.
    """
    table = LineTable()
    line = Window(sections.debug_line, "debug_line", order, DwarfError)
    try:
        header = read_header(line, offset, address_size, table.problems)
    except DwarfError as error:
        table.problems.append(error)
    else:
        shared = paths if paths is not None else Paths(sections, order, arena)
        if shared.spend(header.end - offset):
            table.names = read_names(line, header, comp_dir, shared, table.problems, str_base)
            table.rows = _run(line, header, table.names, lowest, table.problems)
        else:
            rule = "line programs are not read more often than their bytes justify"
            table.problems.append(DwarfError("debug_line", offset, rule))
    for problem in table.problems:
        problem.add_note(f"in the line program of {name.decode('utf-8', 'backslashreplace') or 'a unit without name'}")
    return table


class _Scratch(threading.local):
    """Columns a program runs in, one set for each thread, as long as the longest program needed so far."""

    def __init__(self) -> None:
        self.va, self.file, self.line = array("Q", bytes(8192)), array("I", bytes(4096)), array("I", bytes(4096))
        self.sequences = array("Q", bytes(32 * 64))

    def grow(self, left: int) -> None:
        """Half as much room again, and never more than `left` bytes of program can fill: a row takes one at least."""
        rows, sequences = len(self.va), len(self.sequences) // 4
        more = min(left, rows // 2) + 1
        self.va.frombytes(bytes(8 * more))
        self.file.frombytes(bytes(4 * more))
        self.line.frombytes(bytes(4 * more))
        self.sequences.frombytes(bytes(32 * (min(left // 3, sequences // 2) + 1)))

    def shrink(self) -> None:
        """Forget the room of an unusually long program."""
        if len(self.va) > 1 << 20:
            self.__init__()  # type: ignore[misc]


_scratch = _Scratch()


def _run(line: Window, header: Header, names: FileNames, lowest: int, problems: list[DwarfError]) -> Rows:
    """Execute the program; the rows of its whole sequences, in order."""
    scratch = _scratch
    state = array("Q", [header.program, header.end, 0, 0, 1, 1, 0, 0, 0, 0])
    head = array("q", [
        header.min_instruction, header.max_operations, header.line_base, header.line_range, header.opcode_base,
        line.order == "big", header.address_size,
    ])  # fmt: skip
    used = bytearray(len(names))
    while header.program < header.end:
        status, at = lines_kernel.run(
            line.data,
            state,
            head,
            lowest,
            header.lengths,
            scratch.va,
            scratch.file,
            scratch.line,
            scratch.sequences,
            used,
        )
        if status == FULL:
            scratch.grow(header.end - at)
        elif status == DEFINE_FILE:
            _define(line, names, at, state[AT])
            used.append(0)
        else:
            if status != DONE:
                problems.append(DwarfError("debug_line", at, RULES[status]))
            break
    rows = _settled(scratch, state[SEQUENCES], state[ROWS], names, used)
    scratch.shrink()
    return rows


def _define(line: Window, names: FileNames, at: int, end: int) -> None:
    """DW_LNE_define_file: a name, a directory, a time, a size. What cannot be read is a file without a name."""
    size = bytes(line.data[at:end]).find(b"\0")
    try:
        parent = uleb(line, at + size + 1)[0] if 0 <= size < end - at - 1 else 0
    except DwarfError:
        parent = 0
    names.define(STRING << PLACE_BITS | at, parent)


def _settled(scratch: _Scratch, sequences: int, rows: int, names: FileNames, used: bytearray) -> Rows:
    """The rows of the scratch columns in order, with the files they name, each path once."""
    for s in range(sequences):
        if scratch.sequences[4 * s + 3] & UNSORTED:
            _sort(scratch, 4 * s)
    out = Rows()
    number = array("I", b"\xff" * (4 * len(used)))
    places: dict[int, int] = {}
    at = used.find(1)
    while at >= 0:
        if ref := names.ref(at):
            number[at] = places.setdefault(ref, len(places))
        at = used.find(1, at + 1)
    out.files.extend(places)
    room = rows + sequences
    out.va, out.file, out.line = array("Q", bytes(8 * room)), array("I", bytes(4 * room)), array("I", bytes(4 * room))
    n = lines_kernel.settle(
        scratch.sequences, sequences, scratch.va, scratch.file, scratch.line, number, out.va, out.file, out.line
    )
    del out.va[n:], out.file[n:], out.line[n:]
    return out


def _sort(scratch: _Scratch, s: int) -> None:
    """Put the rows of a sequence whose addresses step back in order (assemblers with .org write such)."""
    first, last = scratch.sequences[s + 2], scratch.sequences[s + 3] & ~UNSORTED
    order = sorted(range(first, last), key=scratch.va.__getitem__)
    for column in (scratch.va, scratch.file, scratch.line):
        column[first:last] = array(column.typecode, [column[i] for i in order])
    scratch.sequences[s + 1], scratch.sequences[s + 3] = scratch.va[first], last


__all__ = ["NO_FILE", "LineTable", "read_lines"]
