"""The header of a line program: section 6.2.4 of DWARF 5, and of the versions before it.

unit_length            4, or ffffffff and 8 (64-bit DWARF: offsets are 8 bytes)
version                2
address_size, segment_selector_size      1 + 1, version 5
header_length          an offset: from here to the program
minimum_instruction_length               1
maximum_operations_per_instruction       1, from version 4
default_is_stmt        1 (kept by nobody here)
line_base, line_range, opcode_base       1 signed, 1, 1
standard_opcode_lengths                  opcode_base - 1
version 5: directory_entry_format, directories, file_name_entry_format, file_names (counted)
before:    include_directories, file_names (each ends with an empty name)
"""

from __future__ import annotations

from array import array

from whence.dwarf.kernels import line_tables as line_tables_kernel
from whence.dwarf.line_files import FileNames, Paths
from whence.errors import DwarfError
from whence.records import Record
from whence.window import Window

DWARF64, RESERVED_LENGTH = 0xFFFFFFFF, 0xFFFFFFF0  # values of unit_length (7.4)

RULES = {
    3: "the bytes go on to where the table or program says it ends",
    4: "an extended opcode ends inside its program",
    5: "line_range is not 0 where opcodes divide by it",
    6: "DW_LNE_set_address has 1 to 8 bytes of address",
    7: "an entry's form is one that line tables may use",
}


class Header(Record):
    """What the machine needs to know, and where its program lies in .debug_line."""

    offset: int
    version: int
    wide: bool
    address_size: int
    tables: int
    program: int
    end: int
    min_instruction: int
    max_operations: int
    line_base: int
    line_range: int
    opcode_base: int
    lengths: bytes


def read_header(line: Window, offset: int, address_size: int, problems: list[DwarfError]) -> Header:
    """The fixed part of the header at an offset of .debug_line; DwarfError when no program can be run after it."""
    length, at, wide = line.u32(offset), offset + 4, False
    if length == DWARF64:
        length, at, wide = line.u64(at), at + 8, True
    elif length >= RESERVED_LENGTH:
        raise DwarfError("debug_line", offset, "unit_length is below fffffff0 or ffffffff", f"{length:#x}")
    end = at + length
    if end > len(line):
        problems.append(DwarfError("debug_line", offset, "a program ends inside its section", f"{length:#x} bytes"))
        end = len(line)
    version = line.u16(at)
    if not 2 <= version <= 5:
        raise DwarfError("debug_line", at, "the version of a line program is 2 to 5", version)
    at += 2
    if version >= 5:
        address_size, selector = line.u8(at), line.u8(at + 1)
        if selector:
            raise DwarfError("debug_line", at + 1, "segment_selector_size is 0", selector)
        at += 2
    if address_size not in (1, 2, 4, 8):
        raise DwarfError("debug_line", at, "an address has 1, 2, 4 or 8 bytes", address_size)
    header_length = line.u64(at) if wide else line.u32(at)
    at += 8 if wide else 4
    program = at + header_length
    if program > end:
        raise DwarfError("debug_line", at, "header_length ends inside its program", f"{header_length:#x}")
    min_instruction, max_operations = line.u8(at), 1
    if version >= 4:
        at += 1
        max_operations = line.u8(at)
    line_base, line_range, opcode_base = line.unpack("bBB", at + 2)
    lengths = line.raw(at + 5, max(0, opcode_base - 1))
    tables = at + 5 + len(lengths)
    return Header(
        offset, version, wide, address_size, tables, program, end, min_instruction, max(1, max_operations),
        line_base, line_range, opcode_base, lengths,
    )  # fmt: skip


def read_names(
    line: Window, header: Header, comp_dir: bytes, paths: Paths, problems: list[DwarfError], str_base: int = 0
) -> FileNames:
    """The directory and file tables. What comes before a fault is kept: the program can still be run."""
    try:
        if header.version >= 5:
            columns = new_tables(line, header, problems)
            for places in columns[:2]:
                paths.direct(places, str_base, header.wide)
        else:
            columns = old_tables(line, header, problems)
    except DwarfError as error:
        problems.append(error)
        columns = array("Q"), array("Q"), array("Q")
    return FileNames(header.version, comp_dir, paths, *columns)


def old_tables(line: Window, header: Header, problems: list[DwarfError]) -> tuple[array[int], array[int], array[int]]:
    """Directories, files and their directories of versions 2 to 4."""
    directories, files, parents = array("Q"), array("Q"), array("Q")
    if header.tables >= header.program:
        raise DwarfError("debug_line", header.tables, "the tables come before the program", "no bytes")
    span = line.data, header.tables, header.program
    n, m, status, at = line_tables_kernel.old_tables(*span, directories, files, parents, False)
    if status:
        problems.append(DwarfError("debug_line", at, RULES[status]))
    directories, files, parents = blank(n), blank(m), blank(m)
    line_tables_kernel.old_tables(*span, directories, files, parents, True)
    return directories, files, parents


def new_tables(line: Window, header: Header, problems: list[DwarfError]) -> tuple[array[int], array[int], array[int]]:
    """Directories, files and their directories of version 5."""
    directories, _, at = new_table(line, header, header.tables, problems)
    files, parents, _ = new_table(line, header, at, problems)
    return directories, files, parents


def new_table(line: Window, header: Header, at: int, problems: list[DwarfError]) -> tuple[array[int], array[int], int]:
    """One table: its entry format, its count, its entries; gives (places, parents, where it ends)."""
    start = at
    format_count, at = line.u8(at), at + 1
    short = bytes(line.data[at : at + 2 * format_count])
    if len(short) == 2 * format_count and short.isascii():  # numbers of one byte, as nearly always
        formats = array("Q", list(short))
        at += len(short)
    else:
        formats = array("Q")
        for _ in range(2 * format_count):
            value, at = uleb(line, at)
            formats.append(min(value, 0xFFFF))
    count, at = uleb(line, at)
    # Every form an entry may have takes a byte at least.
    if count * max(1, format_count) > (header.program - at if format_count else 0):
        raise DwarfError("debug_line", start, "a table's entries fit before its program", f"{count} entries")
    names, parents = blank(count), blank(count)
    if count:
        span = line.data, at, header.program
        done, status, at = line_tables_kernel.entries(*span, formats, header.wide, line.order == "big", names, parents)
        if status:
            problems.append(DwarfError("debug_line", at, RULES[status]))
            del names[done:], parents[done:]
    return names, parents, at


def uleb(line: Window, at: int) -> tuple[int, int]:
    """An unsigned LEB128, of which 64 bits count (as in the kernels), and the offset after it."""
    value = shift = 0
    while shift < 70:
        byte = line.u8(at)
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise DwarfError("debug_line", at, "a LEB128 number has at most 10 bytes")


def blank(count: int) -> array[int]:
    return array("Q", bytes(8 * count))
