"""Kernel: the ranges of an object file at the addresses that a linker gave its functions."""

import cython
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

DIVIDED_TIMES = cython.declare(cython.Py_ssize_t, 4)
DIVIDED_ALLOWANCE = cython.declare(cython.Py_ssize_t, 1 << 16)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def last_not_above(starts: cython.const[cython.ulonglong][::1], value: cython.ulonglong) -> cython.Py_ssize_t:
    """Return the index of the last of ascending numbers that is not above a value; -1 if all are."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = starts.shape[0]
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if starts[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - 1


def moved(table, pieces, out, write: cython.bint):
    """Select the parts of ranges in pieces of code; return how many ranges and line rows there are.

    With `write`, they are written to `out`, which has as many. `pieces` are [start, end) in ascending order without
    overlaps, and `target`, the new address of the start. A range that is in several pieces is divided, with the
    ranges inside it. That may take DIVIDED_TIMES the rows of the table; then a range has only its first piece. Line
    rows are those from the last one at or before the start of a part.
    """
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    depth: cython.const[cython.uint][::1] = table.depth
    first: cython.const[cython.uint][::1] = table.line_index
    size: cython.const[cython.uint][::1] = table.line_count
    offset: cython.const[cython.uint][::1] = table.line_offset
    starts: cython.const[cython.ulonglong][::1] = pieces.start
    ends: cython.const[cython.ulonglong][::1] = pieces.end
    targets: cython.const[cython.ulonglong][::1] = pieces.target
    place: cython.uint[::1] = out.place
    out_vaddr: cython.ulonglong[::1] = out.vaddr
    out_length: cython.ulonglong[::1] = out.length
    out_first: cython.uint[::1] = out.line_index
    out_size: cython.uint[::1] = out.line_count
    line_place: cython.uint[::1] = out.line_place
    out_offset: cython.uint[::1] = out.line_offset
    count: cython.Py_ssize_t = vaddr.shape[0]
    rows: cython.Py_ssize_t = offset.shape[0]
    selected: cython.Py_ssize_t = 0
    lines: cython.Py_ssize_t = 0
    capacity: cython.Py_ssize_t = min(
        place.shape[0], out_vaddr.shape[0], out_length.shape[0], out_first.shape[0], out_size.shape[0]
    )
    line_capacity: cython.Py_ssize_t = min(line_place.shape[0], out_offset.shape[0])
    root: cython.Py_ssize_t = 0
    following: cython.Py_ssize_t
    index: cython.Py_ssize_t
    piece: cython.Py_ssize_t
    cursor: cython.Py_ssize_t
    row: cython.Py_ssize_t
    belong(
        min(length.shape[0], depth.shape[0], first.shape[0], size.shape[0]) >= count
        and min(ends.shape[0], targets.shape[0]) >= starts.shape[0]
    )
    work: cython.Py_ssize_t = 0
    left: cython.Py_ssize_t = DIVIDED_TIMES * (count + rows) + DIVIDED_ALLOWANCE  # ranges and rows looked at again
    with cython.nogil:
        while root < count:
            following = root + 1
            while following < count and depth[following]:
                following += 1
            piece = last_not_above(starts, vaddr[root])
            if piece < 0 or vaddr[root] >= ends[piece]:
                piece += 1
            cursor = 0  # line rows of the range that end before the piece
            while piece < starts.shape[0] and (
                starts[piece] <= vaddr[root] or starts[piece] - vaddr[root] < length[root]
            ):
                for index in range(root, following):
                    handle_signals(cython.address(work), 2)
                    low: cython.ulonglong = vaddr[index] if vaddr[index] > starts[piece] else starts[piece]
                    high: cython.ulonglong = vaddr[index] + length[index]
                    if high > ends[piece] or high < vaddr[index]:
                        high = ends[piece]
                    if high <= low:
                        continue
                    before: cython.ulonglong = low - vaddr[index]  # bytes of the range that are left out
                    after: cython.ulonglong = high - vaddr[index]
                    first_line: cython.Py_ssize_t = lines
                    row = first[index]
                    last: cython.Py_ssize_t = row + size[index]
                    if last > rows:
                        last = row
                    if index == root:
                        row += cursor
                    while row + 1 < last and offset[row + 1] <= before:
                        handle_signals(cython.address(work), 1)
                        row += 1
                        left -= index != root
                    if index == root:
                        cursor = row - first[index]
                    while row < last and offset[row] < after:
                        handle_signals(cython.address(work), 1)
                        if write:
                            if lines >= line_capacity:
                                break
                            line_place[lines] = cython.cast(cython.uint, row)
                            out_offset[lines] = (
                                cython.cast(cython.uint, offset[row] - before) if offset[row] > before else 0
                            )
                        lines += 1
                        row += 1
                    if write:
                        if selected >= capacity:
                            break
                        place[selected] = cython.cast(cython.uint, index)
                        out_vaddr[selected] = targets[piece] + (low - starts[piece])
                        out_length[selected] = high - low
                        out_first[selected] = cython.cast(cython.uint, first_line)
                        out_size[selected] = cython.cast(cython.uint, lines - first_line)
                    selected += 1
                piece += 1
                left -= following - root
                if left < 0:
                    break
            root = following
    return selected, lines
