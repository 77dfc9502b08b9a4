"""The ranges that hold any of the addresses that are asked for, and those of their line rows that do."""

import cython
from cython.cimports.whence.kernels.checks import all_below, belong
from cython.cimports.whence.kernels.signals import handle_signals


def first_from(asked, count, vaddr, near):
    """The first of the addresses that is at or above a vaddr, or their number. `near` is where it may be, as it was
    found for another vaddr: steps from there on double."""
    low: cython.Py_ssize_t = near
    step: cython.Py_ssize_t = 1
    high: cython.Py_ssize_t = count
    if low > 0 and asked[low - 1] >= vaddr:
        low, high = 0, low - 1
    else:
        while low < count and asked[low] < vaddr:
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
        if asked[middle] < vaddr:
            low = middle + 1
        else:
            high = middle
    return low


def holding(table, vaddrs, out: cython.uint[::1]):
    """Put the places of the ranges that hold any of the vaddrs into `out`; returns how many there are.

    The table is in tree order: each range is followed by those inlined in it, which lie in it. `vaddrs` ascend.
    """
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    depth: cython.const[cython.uint][::1] = table.depth
    asked: cython.const[cython.ulonglong][::1] = vaddrs
    count: cython.Py_ssize_t = asked.shape[0]
    index: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    levels: cython.uint = 0  # the ranges around the next one that are kept: a deeper one lies in one that is not
    belong(min(length.shape[0], depth.shape[0], out.shape[0]) >= vaddr.shape[0])
    if count == 0:
        return 0
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for index in range(vaddr.shape[0]):
            handle_signals(cython.address(work), 1)
            if depth[index] > levels:
                continue
            at = first_from(cython.address(asked[0]), count, vaddr[index], at)
            levels = depth[index]
            if at < count and asked[at] - vaddr[index] < length[index]:
                out[kept] = cython.cast(cython.uint, index)
                kept += 1
                levels += 1
    return kept


def held_lines(places, table, vaddrs, out, write: cython.bint):
    """The line rows that hold any of the vaddrs, of the ranges at these places of the table. Returns how many.

    With `write` they are put into `out`, which has a row for each place and that many line rows.
    """
    place: cython.const[cython.uint][::1] = places
    vaddr: cython.const[cython.ulonglong][::1] = table.vaddr
    length: cython.const[cython.ulonglong][::1] = table.length
    first: cython.const[cython.uint][::1] = table.line_index
    size: cython.const[cython.uint][::1] = table.line_count
    offset: cython.const[cython.uint][::1] = table.line_offset
    number: cython.const[cython.uint][::1] = table.line_number
    asked: cython.const[cython.ulonglong][::1] = vaddrs
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
    count: cython.Py_ssize_t = asked.shape[0]
    rows: cython.Py_ssize_t = min(offset.shape[0], number.shape[0], column.shape[0], discriminator.shape[0])
    room: cython.Py_ssize_t = (
        min(out_offset.shape[0], out_number.shape[0], out_column.shape[0], out_discriminator.shape[0]) if write else 0
    )
    index: cython.Py_ssize_t
    found: cython.Py_ssize_t = 0
    at: cython.Py_ssize_t = 0
    following: cython.ulonglong  # where the next row begins, from the range's vaddr on
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
            before: cython.Py_ssize_t = found
            at = first_from(cython.address(asked[0]), count, start, at)
            while row < high:
                following = offset[row + 1] if row + 1 < high else length[place[index]]
                while at < count and asked[at] - start < offset[row]:
                    at += 1
                if at == count:
                    break
                if asked[at] - start < following:
                    if write and found < room:
                        out_offset[found] = offset[row]
                        out_number[found] = number[row]
                        if with_columns:
                            out_column[found] = column[row]
                            out_discriminator[found] = discriminator[row]
                    found += 1
                row += 1
            if write:
                if found > room:
                    found = before
                    break
                out_first[index] = cython.cast(cython.uint, before) if found > before else 0
                out_size[index] = cython.cast(cython.uint, found - before)
    return found
