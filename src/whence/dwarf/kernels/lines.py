"""Line programs: .debug_line, versions 2 to 5, as columns of rows (DWARF 5, section 6.2; DWARF 2 to 4, section 6.2).

Input: rows of units that name programs, and the file numbers that their scopes and starts use. Output, for all programs
together: rows of (vaddr, file, line) in ascending order for each program; the files in use; faults.

    header               6.2.4, up to the standard opcodes' operand counts
    tables               directories and files: 6.2.4 of DWARF 4, entry formats and forms of DWARF 5
    execute              the state machine: special, standard and extended opcodes (6.2.5)
    merge_sequences      sequences in ascending order; where they overlap, the first to end wins
    LineProgramReader    programs of many units in two calls: `read`, then `emit_rows` when each file has a name

A fault costs the rest of its program. Everything that 6.2 allows is accepted, but programs are not read more often than
their size allows, and the entries of a table must fit into the header. Rows that repeat the file and line of the row
before them are dropped.

With columns, the line column of rows has numbers of locations instead: (line, column, discriminator), each once. Number
0 is line 0 with an unknown column.

With `skip_line_zero`, a row of line 0 has the location of the last row with a line in its sequence, if there is one.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcpy, memset
from cython.cimports.whence.dwarf.kernels import constants as c
from cython.cimports.whence.dwarf.kernels.reading import is_dwarf64, is_reserved_length
from cython.cimports.whence.dwarf.kernels.units import (
    ADDRESS_SIZE,
    COMP_DIR,
    HAS,
    HAS_STMT_LIST,
    STMT_LIST,
    STR_BASE,
    TAG,
    WIDTH,
    bytes_at,
    u64,
)
from cython.cimports.whence.kernels.bytes import number, sleb, uleb
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.hashtable import (
    Probe,
    clear_index,
    first_match,
    insert,
    mix,
    next_match,
    release_index,
)
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.sort import sort_indexes
from cython.cimports.whence.kernels.vector import (
    grow,
    push,
    push_bytes,
    push_u64,
    release,
    reserve,
)

# results of `execute` that are not faults
DONE = cython.declare(cython.int, 0)
FULL = cython.declare(cython.int, -1)
DEFINE_FILE = cython.declare(cython.int, -2)
NO_MEMORY = cython.declare(cython.int, -3)

# Names of directories and files are positions: form << FORM_SHIFT | number. The number is an offset in the section of
# the form (in .debug_line for DW_FORM_string) or an index.
FORM_SHIFT = cython.declare(cython.int, 56)
NUMBER_MASK = cython.declare(u64, (1 << 56) - 1)
INLINE = cython.declare(u64, cython.cast(u64, c.DW_FORM_string) << 56)
NO_DIRECTORY = cython.declare(u64, 0xFFFFFFFFFFFFFFFF)
LARGEST_CODE = cython.declare(u64, 0xFFFF)  # of content types and forms
STR_OFFSETS_VERSION = cython.declare(cython.int, 5)  # of a .debug_str_offsets with a header

NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)  # of a row that no file describes
UNUSED = cython.declare(cython.uint, 0xFFFFFFFF)  # the key of an unused file


# Locations and files, each numbered once


def location_number(locations, line, column, discriminator):
    """Return the number of a location; -1 if memory runs out. Line 0 without a column is number 0."""
    if line == 0 and column == 0 and discriminator == 0:
        return 0
    index = cython.address(locations.index)
    hash: u64 = location_hash(line, column, discriminator, cython.cast(u64, locations))
    probe: Probe = first_match(index, hash)
    while next_match(index, cython.address(probe)):
        item = cython.cast(cython.pointer[Location], locations.items.items) + probe.item
        if item.line == line and item.column == column and item.discriminator == discriminator:
            return probe.item
    item = cython.cast(cython.pointer[Location], push(cython.address(locations.items), cython.sizeof(Location)))
    if item == cython.NULL or not insert(index, hash, locations.items.count - 1):
        return -1
    item.line = line
    item.column = column
    item.discriminator = discriminator
    return locations.items.count - 1


def location_hash(line, column, discriminator, seed):
    """Hash 64 locations that are close in the source to neighboring slots.

    Rows follow the source, so most lookups find their slot in the processor's cache.
    """
    near: u64 = mix(mix(cython.cast(u64, column >> 2) << 32 | (line >> 4), seed) + discriminator, seed)
    return near + ((line & 15) << 2 | (column & 3))


def file_hash(key, seed):
    return mix(mix(key.directory, seed) + key.name, seed ^ key.comp_dir)


def file_number(files, key):
    """Return the number of a file; -1 if memory runs out."""
    index = cython.address(files.index)
    hash: u64 = file_hash(key, cython.cast(u64, files))
    probe: Probe = first_match(index, hash)
    while next_match(index, cython.address(probe)):
        item = cython.cast(cython.pointer[FileKey], files.items.items) + probe.item
        if item.comp_dir == key.comp_dir and item.directory == key.directory and item.name == key.name:
            return probe.item
    item = cython.cast(cython.pointer[FileKey], push(cython.address(files.items), cython.sizeof(FileKey)))
    if item == cython.NULL or not insert(index, hash, files.items.count - 1):
        return -1
    item[0] = key[0]
    return files.items.count - 1


# The tables of directories and files (6.2.4)


def string_end(data, offset, end):
    """Return the offset of the NUL that ends a string, or `end`."""
    while offset < end and data[offset] != 0:
        offset += 1
    return offset


def read_old_tables(data, offset, end, tables):
    """Read include_directories and file_names of versions 2 to 4 (6.2.4 of DWARF 4). DONE, or a fault at `offset`."""
    while True:
        start: u64 = offset[0]
        offset[0] = string_end(data, start, end)
        if offset[0] >= end:
            return CUT_SHORT
        offset[0] += 1
        if offset[0] == start + 1:
            break
        if not push_u64(cython.address(tables.directories), INLINE | start):
            return NO_MEMORY
    while True:
        start = offset[0]
        offset[0] = string_end(data, start, end)
        if offset[0] >= end:
            return CUT_SHORT
        offset[0] += 1
        if offset[0] == start + 1:
            return DONE
        parent: u64 = uleb(data, offset, end)
        uleb(data, offset, end)  # time
        uleb(data, offset, end)  # size
        if offset[0] > end:
            return CUT_SHORT
        if not push_u64(cython.address(tables.names), INLINE | start):
            return NO_MEMORY
        if not push_u64(cython.address(tables.parents), parent):
            return NO_MEMORY


def read_table(data, offset, header, big, names, parents, bad_value):
    """Read a directory or file table of version 5: entry format, count, entries. DONE, or a fault at `offset`.

    Complete entries before a fault are kept. `value` is the wrong value of a fault.
    """
    formats: cython.ulonglong[512]
    end: u64 = header.program
    start: u64 = offset[0]
    position: u64 = start
    entry: u64
    field: cython.Py_ssize_t
    if position >= end:
        return NO_TABLES
    width: cython.Py_ssize_t = data[position]
    position += 1
    for field in range(2 * width):
        formats[field] = uleb(data, cython.address(position), end)
        formats[field] = min(formats[field], LARGEST_CODE)
    count: u64 = uleb(data, cython.address(position), end)
    if position > end:
        offset[0] = end
        return CUT_SHORT
    # Every form of an entry takes at least one byte.
    if count > (end - position) // (width if width else 1) or (count and not width):
        bad_value[0] = count
        return TOO_MANY_ENTRIES
    if not reserve(names, count, 8) or not reserve(parents, count, 8):
        return NO_MEMORY
    name = names.items
    parent = parents.items
    for entry in range(count):
        name[entry] = 0
        parent[entry] = 0
        for field in range(width):
            content: u64 = formats[2 * field]
            form: u64 = formats[2 * field + 1]
            value: u64 = 0
            size: u64 = 0
            offset[0] = position
            if form == c.DW_FORM_string:
                value = position
                position = string_end(data, position, end)
                size = 1
            elif form in (
                c.DW_FORM_line_strp,
                c.DW_FORM_strp,
                c.DW_FORM_strp_sup,
                c.DW_FORM_sec_offset,
                c.DW_FORM_GNU_strp_alt,
            ):
                size = header.offset_size
            elif form in (c.DW_FORM_udata, c.DW_FORM_strx, c.DW_FORM_sdata, c.DW_FORM_GNU_str_index):
                value = uleb(data, cython.address(position), end)
            elif form in (c.DW_FORM_data1, c.DW_FORM_strx1, c.DW_FORM_flag):
                size = 1
            elif form in (c.DW_FORM_data2, c.DW_FORM_strx2):
                size = 2
            elif form == c.DW_FORM_strx3:
                size = 3
            elif form in (c.DW_FORM_data4, c.DW_FORM_strx4):
                size = 4
            elif form == c.DW_FORM_data8:
                size = 8
            elif form == c.DW_FORM_data16:
                size = 16
            elif form == c.DW_FORM_block:
                size = uleb(data, cython.address(position), end)
            elif form in (c.DW_FORM_block1, c.DW_FORM_block2, c.DW_FORM_block4):
                value = 1 if form == c.DW_FORM_block1 else 2 if form == c.DW_FORM_block2 else 4
                if end - position < value:
                    position = end + 1
                else:
                    size = number(data + position, cython.cast(cython.int, value), big)
                    position += value
            else:
                return BAD_FORM
            if position > end or size > end - position:
                return CUT_SHORT
            if 0 < size <= 8 and form not in (
                c.DW_FORM_string, c.DW_FORM_block, c.DW_FORM_block1, c.DW_FORM_block2, c.DW_FORM_block4
            ):  # fmt: skip
                value = number(data + position, cython.cast(cython.int, size), big)
            position += size
            if content == c.DW_LNCT_path:
                name[entry] = form << FORM_SHIFT | value << 8 >> 8
            elif content == c.DW_LNCT_directory_index:
                parent[entry] = value
        names.count += 1
        parents.count += 1
    offset[0] = position
    return DONE


def is_index(position):
    """Return True if a position is an index of strings (DW_FORM_strx*, GNU_str_index), not an offset."""
    form: cython.int = cython.cast(cython.int, position >> FORM_SHIFT)
    return (
        form == c.DW_FORM_strx or c.DW_FORM_strx1 <= form <= c.DW_FORM_strx4 or form == (c.DW_FORM_GNU_str_index & 0xFF)
    )


def resolve_indexes(positions, str_offsets, base, size, big):
    """Replace indexes of strings by offsets in .debug_str; invalid ones become the largest offset.

    `base` is the unit's DW_AT_str_offsets_base; without it (0), entries begin after the section's header, if there is
    one.
    """
    index: cython.Py_ssize_t
    section: u64 = str_offsets.shape[0]
    if positions.count == 0 or not is_index(positions.items[0]):  # the entries of a table are of one form
        return
    if base == 0 and section > cython.cast(u64, 2 * size):
        if number(cython.address(str_offsets[2 * size - 4]), 2, big) == cython.cast(u64, STR_OFFSETS_VERSION):
            base = 2 * size
    for index in range(positions.count):
        entry: u64 = positions.items[index] & NUMBER_MASK
        value: u64 = NUMBER_MASK
        if base <= section and entry < (section - base) // size:
            value = number(cython.address(str_offsets[base + entry * size]), size, big)
        positions.items[index] = cython.cast(u64, c.DW_FORM_strp) << FORM_SHIFT | min(value, NUMBER_MASK)


# The state machine (6.2.2 to 6.2.5)


def execute(machine):
    """Run the machine until the end of its program.

    Returns DONE; FULL if memory runs out for a row or a sequence; DEFINE_FILE at such an opcode, with its name at
    `stopped_at`; NO_MEMORY; or a fault, at `stopped_at`.
    """
    data: bytes_at = machine.data
    offset: u64 = machine.offset
    end: u64 = machine.end
    address: u64 = machine.address
    op_index: u64 = machine.op_index
    file: u64 = machine.file
    line: cython.uint = machine.line
    column: cython.uint = machine.column
    discriminator: cython.uint = machine.discriminator
    rows: cython.Py_ssize_t = machine.rows
    first: cython.Py_ssize_t = machine.first
    unsorted: cython.bint = machine.unsorted

    min_instruction: u64 = machine.min_instruction_length
    max_operations: u64 = machine.max_operations
    line_base: cython.longlong = machine.line_base
    line_range: cython.longlong = machine.line_range
    opcode_base: cython.int = machine.opcode_base
    big: cython.bint = machine.big
    with_columns: cython.bint = machine.with_columns
    skip_line_zero: cython.bint = machine.skip_line_zero
    lowest: u64 = machine.lowest
    operand_counts: bytes_at = machine.operand_counts
    operand_count_size: cython.Py_ssize_t = machine.operand_count_size
    row_vaddr: cython.p_ulonglong = machine.row_vaddr.items
    row_file: cython.p_uint = machine.row_file.items
    row_line: cython.p_uint = machine.row_line.items
    capacity: cython.Py_ssize_t = machine.capacity
    sequence_count: cython.Py_ssize_t = machine.sequences.count
    sequence_capacity: cython.Py_ssize_t = machine.sequences.capacity
    used: cython.p_uchar = machine.used.items
    file_count: cython.Py_ssize_t = machine.used.count
    mask: u64 = ~cython.cast(u64, 0)
    if machine.address_size < 8:
        mask = (cython.cast(u64, 1) << (8 * machine.address_size)) - 1

    status: cython.int = DONE
    start: u64 = offset
    advance: u64 = 0
    location: cython.Py_ssize_t = -1  # the last location, of these numbers
    location_line: cython.uint = 0
    location_column: cython.uint = 0
    location_discriminator: cython.uint = 0
    i: cython.int
    line_advance: cython.int = 0
    address_advances: cython.ulonglong[256]  # by special opcode, less the first
    line_advances: cython.int[256]
    for i in range(256):
        address_advances[i] = advance
        line_advances[i] = line_advance + line_base
        line_advance += 1
        if line_advance == line_range:
            line_advance = 0
            advance += min_instruction

    while offset < end:  # the most frequent opcodes are first
        start = offset
        if rows >= capacity or sequence_count >= sequence_capacity:
            status = FULL
            break
        opcode: cython.int = data[offset]
        offset += 1
        emit: cython.int = 0  # 1: a row; 2: the end of a sequence
        if opcode >= opcode_base and opcode != 0:  # a special opcode (6.2.5.1)
            if line_range <= 0:
                status = NO_LINE_RANGE
                break
            i = opcode - opcode_base
            line += line_advances[i]
            if max_operations <= 1:
                address = (address + address_advances[i]) & mask
            else:
                advance = op_index + i // line_range
                address = (address + min_instruction * (advance // max_operations)) & mask
                op_index = advance % max_operations
            emit = 1
        elif opcode == c.DW_LNS_set_column:
            column = cython.cast(cython.uint, uleb(data, cython.address(offset), end))
        elif opcode == c.DW_LNS_copy:
            emit = 1
        elif opcode in (
            c.DW_LNS_negate_stmt,
            c.DW_LNS_set_basic_block,
            c.DW_LNS_set_prologue_end,
            c.DW_LNS_set_epilogue_begin,
        ):
            pass  # flags that are not read
        elif opcode == 0:  # an extended opcode (6.2.5.3): its length says where it ends
            size: u64 = uleb(data, cython.address(offset), end)
            if offset > end or size > end - offset:
                status = BAD_OPCODE_LENGTH
                break
            if size == 0:
                continue
            after: u64 = offset + size
            opcode = data[offset]
            if opcode == c.DW_LNE_end_sequence:
                emit = 2
            elif opcode == c.DW_LNE_set_address:
                if size == 1 or size > 9:
                    status = BAD_ADDRESS
                    break
                address = number(data + offset + 1, cython.cast(cython.int, size - 1), big) & mask
                op_index = 0
            elif opcode == c.DW_LNE_define_file:
                status = DEFINE_FILE
                start = offset + 1
                offset = after
                break
            elif opcode == c.DW_LNE_set_discriminator:
                offset += 1
                discriminator = cython.cast(cython.uint, uleb(data, cython.address(offset), after))
            offset = after
        elif opcode in (c.DW_LNS_advance_pc, c.DW_LNS_const_add_pc):
            if opcode == c.DW_LNS_advance_pc:
                advance = uleb(data, cython.address(offset), end)
            elif line_range <= 0:
                status = NO_LINE_RANGE
                break
            else:
                advance = (255 - opcode_base) // line_range
            if max_operations <= 1:
                address = (address + min_instruction * advance) & mask
            else:
                advance += op_index
                address = (address + min_instruction * (advance // max_operations)) & mask
                op_index = advance % max_operations
        elif opcode == c.DW_LNS_advance_line:
            line += cython.cast(cython.uint, sleb(data, cython.address(offset), end))
        elif opcode == c.DW_LNS_set_file:
            file = uleb(data, cython.address(offset), end)
        elif opcode == c.DW_LNS_fixed_advance_pc:
            if end - offset < 2:
                status = CUT_SHORT
                break
            address = (address + number(data + offset, 2, big)) & mask
            op_index = 0
            offset += 2
        elif opcode == c.DW_LNS_set_isa:
            uleb(data, cython.address(offset), end)
        elif opcode <= operand_count_size:  # an unknown opcode: the header has its number of operands
            for i in range(operand_counts[opcode - 1]):
                uleb(data, cython.address(offset), end)
                if offset > end:
                    break
        if offset > end:
            status = CUT_SHORT
            break

        if emit == 1:
            row_file_number: cython.uint = cython.cast(cython.uint, file) if file < NO_FILE else NO_FILE
            row_line_number: cython.uint = line
            if with_columns:
                if (
                    location < 0
                    or line != location_line
                    or column != location_column
                    or discriminator != location_discriminator
                ):
                    location = location_number(cython.address(machine.locations), line, column, discriminator)
                    if location < 0:
                        status = NO_MEMORY
                        break
                    location_line = line
                    location_column = column
                    location_discriminator = discriminator
                row_line_number = cython.cast(cython.uint, location)
                discriminator = 0
            if skip_line_zero:
                if line != 0:
                    machine.has_line = True
                    machine.last_file = row_file_number
                    machine.last_line = row_line_number
                elif machine.has_line:
                    row_file_number = machine.last_file
                    row_line_number = machine.last_line
            if rows > first:
                if row_vaddr[rows - 1] == address:  # of several rows at one address the last counts
                    row_file[rows - 1] = row_file_number
                    row_line[rows - 1] = row_line_number
                    if row_file_number < file_count:
                        used[row_file_number] = 1
                    continue
                if row_vaddr[rows - 1] > address:
                    unsorted = True
                elif row_file[rows - 1] == row_file_number and row_line[rows - 1] == row_line_number:
                    continue
            if row_file_number < file_count:
                used[row_file_number] = 1
            row_vaddr[rows] = address
            row_file[rows] = row_file_number
            row_line[rows] = row_line_number
            rows += 1
        elif emit == 2:
            if rows > first:
                if (
                    row_vaddr[first] < lowest
                    or row_vaddr[first] >= mask - 1
                    or (row_vaddr[first] >= address and not unsorted)
                ):
                    rows = first  # dead code, which linkers move to 0, -1 or -2, or an empty sequence
                else:
                    sequence = cython.cast(cython.pointer[Sequence], machine.sequences.items) + sequence_count
                    sequence.end = address
                    sequence.start = row_vaddr[first]
                    sequence.first = first
                    sequence.stop = rows
                    sequence.unsorted = unsorted
                    sequence_count += 1
            first = rows
            address = 0
            op_index = 0
            file = 1
            line = 1
            column = 0
            discriminator = 0
            unsorted = False
            machine.has_line = False

    if status == DONE and rows > first:
        status = CUT_SHORT  # a sequence without DW_LNE_end_sequence
        start = offset
    machine.offset = start if status == FULL else offset
    machine.address = address
    machine.op_index = op_index
    machine.file = file
    machine.line = line
    machine.column = column
    machine.discriminator = discriminator
    machine.rows = rows
    machine.sequences.count = sequence_count
    machine.first = first
    machine.unsorted = unsorted
    machine.stopped_at = start
    return status


def more_rows(machine):
    """Grow the columns of rows (together) or the sequences, if they are full. False if memory runs out."""
    if machine.sequences.count >= machine.sequences.capacity:
        if not reserve(cython.address(machine.sequences), 1, cython.sizeof(Sequence)):
            return False
    if machine.rows >= machine.capacity:
        if not (
            grow(cython.cast(cython.pp_void, cython.address(machine.row_vaddr.items)),
                 cython.address(machine.row_vaddr.capacity), machine.rows + 4096, 8)
            and grow(cython.cast(cython.pp_void, cython.address(machine.row_file.items)),
                     cython.address(machine.row_file.capacity), machine.rows + 4096, 4)
            and grow(cython.cast(cython.pp_void, cython.address(machine.row_line.items)),
                     cython.address(machine.row_line.capacity), machine.rows + 4096, 4)
        ):  # fmt: skip
            return False
        machine.capacity = min(machine.row_vaddr.capacity, min(machine.row_file.capacity, machine.row_line.capacity))
    return True


def sort_sequence(machine, sequence):
    """Sort the rows of a sequence whose addresses decrease, as assemblers with .org write them.

    Rows of equal address keep their order. False if memory runs out.
    """
    count: cython.Py_ssize_t = sequence.stop - sequence.first
    index: cython.Py_ssize_t
    block = cython.cast(cython.p_ulonglong, malloc(count * 16))
    if block == cython.NULL:
        return False
    order = cython.cast(cython.p_uint, block)
    other = order + count
    vaddr = machine.row_vaddr.items + sequence.first
    file = machine.row_file.items + sequence.first
    line = machine.row_line.items + sequence.first
    for index in range(count):
        order[index] = cython.cast(cython.uint, index)
    if sort_indexes(vaddr, order, other, count):
        memcpy(order, other, 4 * count)
    u64s = block + (count + 1) // 2  # after the order
    u32s = cython.cast(cython.p_uint, u64s)
    for index in range(count):
        u32s[index] = file[order[index]]
    memcpy(file, u32s, 4 * count)
    for index in range(count):
        u32s[index] = line[order[index]]
    memcpy(line, u32s, 4 * count)
    for index in range(count):
        u64s[index] = vaddr[order[index]]
    memcpy(vaddr, u64s, 8 * count)
    sequence.start = vaddr[0]
    sequence.unsorted = False
    free(block)
    return True


# Sequences in order


def sort_sequences(sequences, count):
    """Sort sequences by their ends; equal ones keep their order. False if memory runs out."""
    index: cython.Py_ssize_t = 1
    while index < count and sequences[index - 1].end <= sequences[index].end:
        index += 1
    if index >= count:
        return True
    keys = cython.cast(cython.p_ulonglong, malloc(count * 16))
    moved = cython.cast(cython.pointer[Sequence], malloc(count * cython.sizeof(Sequence)))
    if keys == cython.NULL or moved == cython.NULL:
        free(keys)
        free(moved)
        return False
    order = cython.cast(cython.p_uint, keys + count)
    for index in range(count):
        keys[index] = sequences[index].end
        order[index] = cython.cast(cython.uint, index)
    if sort_indexes(keys, order, order + count, count):
        order += count
    for index in range(count):
        moved[index] = sequences[order[index]]
    memcpy(sequences, moved, count * cython.sizeof(Sequence))
    free(keys)
    free(moved)
    return True


def merge_sequences(machine, program, numbers, out_vaddr, out_file, out_line):
    """Copy the rows of a program's sequences, sorted by vaddr, and return how many there are.

    Where sequences overlap, the first to end wins (as in LLVM). A gap after a sequence begins with a NO_FILE row.
    `numbers` maps the file numbers of the program to those of the result. At most all rows and one more for each
    sequence.
    """
    sequences = cython.cast(cython.pointer[Sequence], machine.sequences.items) + program.sequences
    vaddr: cython.p_ulonglong = machine.row_vaddr.items
    file: cython.p_uint = machine.row_file.items
    line: cython.p_uint = machine.row_line.items
    file_count: cython.Py_ssize_t = program.file_count
    rows: cython.Py_ssize_t = 0
    index: cython.Py_ssize_t
    row: cython.Py_ssize_t
    covered: u64 = 0  # addresses below are done
    for index in range(program.sequence_count):
        end: u64 = sequences[index].end
        first: cython.Py_ssize_t = sequences[index].first
        stop: cython.Py_ssize_t = sequences[index].stop
        if end <= covered:
            continue
        while first + 1 < stop and vaddr[first + 1] <= covered:
            first += 1
        for row in range(first, stop):
            row_start: u64 = vaddr[row]
            if row_start >= end:
                break
            if row_start < covered:
                row_start = covered
            number: cython.uint = file[row]
            location: cython.uint = line[row]
            if number < file_count:
                number = numbers[number]
            else:
                number = NO_FILE
            if number == NO_FILE:
                location = 0
            if rows > 0 and out_vaddr[rows - 1] == row_start:
                rows -= 1
            if rows > 0 and out_file[rows - 1] == number and out_line[rows - 1] == location:
                continue
            out_vaddr[rows] = row_start
            out_file[rows] = number
            out_line[rows] = location
            rows += 1
        covered = end
        if rows > 0 and out_file[rows - 1] != NO_FILE:
            out_vaddr[rows] = end
            out_file[rows] = NO_FILE
            out_line[rows] = 0
            rows += 1
    return rows


# Programs of many units


def lacks(offset, end, size):
    """Return True if fewer than `size` bytes are left."""
    return offset > end or end - offset < size


def name_of_file(number, file_count, key_of, names):
    """Return the name of a file by its number in a program; 0 if it has no name."""
    return names[key_of[number]] if number < file_count and key_of[number] != UNUSED else 0


@cython.final
@cython.cclass
class LineProgramReader:
    """A reader of line programs for one thread, whose columns are reused for the next batch."""

    def __cinit__(
        self, debug_line: cython.const[cython.uchar][::1], debug_str_offsets: cython.const[cython.uchar][::1],
        big: cython.bint, lowest: cython.ulonglong, with_columns: cython.bint, skip_line_zero: cython.bint,
    ):  # fmt: skip
        """`lowest` is the first vaddr that can be code."""
        self._data = debug_line
        self._str_offsets = debug_str_offsets
        self._machine.data = cython.address(debug_line[0]) if debug_line.shape[0] else cython.NULL
        self._machine.big = big
        self._machine.lowest = lowest
        self._machine.with_columns = with_columns
        self._machine.skip_line_zero = skip_line_zero

    def __dealloc__(self):
        machine = cython.address(self._machine)
        release(cython.address(machine.row_vaddr))
        release(cython.address(machine.row_file))
        release(cython.address(machine.row_line))
        release(cython.address(machine.sequences))
        release(cython.address(machine.used))
        release(cython.address(machine.locations.items))
        release_index(cython.address(machine.locations.index))
        release(cython.address(self._tables.directories))
        release(cython.address(self._tables.names))
        release(cython.address(self._tables.parents))
        release(cython.address(self._programs))
        release(cython.address(self._key_of))
        release(cython.address(self._keys.items))
        release_index(cython.address(self._keys.index))
        release(cython.address(self._faults))

    def _fault(self, fault, offset, value):
        """Record a fault of the current program. Return the fault, or NO_MEMORY."""
        faults = cython.address(self._faults)
        if fault == NO_MEMORY or not reserve(faults, FAULT_WIDTH, 8):
            return NO_MEMORY
        push_u64(faults, self._programs.count - 1)
        push_u64(faults, fault)
        push_u64(faults, offset)
        push_u64(faults, value)
        return fault

    def _read_header(self, offset, address_size):
        """Read the header at an offset, up to the tables (6.2.4). DONE if a program follows.

        Before version 5 the unit has the size of addresses.
        """
        machine = cython.address(self._machine)
        header = cython.address(self._header)
        data: bytes_at = machine.data
        size: u64 = self._data.shape[0]
        position: u64 = offset
        header.offset = offset
        header.offset_size = 4
        # unit_length
        if lacks(position, size, 4):
            return self._fault(CUT_OFF, position, 4)
        length: u64 = number(data + position, 4, machine.big)
        position += 4
        if is_dwarf64(length):
            header.offset_size = 8
            if lacks(position, size, 8):
                return self._fault(CUT_OFF, position, 8)
            length = number(data + position, 8, machine.big)
            position += 8
        elif is_reserved_length(length):
            return self._fault(BAD_UNIT_LENGTH, offset, length)
        if length > size - position:
            if self._fault(BEYOND_SECTION, offset, length) == NO_MEMORY:
                return NO_MEMORY
            header.end = size
        else:
            header.end = position + length
        # version
        if lacks(position, size, 2):
            return self._fault(CUT_OFF, position, 2)
        value: u64 = number(data + position, 2, machine.big)
        if value < c.DWARF2 or value > c.DWARF5:
            return self._fault(BAD_VERSION, position, value)
        header.version = cython.cast(cython.int, value)
        position += 2
        # address_size, segment_selector_size
        if header.version >= c.DWARF5:
            if lacks(position, size, 2):
                return self._fault(CUT_OFF, position, 2)
            address_size = data[position]
            if data[position + 1]:
                return self._fault(BAD_SEGMENT_SELECTOR_SIZE, position + 1, data[position + 1])
            position += 2
        if address_size != 8 and address_size != 4 and address_size != 2 and address_size != 1:
            return self._fault(BAD_ADDRESS_SIZE, position, address_size)
        header.address_size = cython.cast(cython.int, address_size)
        # header_length
        if lacks(position, size, header.offset_size):
            return self._fault(CUT_OFF, position, header.offset_size)
        length = number(data + position, header.offset_size, machine.big)
        position += header.offset_size
        if position > header.end or length > header.end - position:
            return self._fault(BAD_HEADER_LENGTH, position, length)
        header.program = position + length
        # minimum_instruction_length, maximum_operations_per_instruction, default_is_stmt, line_base, line_range,
        # opcode_base, standard_opcode_lengths
        if lacks(position, size, 5 if header.version < c.DWARF4 else 6):
            return self._fault(CUT_OFF, position, 5 if header.version < c.DWARF4 else 6)
        machine.min_instruction_length = data[position]
        machine.max_operations = 1
        if header.version >= c.DWARF4:
            position += 1
            if data[position]:
                machine.max_operations = data[position]
        machine.line_base = cython.cast(cython.schar, data[position + 2])
        machine.line_range = data[position + 3]
        machine.opcode_base = data[position + 4]
        position += 5
        machine.operand_counts = data + position
        machine.operand_count_size = machine.opcode_base - 1 if machine.opcode_base else 0
        if lacks(position, size, machine.operand_count_size):
            return self._fault(CUT_OFF, position, machine.operand_count_size)
        machine.address_size = header.address_size
        header.tables = position + machine.operand_count_size
        return DONE

    def _read_tables(self, str_base):
        """Read the directories and files of the header. DONE, or NO_MEMORY.

        Entries before a fault are kept, and the program can still be run.
        """
        machine = cython.address(self._machine)
        header = cython.address(self._header)
        tables = cython.address(self._tables)
        offset: u64 = header.tables
        bad_value: u64 = 0
        tables.directories.count = tables.names.count = tables.parents.count = 0
        tables.first = 0 if header.version >= c.DWARF5 else 1
        if offset >= header.program:
            status: cython.int = NO_TABLES
        elif header.version >= c.DWARF5:
            status = read_table(
                machine.data, cython.address(offset), header, machine.big, cython.address(tables.directories),
                cython.address(tables.parents), cython.address(bad_value),
            )  # fmt: skip
            tables.parents.count = 0
            if status == DONE:
                status = read_table(
                    machine.data, cython.address(offset), header, machine.big, cython.address(tables.names),
                    cython.address(tables.parents), cython.address(bad_value),
                )  # fmt: skip
            resolve_indexes(
                cython.address(tables.directories), self._str_offsets, str_base, header.offset_size, machine.big
            )
            resolve_indexes(cython.address(tables.names), self._str_offsets, str_base, header.offset_size, machine.big)
        else:
            status = read_old_tables(machine.data, cython.address(offset), header.program, tables)
        if status != DONE and self._fault(status, offset, bad_value) == NO_MEMORY:
            return NO_MEMORY
        machine.used.count = 0
        if not reserve(cython.address(machine.used), tables.names.count + tables.first, 1):
            return NO_MEMORY
        machine.used.count = tables.names.count + tables.first
        memset(machine.used.items, 0, machine.used.count)
        return DONE

    def _define_file(self):
        """Execute DW_LNE_define_file: a name, a directory, a time, a size. False if memory runs out.

        An unreadable one is a file without a name.
        """
        machine = cython.address(self._machine)
        tables = cython.address(self._tables)
        unused: cython.uchar = 0
        offset: u64 = string_end(machine.data, machine.stopped_at, machine.offset)
        parent: u64 = 0
        if offset < machine.offset:
            offset += 1
            parent = uleb(machine.data, cython.address(offset), machine.offset)
        return (
            push_u64(cython.address(tables.names), INLINE | machine.stopped_at)
            and push_u64(cython.address(tables.parents), parent)
            and push_bytes(cython.address(machine.used), cython.address(unused), 1)
        )

    def _run(self, program):
        """Execute the program of the header, and sort its complete sequences. DONE, or NO_MEMORY."""
        machine = cython.address(self._machine)
        header = cython.address(self._header)
        status: cython.int = DONE
        index: cython.Py_ssize_t
        machine.first = machine.rows
        machine.offset = header.program
        machine.end = header.end
        machine.address = machine.op_index = 0
        machine.file = machine.line = 1
        machine.column = machine.discriminator = 0
        machine.unsorted = machine.has_line = False
        if header.program < header.end:
            status = execute(machine)
        while status == FULL or status == DEFINE_FILE:
            if not (more_rows(machine) if status == FULL else self._define_file()):
                return NO_MEMORY
            status = execute(machine)
        machine.rows = machine.first
        program.sequence_count = machine.sequences.count - program.sequences
        if status != DONE and self._fault(status, machine.stopped_at, 0) == NO_MEMORY:
            return NO_MEMORY
        sequences = cython.cast(cython.pointer[Sequence], machine.sequences.items) + program.sequences
        for index in range(program.sequence_count):
            if sequences[index].unsorted and not sort_sequence(machine, sequences + index):
                return NO_MEMORY
        return DONE if sort_sequences(sequences, program.sequence_count) else NO_MEMORY

    def _number_files(self, program, comp_dir):
        """Assign numbers to the files that rows, scopes and starts use. False if memory runs out."""
        tables = cython.address(self._tables)
        used = self._machine.used.items
        index: cython.Py_ssize_t
        key: FileKey
        program.files = self._key_of.count
        program.file_count = self._machine.used.count
        if not reserve(cython.address(self._key_of), program.file_count, 4):
            return False
        key_of = self._key_of.items + program.files
        for index in range(program.file_count):
            key_of[index] = UNUSED
            if used[index] and index >= tables.first:
                parent: u64 = tables.parents.items[index - tables.first] - tables.first
                key.comp_dir = comp_dir
                key.directory = NO_DIRECTORY
                if parent < cython.cast(u64, tables.directories.count):
                    key.directory = tables.directories.items[parent]
                key.name = tables.names.items[index - tables.first]
                number: cython.Py_ssize_t = file_number(cython.address(self._keys), cython.address(key))
                if number < 0:
                    return False
                key_of[index] = cython.cast(cython.uint, number)
        self._key_of.count += program.file_count
        return True

    def _mark(self, files, first, stop):
        """Mark the files with these numbers as used."""
        index: cython.Py_ssize_t
        count: u64 = self._machine.used.count
        for index in range(first, stop):
            if files[index] < count:
                self._machine.used.items[files[index]] = 1

    def bytes_of_programs(self, units, chosen):
        """Return the size of the programs of the chosen rows of `units`.

        Those of partial units are not counted: they are the programs of the importing units.
        """
        unit_rows: cython.const[cython.ulonglong][::1] = units
        chosen_rows: cython.const[cython.uint][::1] = chosen
        data: bytes_at = self._machine.data
        size: u64 = self._data.shape[0]
        total: u64 = 0
        index: cython.Py_ssize_t
        rows: cython.Py_ssize_t = unit_rows.shape[0] // WIDTH
        for index in range(chosen_rows.shape[0]):
            belong(chosen_rows[index] < rows)
        with cython.nogil:
            for index in range(chosen_rows.shape[0]):
                unit = cython.address(unit_rows[cython.cast(cython.Py_ssize_t, chosen_rows[index]) * WIDTH])
                position: u64 = unit[STMT_LIST]
                if not unit[HAS] & HAS_STMT_LIST or unit[TAG] == c.DW_TAG_partial_unit or position >= size:
                    continue
                length: u64 = size - position
                if length >= 4:
                    length = number(data + position, 4, self._machine.big)
                    position += 4
                    if is_dwarf64(length) and size - position >= 8:
                        length = number(data + position, 8, self._machine.big)
                        position += 8
                    length = min(length, size - position) + position - unit[STMT_LIST]
                total += length
        return total

    def read(self, units, chosen, scopes, scope_ends, starts, start_ends, left: cython.ulonglong):
        """Read the programs of the chosen rows of `units`; return how many of the `left` bytes may still be read.

        `scopes.call_file` and `starts.file` are file numbers of these programs; `scope_ends` and `start_ends` are the
        ends of each unit's. Afterwards `faults` has the faults and `keys` the files in use.
        """
        unit_rows: cython.const[cython.ulonglong][::1] = units
        chosen_rows: cython.const[cython.uint][::1] = chosen
        call_file: cython.const[cython.ulonglong][::1] = scopes.call_file
        call_ends: cython.const[cython.uint][::1] = scope_ends
        start_file: cython.const[cython.ulonglong][::1] = starts.file
        file_ends: cython.const[cython.uint][::1] = start_ends
        index: cython.Py_ssize_t
        scope: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t = 0
        status: cython.int = DONE
        machine = cython.address(self._machine)
        header = cython.address(self._header)
        belong(all_below(chosen_rows, chosen_rows.shape[0], unit_rows.shape[0] // WIDTH))
        belong(call_ends.shape[0] == file_ends.shape[0] == chosen_rows.shape[0])
        belong(are_ends(call_ends, call_file.shape[0]) and are_ends(file_ends, start_file.shape[0]))
        self._forget()
        if not reserve(cython.address(self._programs), chosen_rows.shape[0], cython.sizeof(Program)):
            raise MemoryError
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(chosen_rows.shape[0]):
                unit = cython.address(unit_rows[cython.cast(cython.Py_ssize_t, chosen_rows[index]) * WIDTH])
                program = cython.cast(
                    cython.pointer[Program], push(cython.address(self._programs), cython.sizeof(Program))
                )
                memset(program, 0, cython.sizeof(Program))
                program.sequences = machine.sequences.count
                # A partial unit names the program of its importing units and needs only file numbers.
                if unit[HAS] & HAS_STMT_LIST and unit[TAG] != c.DW_TAG_partial_unit:
                    status = self._read_header(unit[STMT_LIST], unit[ADDRESS_SIZE])
                    if status == DONE:
                        if header.end - header.offset > left:
                            left = 0
                            status = self._fault(READ_TOO_OFTEN, header.offset, 0)
                        else:
                            left -= header.end - header.offset
                            handle_signals(cython.address(work), header.end - header.offset)
                            status = self._read_tables(unit[STR_BASE])
                            if status == DONE:
                                status = self._run(program)
                            if status == DONE:
                                self._mark(call_file, scope, call_ends[index])
                                self._mark(start_file, start, file_ends[index])
                                if not self._number_files(program, unit[COMP_DIR]):
                                    status = NO_MEMORY
                    if status == NO_MEMORY:
                        break
                scope = call_ends[index]
                start = file_ends[index]
        if status == NO_MEMORY:
            raise MemoryError
        return left

    def _forget(self):
        """Remove the results of the last batch."""
        machine = cython.address(self._machine)
        machine.rows = machine.first = machine.sequences.count = 0
        self._programs.count = self._key_of.count = self._keys.items.count = self._faults.count = 0
        machine.locations.items.count = 0
        # Clearing is slow after a large batch, and not needed after reading the files of one unit.
        if self._keys.index.count:
            clear_index(cython.address(self._keys.index))
        if machine.locations.index.count:
            clear_index(cython.address(machine.locations.index))
        if machine.with_columns:
            zero = push(cython.address(machine.locations.items), cython.sizeof(Location))
            if zero == cython.NULL:
                raise MemoryError
            memset(zero, 0, cython.sizeof(Location))

    def read_tables(self, units, unit: cython.Py_ssize_t, left: cython.ulonglong):
        """Read only the header of a row's program; return how many of the `left` bytes may still be read.

        The result is in `tables`; it is empty if the header is malformed.
        """
        unit_rows: cython.const[cython.ulonglong][::1] = units
        header = cython.address(self._header)
        belong(0 <= unit < unit_rows.shape[0] // WIDTH)
        row = cython.address(unit_rows[unit * WIDTH])
        self._forget()
        self._tables.directories.count = self._tables.names.count = self._tables.parents.count = 0
        program = push(cython.address(self._programs), cython.sizeof(Program))
        if program == cython.NULL:
            raise MemoryError
        memset(program, 0, cython.sizeof(Program))
        status: cython.int = self._read_header(row[STMT_LIST], row[ADDRESS_SIZE])
        if status == DONE:
            if header.program - header.offset > left:
                return 0
            left -= header.program - header.offset
            status = self._read_tables(row[STR_BASE])
        if status == NO_MEMORY:
            raise MemoryError
        return left

    def tables(self):
        """Return the file tables of the program that was read last.

        The number of the first file and, as bytes of 64-bit numbers, the positions of directories, the positions of
        file names, and the directories of files.
        """
        tables = cython.address(self._tables)
        return (
            tables.first, numbers_of(cython.address(tables.directories)), numbers_of(cython.address(tables.names)),
            numbers_of(cython.address(tables.parents)),
        )  # fmt: skip

    def faults(self):
        """Return the faults of the batch as bytes: FAULT_WIDTH 64-bit numbers each."""
        return numbers_of(cython.address(self._faults))

    def keys(self):
        """Return the files in use as bytes, three 64-bit numbers each.

        These are the unit's compilation directory (a name reference) and the positions of directory (or NO_DIRECTORY)
        and name.
        """
        size: cython.Py_ssize_t = self._keys.items.count * cython.sizeof(FileKey)
        return self._keys.items.items[:size] if size else b""

    def number_calls(self, scopes):
        """Replace the call lines of scopes by numbers of locations, with their call columns and discriminators."""
        call_line: cython.uint[::1] = scopes.call_line
        column: cython.const[cython.uint][::1] = scopes.call_column
        discriminator: cython.const[cython.uint][::1] = scopes.call_discriminator
        index: cython.Py_ssize_t
        number: cython.Py_ssize_t = 0
        if not column.shape[0] == discriminator.shape[0] == call_line.shape[0]:
            raise ValueError("scopes and call columns have different lengths")
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for index in range(call_line.shape[0]):
                handle_signals(cython.address(work), 4)
                number = location_number(
                    cython.address(self._machine.locations), call_line[index], column[index], discriminator[index]
                )
                if number < 0:
                    break
                call_line[index] = cython.cast(cython.uint, number)
        if number < 0:
            raise MemoryError

    def locations(self):
        """Return lines, columns and discriminators of all locations, as bytes of 32-bit numbers."""
        count: cython.Py_ssize_t = self._machine.locations.items.count
        items = cython.cast(cython.pointer[Location], self._machine.locations.items.items)
        lines: Column = Column("I")
        columns: Column = Column("I")
        discriminators: Column = Column("I")
        index: cython.Py_ssize_t
        if not (lines.reserve(count) and columns.reserve(count) and discriminators.reserve(count)):
            raise MemoryError
        for index in range(count):
            lines.push_u32(items[index].line)
            columns.push_u32(items[index].column)
            discriminators.push_u32(items[index].discriminator)
        return bytes(lines), bytes(columns), bytes(discriminators)

    def max_rows(self):
        """Return how many rows `emit_rows` writes at most."""
        return self._machine.rows + self._machine.sequences.count

    def emit_rows(self, numbers, names, scopes, scope_ends, starts, start_ends, rows, ends):
        """Write the rows of all programs and the ends of each program's rows, once; return how many rows there are.

        `numbers` and `names` replace each key: in `rows.file` by a number (NO_FILE: none), in `scopes.call_file` and
        `starts.file` by a name.
        """
        number_of: cython.const[cython.uint][::1] = numbers
        name_of: cython.const[cython.ulonglong][::1] = names
        call_file: cython.ulonglong[::1] = scopes.call_file
        call_ends: cython.const[cython.uint][::1] = scope_ends
        start_file: cython.ulonglong[::1] = starts.file
        file_ends: cython.const[cython.uint][::1] = start_ends
        vaddr: cython.ulonglong[::1] = rows.vaddr
        file: cython.uint[::1] = rows.file
        line: cython.uint[::1] = rows.line
        row_ends: cython.uint[::1] = ends
        index: cython.Py_ssize_t
        n: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        scope: cython.Py_ssize_t = 0
        start: cython.Py_ssize_t = 0
        machine = cython.address(self._machine)
        belong(min(number_of.shape[0], name_of.shape[0]) >= self._keys.items.count)
        belong(min(call_ends.shape[0], file_ends.shape[0], row_ends.shape[0]) >= self._programs.count)
        belong(are_ends(call_ends, call_file.shape[0]) and are_ends(file_ends, start_file.shape[0]))
        belong(min(vaddr.shape[0], file.shape[0], line.shape[0]) >= machine.rows + machine.sequences.count)
        with cython.nogil:
            for index in range(self._programs.count):
                program = cython.cast(cython.pointer[Program], self._programs.items) + index
                key_of = self._key_of.items + program.files
                for n in range(scope, call_ends[index]):
                    call_file[n] = name_of_file(call_file[n], program.file_count, key_of, name_of)
                for n in range(start, file_ends[index]):
                    start_file[n] = name_of_file(start_file[n], program.file_count, key_of, name_of)
                if program.sequence_count:
                    for n in range(program.file_count):
                        if key_of[n] != UNUSED:
                            key_of[n] = number_of[key_of[n]]
                    row += merge_sequences(
                        machine, program, key_of, cython.address(vaddr[row]), cython.address(file[row]),
                        cython.address(line[row]),
                    )  # fmt: skip
                scope = call_ends[index]
                start = file_ends[index]
                row_ends[index] = cython.cast(cython.uint, row)
            self._programs.count = machine.rows = machine.sequences.count = 0
            if machine.capacity > 1 << 20:  # release the memory of unusually long programs
                release(cython.address(machine.row_vaddr))
                release(cython.address(machine.row_file))
                release(cython.address(machine.row_line))
                machine.capacity = 0
        return row


def numbers_of(vector):
    """Return the numbers of a vector as bytes."""
    items = cython.cast(cython.p_char, vector.items)
    return items[: 8 * vector.count] if vector.count else b""
