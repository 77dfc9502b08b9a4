"""Kernel: the function table into columns, in one pass over functab and the _func record of each row.

A row of functab is (entry, record offset); a last entry ends the table. A record repeats its entry, so that a row and a
record that disagree are damage of that function alone. header.py describes the fields of a record.
"""

import cython
from cython.cimports.whence.gopclntab.kernels import constants as c
from cython.cimports.whence.kernels.bytes import number, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

NO_FUNCTION = 0xFFFFFFFF  # in `name`: no function; in `cu`: no unit
NO_TREE = 0xFFFFFFFFFFFFFFFF  # in `tree`: no inlined calls
MOST_OF_RECORD = cython.declare(cython.int, 1 << 10)  # bytes of a _func before its pcdata; all versions have fewer
NONE = cython.declare(cython.uint, NO_FUNCTION)
WITHOUT_TREE = cython.declare(cython.ulonglong, NO_TREE)

FuncRecord = cython.struct(  # offsets in a _func, as in functions.RecordLayout
    entry_width=cython.int,
    cu_at=cython.int,
    last_at=cython.int,
    start_at=cython.int,
    wide_last=cython.bint,
    pcdata=cython.uint,
    funcdata=cython.uint,
    pointer=cython.int,
)


def read(data: cython.const[cython.uchar][::1], layout, base: cython.ulonglong, columns) -> tuple[int, int, int, int]:
    """Fill the columns, one row per row of functab.

    Args:
        layout: a functions.RecordLayout; the caller has checked that functab is inside `data`.
        base: added to entries.
        columns: a functions.PclntabFunctions with capacity for all rows. A damaged row, and a row that only separates
            text sections, gets the name NO_FUNCTION; the second kind is not counted as damaged.

    Returns:
        The number of damaged rows, the first of them or -1, and bytes of code of the longest function and of all.
    """
    entry: cython.ulonglong[::1] = columns.entry
    end: cython.ulonglong[::1] = columns.end
    tree: cython.ulonglong[::1] = columns.tree
    name: cython.uint[::1] = columns.name
    pcsp: cython.uint[::1] = columns.pcsp
    pcfile: cython.uint[::1] = columns.pcfile
    pcln: cython.uint[::1] = columns.pcln
    cu: cython.uint[::1] = columns.cu
    pcinl: cython.uint[::1] = columns.pcinl
    start_line: cython.uint[::1] = columns.start
    big: cython.bint = layout.big
    functab: cython.Py_ssize_t = layout.functab
    count: cython.Py_ssize_t = layout.count
    field: cython.int = layout.field
    records: cython.Py_ssize_t = layout.records
    record: FuncRecord
    size: cython.Py_ssize_t = data.shape[0]
    i: cython.Py_ssize_t
    first_bad: cython.Py_ssize_t = -1
    bad: cython.Py_ssize_t = 0
    longest: cython.ulonglong = 0
    total: cython.ulonglong = 0
    record.entry_width = field
    record.cu_at = layout.cu_at
    record.last_at = layout.last_at
    record.start_at = layout.start_at
    record.wide_last = layout.wide_last
    record.pcdata = layout.pcdata
    record.funcdata = layout.funcdata
    record.pointer = layout.pointer
    if count > entry.shape[0]:
        count = entry.shape[0]
    belong(min(end.shape[0], tree.shape[0], name.shape[0], pcsp.shape[0], pcfile.shape[0], pcln.shape[0]) >= count)
    belong(min(cu.shape[0], pcinl.shape[0], start_line.shape[0]) >= count >= 0)
    belong((field == 4 or field == 8) and 0 <= functab <= size and 0 <= records <= size)
    belong(count <= (size - functab - field) // (2 * field) and size >= functab + field)
    belong(c.FUNC_npcdata <= record.last_at <= MOST_OF_RECORD and record.cu_at <= record.last_at)
    belong(record.start_at <= record.last_at and (record.pointer == 0 or record.pointer == 4 or record.pointer == 8))
    p: cython.p_const_uchar = cython.address(data[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        last: cython.ulonglong = number(p + functab + 2 * count * field, field, big)
        for i in range(count):
            handle_signals(cython.address(work), 2)
            row: cython.p_const_uchar = p + functab + 2 * i * field
            start: cython.ulonglong = number(row, field, big)
            offset: cython.ulonglong = number(row + field, field, big)
            stop: cython.ulonglong = number(row + 2 * field, field, big)
            entry[i] = base + start
            end[i] = base + stop
            name[i] = NONE
            pcsp[i] = 0
            pcfile[i] = 0
            pcln[i] = 0
            cu[i] = NONE
            pcinl[i] = 0
            start_line[i] = 0
            tree[i] = WITHOUT_TREE
            if offset == 0:
                continue
            if (
                stop < start
                or stop > last
                or stop - start > NONE
                or offset > cython.cast(cython.ulonglong, size)
                or records + cython.cast(cython.Py_ssize_t, offset) > size - record.entry_width - record.last_at - 4
                or number(p + records + offset, record.entry_width, big) != start
            ):
                bad += 1
                if first_bad < 0:
                    first_bad = i
                continue
            row = p + records + offset + record.entry_width
            name[i] = u32(row + c.FUNC_nameOff, big)
            total += stop - start
            if stop - start > longest:
                longest = stop - start
            pcsp[i] = u32(row + c.FUNC_pcsp, big)
            pcfile[i] = u32(row + c.FUNC_pcfile, big)
            pcln[i] = u32(row + c.FUNC_pcln, big)
            cu[i] = u32(row + record.cu_at, big) if record.cu_at >= 0 else 0
            if record.start_at >= 0:
                start_line[i] = u32(row + record.start_at, big)
            pcinl[i] = tree_index(p, size, row - p, cython.address(record), big, cython.address(tree[i]))
    return bad, first_bad, longest, total


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def tree_index(
    data: cython.p_const_uchar,
    size: cython.Py_ssize_t,
    offset: cython.Py_ssize_t,
    record: cython.pointer(FuncRecord),
    big: cython.bint,
    tree: cython.p_ulonglong,
) -> cython.uint:
    """Return the offset of the inline table of the record at `offset`, 0 without one.

    `tree` becomes its funcdata value. The record's pcdata (32 bits each) follow its last word, then its funcdata:
    pointers, aligned in the table, or 32-bit offsets.
    """
    npcdata: cython.uint = u32(data + offset + c.FUNC_npcdata, big)
    last: cython.p_const_uchar = data + offset + record.last_at
    nfuncdata: cython.uint = u32(last, big) if record.wide_last else last[3]
    arrays: cython.Py_ssize_t = offset + record.last_at + 4
    width: cython.int = record.pointer if record.pointer else 4
    if record.pcdata >= npcdata or record.funcdata >= nfuncdata:
        return 0
    if npcdata > cython.cast(cython.ulonglong, size) // 4:
        return 0
    position: cython.Py_ssize_t = arrays + 4 * cython.cast(cython.Py_ssize_t, npcdata)
    if record.pointer:
        position += (record.pointer - position % record.pointer) % record.pointer
    position += cython.cast(cython.Py_ssize_t, record.funcdata) * width
    if position > size - width:
        return 0
    index: cython.uint = u32(data + arrays + 4 * cython.cast(cython.Py_ssize_t, record.pcdata), big)
    if index == 0:
        return 0
    value: cython.ulonglong = number(data + position, width, big)
    if record.pointer:
        tree[0] = WITHOUT_TREE if value == 0 else value
    else:
        tree[0] = WITHOUT_TREE if value == NONE else value
    return index


def rows_holding(columns, vaddrs: cython.const[cython.ulonglong][::1], rows: cython.uint[::1]) -> int:
    """Write the rows whose code contains any of `vaddrs`, which are sorted, and return how many.

    All rows are checked, since entries need not ascend in a damaged table.
    """
    entry: cython.const[cython.ulonglong][::1] = columns.entry
    end: cython.const[cython.ulonglong][::1] = columns.end
    count: cython.Py_ssize_t = 0
    row: cython.Py_ssize_t
    belong(end.shape[0] == entry.shape[0] and rows.shape[0] >= entry.shape[0])
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for row in range(entry.shape[0]):
            handle_signals(cython.address(work), 2)
            low: cython.Py_ssize_t = 0
            high: cython.Py_ssize_t = vaddrs.shape[0]
            while low < high:
                middle: cython.Py_ssize_t = (low + high) // 2
                if vaddrs[middle] < entry[row]:
                    low = middle + 1
                else:
                    high = middle
            if low < vaddrs.shape[0] and vaddrs[low] < end[row]:
                rows[count] = cython.cast(cython.uint, row)
                count += 1
    return count
