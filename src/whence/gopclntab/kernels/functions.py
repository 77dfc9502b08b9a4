"""The function table into columns: one pass over functab and the _func record each row points at.

A row of functab is (entry, record offset), and one last entry ends the table. A record repeats its entry, so a row and
a record that disagree are damage of that function alone. What a record's fields mean is in header.py.
"""

import cython

NONE = cython.declare(cython.uint, 0xFFFFFFFF)  # in `name`: a row that names no function
NO_TREE = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # in `tree`: nothing inlined here


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def u32(data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, big: cython.bint) -> cython.uint:
    if big:
        return (
            cython.cast(cython.uint, data[at]) << 24
            | cython.cast(cython.uint, data[at + 1]) << 16
            | cython.cast(cython.uint, data[at + 2]) << 8
            | cython.cast(cython.uint, data[at + 3])
        )
    return (
        cython.cast(cython.uint, data[at + 3]) << 24
        | cython.cast(cython.uint, data[at + 2]) << 16
        | cython.cast(cython.uint, data[at + 1]) << 8
        | cython.cast(cython.uint, data[at])
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def word(
    data: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, width: cython.int, big: cython.bint
) -> cython.ulonglong:
    if width == 4:
        return u32(data, at, big)
    if big:
        return cython.cast(cython.ulonglong, u32(data, at, big)) << 32 | u32(data, at + 4, big)
    return cython.cast(cython.ulonglong, u32(data, at + 4, big)) << 32 | u32(data, at, big)


def read(
    data: cython.const[cython.uchar][::1],
    big: cython.bint,
    functab: cython.Py_ssize_t,
    count: cython.Py_ssize_t,
    field: cython.int,
    records: cython.Py_ssize_t,
    entry_width: cython.int,
    cu_at: cython.int,
    last_at: cython.int,
    start_at: cython.int,
    wide_last: cython.bint,
    pcdata: cython.uint,
    funcdata: cython.uint,
    pointer: cython.int,
    base: cython.ulonglong,
    entry: cython.ulonglong[::1],
    end: cython.ulonglong[::1],
    name: cython.uint[::1],
    pcsp: cython.uint[::1],
    pcfile: cython.uint[::1],
    pcln: cython.uint[::1],
    cu: cython.uint[::1],
    pcinl: cython.uint[::1],
    start_line: cython.uint[::1],
    tree: cython.ulonglong[::1],
) -> tuple[int, int, int, int]:
    """Fill the columns, one row per row of functab. Gives (damaged rows, the first of them or -1, longest, together):
    the bytes of code of the longest function, and of all.

    `functab` and `records` are offsets into `data`; the caller has checked that functab lies inside. `pointer` is the
    width of a funcdata pointer, 0 where funcdata are 32-bit offsets. `cu_at` < 0: records know no unit,
    `start_at` < 0: no start line. A damaged row and a row that only separates text sections have name NONE; the second
    kind is not counted.
    """
    size: cython.Py_ssize_t = data.shape[0]
    at: cython.Py_ssize_t
    arrays: cython.Py_ssize_t
    i: cython.Py_ssize_t
    first_bad: cython.Py_ssize_t = -1
    last: cython.ulonglong
    longest: cython.ulonglong = 0
    together: cython.ulonglong = 0
    bad: cython.Py_ssize_t = 0
    start: cython.ulonglong
    stop: cython.ulonglong
    record: cython.ulonglong
    npcdata: cython.uint
    nfuncdata: cython.uint
    offset: cython.uint
    with cython.nogil:
        last = word(data, functab + 2 * count * field, field, big)
        for i in range(count):
            at = functab + 2 * i * field
            start = word(data, at, field, big)
            record = word(data, at + field, field, big)
            stop = word(data, at + 2 * field, field, big)
            entry[i] = base + start
            end[i] = base + stop
            name[i] = NONE
            pcsp[i] = 0
            pcfile[i] = 0
            pcln[i] = 0
            cu[i] = NONE
            pcinl[i] = 0
            start_line[i] = 0
            tree[i] = NO_TREE
            if record == 0:
                continue
            if stop < start or stop > last or stop - start > NONE or record > cython.cast(cython.ulonglong, size):
                bad += 1
                if first_bad < 0:
                    first_bad = i
                continue
            at = records + cython.cast(cython.Py_ssize_t, record)
            if at > size - entry_width - last_at - 4 or word(data, at, entry_width, big) != start:
                bad += 1
                if first_bad < 0:
                    first_bad = i
                continue
            at += entry_width
            name[i] = u32(data, at, big)
            together += stop - start
            if stop - start > longest:
                longest = stop - start
            pcsp[i] = u32(data, at + 12, big)
            pcfile[i] = u32(data, at + 16, big)
            pcln[i] = u32(data, at + 20, big)
            npcdata = u32(data, at + 24, big)
            if cu_at >= 0:
                cu[i] = u32(data, at + cu_at, big)
            else:
                cu[i] = 0
            if start_at >= 0:
                start_line[i] = u32(data, at + start_at, big)
            nfuncdata = u32(data, at + last_at, big) if wide_last else data[at + last_at + 3]
            arrays = at + last_at + 4
            if pcdata >= npcdata or funcdata >= nfuncdata or npcdata > cython.cast(cython.ulonglong, size) // 4:
                continue
            at = arrays + 4 * cython.cast(cython.Py_ssize_t, npcdata)
            if pointer:
                at += (pointer - at % pointer) % pointer
            at += cython.cast(cython.Py_ssize_t, funcdata) * (pointer if pointer else 4)
            if at > size - (pointer if pointer else 4):
                continue
            pcinl[i] = u32(data, arrays + 4 * cython.cast(cython.Py_ssize_t, pcdata), big)
            if pcinl[i] == 0:
                continue
            if pointer:
                record = word(data, at, pointer, big)
                tree[i] = NO_TREE if record == 0 else record
            else:
                offset = u32(data, at, big)
                tree[i] = NO_TREE if offset == NONE else cython.cast(cython.ulonglong, offset)
    return bad, first_bad, longest, together


def holding(
    entry: cython.const[cython.ulonglong][::1],
    end: cython.const[cython.ulonglong][::1],
    vaddrs: cython.const[cython.ulonglong][::1],
    rows: cython.uint[::1],
) -> int:
    """Write the numbers of the rows whose code holds any of the vaddrs, which ascend; gives how many. In a damaged
    table entries need not ascend, so every row is looked at."""
    count: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    low: cython.Py_ssize_t
    high: cython.Py_ssize_t
    middle: cython.Py_ssize_t
    with cython.nogil:
        for row in range(entry.shape[0]):
            low = 0
            high = vaddrs.shape[0]
            while low < high:
                middle = (low + high) // 2
                if vaddrs[middle] < entry[row]:
                    low = middle + 1
                else:
                    high = middle
            if low < vaddrs.shape[0] and vaddrs[low] < end[row]:
                rows[count] = cython.cast(cython.uint, row)
                count += 1
    return count
