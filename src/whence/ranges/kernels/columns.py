"""Operations on columns: gather rows, add to them, move the lines of clipped ranges."""

import cython
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals


def gather_u64(
    pick: cython.const[cython.uint][::1], column: cython.const[cython.ulonglong][::1], out: cython.ulonglong[::1]
):
    """Set out[i] to column[pick[i]]."""
    index: cython.Py_ssize_t
    belong(out.shape[0] >= pick.shape[0] and all_below(pick, pick.shape[0], column.shape[0]))
    with cython.nogil:
        for index in range(pick.shape[0]):
            out[index] = column[pick[index]]


def gather_u32(pick: cython.const[cython.uint][::1], column: cython.const[cython.uint][::1], out: cython.uint[::1]):
    """Set out[i] to column[pick[i]]."""
    index: cython.Py_ssize_t
    belong(out.shape[0] >= pick.shape[0] and all_below(pick, pick.shape[0], column.shape[0]))
    with cython.nogil:
        for index in range(pick.shape[0]):
            out[index] = column[pick[index]]


def gather_u8(pick: cython.const[cython.uint][::1], column: cython.const[cython.uchar][::1], out: cython.uchar[::1]):
    """Set out[i] to column[pick[i]]."""
    index: cython.Py_ssize_t
    belong(out.shape[0] >= pick.shape[0] and all_below(pick, pick.shape[0], column.shape[0]))
    with cython.nogil:
        for index in range(pick.shape[0]):
            out[index] = column[pick[index]]


def none_later(pick):
    """Return True if no row picks a later one."""
    index: cython.Py_ssize_t
    for index in range(pick.shape[0]):
        if pick[index] > index:
            return False
    return True


def spread_u64(pick: cython.const[cython.uint][::1], column: cython.ulonglong[::1]):
    """Gather in place: set column[i] to the old column[pick[i]], where pick[i] <= i."""
    index: cython.Py_ssize_t
    belong(column.shape[0] >= pick.shape[0] and none_later(pick))
    with cython.nogil:
        for index in range(pick.shape[0] - 1, -1, -1):
            column[index] = column[pick[index]]


def spread_u32(pick: cython.const[cython.uint][::1], column: cython.uint[::1]):
    """Gather in place: set column[i] to the old column[pick[i]], where pick[i] <= i."""
    index: cython.Py_ssize_t
    belong(column.shape[0] >= pick.shape[0] and none_later(pick))
    with cython.nogil:
        for index in range(pick.shape[0] - 1, -1, -1):
            column[index] = column[pick[index]]


def spread_u8(pick: cython.const[cython.uint][::1], column: cython.uchar[::1]):
    """Gather in place: set column[i] to the old column[pick[i]], where pick[i] <= i."""
    index: cython.Py_ssize_t
    belong(column.shape[0] >= pick.shape[0] and none_later(pick))
    with cython.nogil:
        for index in range(pick.shape[0] - 1, -1, -1):
            column[index] = column[pick[index]]


def add(column: cython.uint[::1], start: cython.Py_ssize_t, base: cython.uint):
    """Add `base` to the rows of a column from `start`."""
    index: cython.Py_ssize_t
    belong(start >= 0)
    with cython.nogil:
        for index in range(start, column.shape[0]):
            column[index] += base


def locate(numbers: cython.uint[::1], start: cython.Py_ssize_t, locations, column: cython.uint[::1], discriminator):
    """Replace numbers of locations by lines, from row `start`, and set the rows' columns and discriminators.

    Line 0 for a number past the last location.
    """
    lines: cython.const[cython.uint][::1] = locations.line
    columns: cython.const[cython.uint][::1] = locations.column
    discriminators: cython.const[cython.uint][::1] = locations.discriminator
    out: cython.uint[::1] = discriminator
    count: cython.Py_ssize_t = lines.shape[0]
    index: cython.Py_ssize_t
    belong(
        start >= 0
        and min(column.shape[0], out.shape[0]) >= numbers.shape[0]
        and min(columns.shape[0], discriminators.shape[0]) >= count
    )
    with cython.nogil:
        for index in range(start, numbers.shape[0]):
            location: cython.uint = numbers[index]
            if location >= count:
                numbers[index] = 0
                continue
            numbers[index] = lines[location]
            column[index] = columns[location]
            out[index] = discriminators[location]


def clear_unless(flags: cython.const[cython.uchar][::1], column: cython.uint[::1]):
    """Set the rows whose flag is 0 to 0."""
    index: cython.Py_ssize_t
    belong(column.shape[0] >= flags.shape[0])
    with cython.nogil:
        for index in range(flags.shape[0]):
            if not flags[index]:
                column[index] = 0


def first_above(offset, low, high, limit):
    """Return the first of the rows [low, high) whose offset is above the limit, or `high`. Offsets ascend."""
    while low < high:
        middle: cython.ulonglong = (low + high) >> 1
        if offset[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low


def move_lines(places, old_vaddrs, table):
    """Remove the line rows that clipped ranges of a table lost; ranges that begin later get new rows.

    `places` are the old rows of the ranges, by which `old_vaddrs` has their old vaddrs. The offsets of a range's rows
    ascend. Returns the columns of the new rows, to be appended to the table: offset, number, column and discriminator
    (the last two empty if the table has no columns). Raises MemoryError, after which the table is unusable.
    """
    pick: cython.const[cython.uint][::1] = places
    old_vaddr: cython.const[cython.ulonglong][::1] = old_vaddrs
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    index: cython.uint[::1] = table.line_index
    count: cython.uint[::1] = table.line_count
    offset: cython.const[cython.uint][::1] = table.line_offset
    number: cython.const[cython.uint][::1] = table.line_number
    with_columns: cython.bint = table.columns is not None
    column: cython.const[cython.uint][::1] = table.columns.line_column if with_columns else table.line_number
    discriminator: cython.const[cython.uint][::1] = (
        table.columns.line_discriminator if with_columns else table.line_number
    )
    offsets: Column = Column("I")
    numbers: Column = Column("I")
    columns: Column = Column("I")
    discriminators: Column = Column("I")
    position: cython.Py_ssize_t
    rows: cython.Py_ssize_t = min(offset.shape[0], number.shape[0], column.shape[0], discriminator.shape[0])
    row: cython.ulonglong
    has_memory: cython.bint = True
    belong(
        min(vaddr.shape[0], length.shape[0], index.shape[0], count.shape[0]) >= pick.shape[0]
        and all_below(pick, pick.shape[0], old_vaddr.shape[0])
    )
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for position in range(pick.shape[0]):
            handle_signals(cython.address(work), 4)
            shift: cython.ulonglong = vaddr[position] - old_vaddr[pick[position]]
            low: cython.ulonglong = index[position]
            high: cython.ulonglong = low + count[position]
            if high > cython.cast(cython.ulonglong, rows):
                high = low
            limit: cython.ulonglong = shift + length[position]  # the end of the range, relative to the old vaddr
            # A range may be cut into as many pieces as it has rows, so no piece reads all of the rows.
            if high > low and offset[high - 1] >= limit:
                high = first_above(offset, low, high, limit - 1) if limit else low
            skip: cython.ulonglong = low
            if shift and skip + 1 < high:
                skip = first_above(offset, skip + 1, high, shift) - 1
            if shift and high > skip:
                index[position] = cython.cast(cython.uint, rows + offsets.vector.count)
                for row in range(skip, high):
                    has_memory = offsets.push_u32(
                        cython.cast(cython.uint, offset[row] - shift) if offset[row] > shift else 0
                    ) and numbers.push_u32(number[row])
                    if has_memory and with_columns:
                        has_memory = columns.push_u32(column[row]) and discriminators.push_u32(discriminator[row])
                    if not has_memory:
                        break
                if not has_memory:
                    break
            count[position] = cython.cast(cython.uint, high - skip)
    if not has_memory:
        raise MemoryError
    return offsets, numbers, columns, discriminators
