"""Select the ranges that contain given addresses, and those of their line rows that do."""

import cython
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.signals import handle_signals


def first_from(vaddrs, count, vaddr, near):
    """Return the index of the first address that is not below a vaddr, or `count`.

    `near` is the result for another vaddr; the search takes doubling steps from there.
    """
    low: cython.Py_ssize_t = near
    step: cython.Py_ssize_t = 1
    high: cython.Py_ssize_t = count
    if low > 0 and vaddrs[low - 1] >= vaddr:
        low, high = 0, low - 1
    else:
        while low < count and vaddrs[low] < vaddr:
            near = low
            low += step
            step += step
        if step > 1:
            if low < count:
                high = low
            low = near + 1
        else:
            return low
    while low < high:
        middle: cython.Py_ssize_t = (low + high) >> 1
        if vaddrs[middle] < vaddr:
            low = middle + 1
        else:
            high = middle
    return low


def holding(table, vaddrs, out: cython.uint[::1]):
    """Write the rows of the ranges that contain any of the vaddrs to `out`, and return how many there are.

    The table is in tree order: each range is followed by the ranges inlined in it. `vaddrs` ascend.
    """
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    depth: cython.const[cython.uint][::1] = table.depth
    queries: cython.const[cython.ulonglong][::1] = vaddrs
    count: cython.Py_ssize_t = queries.shape[0]
    index: cython.Py_ssize_t
    selected: cython.Py_ssize_t = 0
    query: cython.Py_ssize_t = 0
    levels: cython.uint = 0  # selected ranges around the next one; a deeper range is inside an unselected range
    belong(min(length.shape[0], depth.shape[0], out.shape[0]) >= vaddr.shape[0])
    if count == 0:
        return 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(vaddr.shape[0]):
            handle_signals(cython.address(work), 1)
            if depth[index] > levels:
                continue
            query = first_from(cython.address(queries[0]), count, vaddr[index], query)
            levels = depth[index]
            if query < count and queries[query] - vaddr[index] < length[index]:
                out[selected] = cython.cast(cython.uint, index)
                selected += 1
                levels += 1
    return selected


def held_lines(places, table, vaddrs, out, write: cython.bint):
    """Select the line rows that contain any of the vaddrs, of the given rows of a table; return how many there are.

    With `write`, they are written to `out`, which has the ranges of `places` and that many line rows.
    """
    place: cython.const[cython.uint][::1] = places
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    first: cython.const[cython.uint][::1] = table.line_index
    size: cython.const[cython.uint][::1] = table.line_count
    offset: cython.const[cython.uint][::1] = table.line_offset
    number: cython.const[cython.uint][::1] = table.line_number
    queries: cython.const[cython.ulonglong][::1] = vaddrs
    with_columns: cython.bint = table.columns is not None
    column: cython.const[cython.uint][::1] = table.columns.line_column if with_columns else table.line_number
    discriminator: cython.const[cython.uint][::1] = (
        table.columns.line_discriminator if with_columns else table.line_number
    )
    out_first: cython.uint[::1] = out.line_index
    out_size: cython.uint[::1] = out.line_count
    out_offset: cython.uint[::1] = out.line_offset
    out_number: cython.uint[::1] = out.line_number
    out_column: cython.uint[::1] = out.columns.line_column if with_columns else out.line_number
    out_discriminator: cython.uint[::1] = out.columns.line_discriminator if with_columns else out.line_number
    count: cython.Py_ssize_t = queries.shape[0]
    rows: cython.Py_ssize_t = min(offset.shape[0], number.shape[0], column.shape[0], discriminator.shape[0])
    capacity: cython.Py_ssize_t = (
        min(out_offset.shape[0], out_number.shape[0], out_column.shape[0], out_discriminator.shape[0]) if write else 0
    )
    index: cython.Py_ssize_t
    selected: cython.Py_ssize_t = 0
    query: cython.Py_ssize_t = 0
    following: cython.ulonglong  # the offset of the next row from the range's vaddr
    belong(
        min(length.shape[0], first.shape[0], size.shape[0]) >= vaddr.shape[0]
        and all_below(place, place.shape[0], vaddr.shape[0])
        and (not write or min(out_first.shape[0], out_size.shape[0]) >= place.shape[0])
    )
    if count == 0:
        return 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(place.shape[0]):
            handle_signals(cython.address(work), 4)
            start: cython.ulonglong = vaddr[place[index]]
            row: cython.Py_ssize_t = first[place[index]]
            high: cython.Py_ssize_t = row + size[place[index]]
            if high > rows:
                high = row
            first_selected: cython.Py_ssize_t = selected
            query = first_from(cython.address(queries[0]), count, start, query)
            while row < high:
                following = offset[row + 1] if row + 1 < high else length[place[index]]
                while query < count and queries[query] - start < offset[row]:
                    query += 1
                if query == count:
                    break
                if queries[query] - start < following:
                    if write and selected < capacity:
                        out_offset[selected] = offset[row]
                        out_number[selected] = number[row]
                        if with_columns:
                            out_column[selected] = column[row]
                            out_discriminator[selected] = discriminator[row]
                    selected += 1
                row += 1
            if write:
                if selected > capacity:
                    selected = first_selected
                    break
                out_first[index] = cython.cast(cython.uint, first_selected) if selected > first_selected else 0
                out_size[index] = cython.cast(cython.uint, selected - first_selected)
    return selected
