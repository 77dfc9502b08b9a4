"""The line number machine (DWARF 5, section 6.2), over bytes and columns.

`run` executes a program into scratch columns; `settle` puts its sequences in order and keeps what can be asked for.
`run` stops when a column is full, at a DW_LNE_define_file and at the end, with its registers in `state`, and goes on
from there when called again. Rows that repeat the file and line of the row before them are not kept: they would answer
the same.
"""

import cython
from cython.cimports.libc.stdlib import qsort
from cython.cimports.whence.dwarf.kernels.constants import (
    DW_LNE_define_file,
    DW_LNE_end_sequence,
    DW_LNE_set_address,
    DW_LNS_advance_line,
    DW_LNS_advance_pc,
    DW_LNS_const_add_pc,
    DW_LNS_copy,
    DW_LNS_fixed_advance_pc,
    DW_LNS_negate_stmt,
    DW_LNS_set_basic_block,
    DW_LNS_set_column,
    DW_LNS_set_epilogue_begin,
    DW_LNS_set_file,
    DW_LNS_set_isa,
    DW_LNS_set_prologue_end,
)
from cython.cimports.whence.dwarf.kernels.reading import number, sleb, uleb

# What `run` stops with; what it means is worded in lines.py.
DONE = cython.declare(cython.int, 0)
FULL = cython.declare(cython.int, 1)
DEFINE_FILE = cython.declare(cython.int, 2)
CUT_SHORT = cython.declare(cython.int, 3)
BAD_LENGTH = cython.declare(cython.int, 4)
NO_RANGE = cython.declare(cython.int, 5)
BAD_ADDRESS = cython.declare(cython.int, 6)

# Columns of `sequences`, four to a sequence: end vaddr, first vaddr, first row, last row + 1 (with UNSORTED).
UNSORTED = cython.declare(cython.ulonglong, 1 << 63)
NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)


def execute(machine):
    """Run the machine from where it is to the end of its program; gives what it stopped with."""
    p: cython.pointer[cython.const[cython.uchar]] = machine.data
    at: cython.ulonglong = machine.at
    end: cython.ulonglong = machine.end
    address: cython.ulonglong = machine.address
    op_index: cython.ulonglong = machine.op_index
    current: cython.ulonglong = machine.current
    where: cython.uint = machine.where
    n: cython.Py_ssize_t = machine.rows
    count: cython.Py_ssize_t = machine.sequences
    first: cython.Py_ssize_t = machine.first
    unsorted: cython.ulonglong = machine.unsorted

    step: cython.ulonglong = machine.step
    slots: cython.ulonglong = machine.slots
    base: cython.longlong = machine.base
    span: cython.longlong = machine.span
    special: cython.int = machine.special
    big: cython.bint = machine.big
    lowest: cython.ulonglong = machine.lowest
    lengths: cython.pointer[cython.const[cython.uchar]] = machine.lengths
    va: cython.p_ulonglong = machine.va
    file: cython.p_uint = machine.file
    line: cython.p_uint = machine.line
    sequences: cython.p_ulonglong = machine.sequence
    used: cython.p_uchar = machine.used
    mask: cython.ulonglong = ~cython.cast(cython.ulonglong, 0)
    if machine.width < 8:
        mask = (cython.cast(cython.ulonglong, 1) << (8 * machine.width)) - 1

    room: cython.Py_ssize_t = machine.room
    sequence_room: cython.Py_ssize_t = machine.sequence_room
    known: cython.Py_ssize_t = machine.known
    operands: cython.Py_ssize_t = machine.operands
    status: cython.int = 0
    opcode: cython.int
    start: cython.ulonglong = at
    after: cython.ulonglong
    size: cython.ulonglong
    advance: cython.ulonglong = 0
    emit: cython.int  # 1: a row; 2: the end of a sequence
    name: cython.uint
    i: cython.int
    moves: cython.ulonglong[256]
    turns: cython.int[256]
    if span > 0:
        for i in range(256):
            moves[i] = i // span * step
            turns[i] = i % span + base

    while at < end:
        start = at
        if n >= room or count >= sequence_room:
            status = FULL
            break
        opcode = p[at]
        at += 1
        emit = 0
        if opcode >= special and opcode != 0:  # a special opcode (6.2.5.1)
            if span <= 0:
                status = NO_RANGE
                break
            i = opcode - special
            where += turns[i]
            if slots <= 1:
                address = (address + moves[i]) & mask
            else:
                advance = op_index + i // span
                address = (address + step * (advance // slots)) & mask
                op_index = advance % slots
            emit = 1
        elif opcode == 0:  # an extended opcode (6.2.5.3): its length tells where it ends
            size = uleb(p, cython.address(at), end)
            if at > end or size > end - at:
                status = BAD_LENGTH
                break
            if size == 0:
                continue
            after = at + size
            opcode = p[at]
            if opcode == DW_LNE_end_sequence:
                emit = 2
            elif opcode == DW_LNE_set_address:
                if size == 1 or size > 9:
                    status = BAD_ADDRESS
                    break
                address = number(p + at + 1, size - 1, big) & mask
                op_index = 0
            elif opcode == DW_LNE_define_file:
                status = DEFINE_FILE
                start = at + 1
                at = after
                break
            at = after
        elif opcode == DW_LNS_copy:
            emit = 1
        elif opcode in (DW_LNS_advance_pc, DW_LNS_const_add_pc):
            if opcode == DW_LNS_advance_pc:
                advance = uleb(p, cython.address(at), end)
            elif span <= 0:
                status = NO_RANGE
                break
            else:
                advance = (255 - special) // span
            if slots <= 1:
                address = (address + step * advance) & mask
            else:
                advance += op_index
                address = (address + step * (advance // slots)) & mask
                op_index = advance % slots
        elif opcode == DW_LNS_advance_line:
            where += cython.cast(cython.uint, sleb(p, cython.address(at), end))
        elif opcode == DW_LNS_set_file:
            current = uleb(p, cython.address(at), end)
        elif opcode == DW_LNS_fixed_advance_pc:
            if end - at < 2:
                status = CUT_SHORT
                break
            address = (address + number(p + at, 2, big)) & mask
            op_index = 0
            at += 2
        elif opcode in (DW_LNS_set_column, DW_LNS_set_isa):
            uleb(p, cython.address(at), end)
        elif opcode in (DW_LNS_negate_stmt, DW_LNS_set_basic_block, DW_LNS_set_prologue_end, DW_LNS_set_epilogue_begin):
            pass  # is_stmt, basic_block, prologue_end, epilogue_begin: nothing that we keep
        elif opcode <= operands:  # not a standard opcode we know: the header says how many operands it has
            for i in range(lengths[opcode - 1]):
                uleb(p, cython.address(at), end)
                if at > end:
                    break
        if at > end:
            status = CUT_SHORT
            break

        if emit == 1:
            name = cython.cast(cython.uint, current) if current < NO_FILE else NO_FILE
            if n > first:
                if va[n - 1] == address:  # of rows with one address the last counts
                    file[n - 1] = name
                    line[n - 1] = where
                    if name < known:
                        used[name] = 1
                    continue
                if va[n - 1] > address:
                    unsorted = UNSORTED
                elif file[n - 1] == name and line[n - 1] == where:
                    continue
            if name < known:
                used[name] = 1
            va[n] = address
            file[n] = name
            line[n] = where
            n += 1
        elif emit == 2:
            if n > first:
                if va[first] < lowest or va[first] >= mask - 1 or (va[first] >= address and unsorted == 0):
                    n = first  # dead code that the linker left at 0, -1 or -2, or no bytes at all
                else:
                    sequences[4 * count] = address
                    sequences[4 * count + 1] = va[first]
                    sequences[4 * count + 2] = first
                    sequences[4 * count + 3] = cython.cast(cython.ulonglong, n) | unsorted
                    count += 1
            first = n
            address = 0
            op_index = 0
            current = 1
            where = 1
            unsorted = 0

    if status == DONE and n > first:
        status = CUT_SHORT  # a sequence that no DW_LNE_end_sequence ends has no last row
        start = at
    machine.at = start if status == FULL else at
    machine.address = address
    machine.op_index = op_index
    machine.current = current
    machine.where = where
    machine.rows = n
    machine.sequences = count
    machine.first = first
    machine.unsorted = unsorted
    machine.start = start
    return status


def run(
    data: cython.const[cython.uchar][::1],
    state: cython.ulonglong[::1],
    head: cython.longlong[::1],
    lowest: cython.ulonglong,
    lengths: cython.const[cython.uchar][::1],
    va: cython.ulonglong[::1],
    file: cython.uint[::1],
    line: cython.uint[::1],
    sequences: cython.ulonglong[::1],
    used: cython.uchar[::1],
):
    """Execute the program from state's offset to its end.

    `state`: offset, end, address, op_index, file, line, rows, sequences, first row of the open sequence, its flags.
    `head`: minimum_instruction_length, maximum_operations_per_instruction, line_base, line_range, opcode_base,
    big-endian, bytes of an address. `lowest` is the first vaddr that can be code. `lengths`: operands of standard
    opcodes 1, 2, ... `used` is set to 1 at the numbers of files that rows name. Gives (what it stopped with, offset).
    """
    machine: Machine
    machine.data = cython.address(data[0])
    machine.at = state[0]
    machine.end = state[1]
    machine.address = state[2]
    machine.op_index = state[3]
    machine.current = state[4]
    machine.where = state[5]
    machine.rows = state[6]
    machine.sequences = state[7]
    machine.first = state[8]
    machine.unsorted = state[9]
    machine.step = head[0]
    machine.slots = head[1]
    machine.base = head[2]
    machine.span = head[3]
    machine.special = head[4]
    machine.big = head[5]
    machine.width = head[6]
    machine.lengths = cython.address(lengths[0]) if lengths.shape[0] else cython.NULL
    machine.operands = lengths.shape[0]
    machine.lowest = lowest
    machine.va = cython.address(va[0])
    machine.file = cython.address(file[0])
    machine.line = cython.address(line[0])
    machine.room = va.shape[0]
    machine.sequence = cython.address(sequences[0])
    machine.sequence_room = sequences.shape[0] // 4
    machine.used = cython.address(used[0]) if used.shape[0] else cython.NULL
    machine.known = used.shape[0]
    machine.start = 0
    status: cython.int
    with cython.nogil:
        status = execute(cython.address(machine))
    state[0] = machine.at
    state[2] = machine.address
    state[3] = machine.op_index
    state[4] = machine.current
    state[5] = machine.where
    state[6] = machine.rows
    state[7] = machine.sequences
    state[8] = machine.first
    state[9] = machine.unsorted
    return status, machine.start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def by_end(a: cython.pointer[cython.const[cython.void]], b: cython.pointer[cython.const[cython.void]]) -> cython.int:
    """The order of sequences: by end vaddr, then as they stood in the program."""
    x: cython.pointer[cython.const[cython.ulonglong]] = cython.cast(cython.pointer[cython.const[cython.ulonglong]], a)
    y: cython.pointer[cython.const[cython.ulonglong]] = cython.cast(cython.pointer[cython.const[cython.ulonglong]], b)
    if x[0] != y[0]:
        return -1 if x[0] < y[0] else 1
    return -1 if x[2] < y[2] else 1


def settled(sequences, count, va, file, line, renumbered, known, out_va, out_file, out_line):
    """What `settle` does."""
    n: cython.Py_ssize_t = 0
    s: cython.Py_ssize_t
    i: cython.Py_ssize_t
    first: cython.Py_ssize_t
    last: cython.Py_ssize_t
    high: cython.ulonglong
    covered: cython.ulonglong = 0  # everything below is taken
    here: cython.ulonglong
    name: cython.uint
    where: cython.uint
    ordered: cython.bint = True
    if count == 0:
        return 0
    for s in range(1, count):
        if sequences[4 * s] < sequences[4 * s - 4]:
            ordered = False
            break
    if not ordered:
        qsort(sequences, count, 32, by_end)
    for s in range(count):
        high = sequences[4 * s]
        first = sequences[4 * s + 2]
        last = sequences[4 * s + 3]
        if high <= covered:
            continue
        while first + 1 < last and va[first + 1] <= covered:
            first += 1
        for i in range(first, last):
            here = va[i]
            if here >= high:
                break
            if here < covered:
                here = covered
            name = file[i]
            where = line[i]
            if name < known:
                name = renumbered[name]
            else:
                name = NO_FILE
            if name == NO_FILE:
                where = 0
            if n > 0 and out_va[n - 1] == here:
                n -= 1
            if n > 0 and out_file[n - 1] == name and out_line[n - 1] == where:
                continue
            out_va[n] = here
            out_file[n] = name
            out_line[n] = where
            n += 1
        covered = high
        if n > 0 and out_file[n - 1] != NO_FILE:
            out_va[n] = high
            out_file[n] = NO_FILE
            out_line[n] = 0
            n += 1
    return n


def settle(
    sequences: cython.ulonglong[::1],
    count: cython.Py_ssize_t,
    va: cython.const[cython.ulonglong][::1],
    file: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    renumbered: cython.const[cython.uint][::1],
    out_va: cython.ulonglong[::1],
    out_file: cython.uint[::1],
    out_line: cython.uint[::1],
):
    """Copy the rows of all sequences in ascending order, files renumbered; gives how many.

    Where sequences overlap the one that ends first has the bytes, whoever asks. The stretch after a sequence begins
    with a row of NO_FILE. The out columns have room for all rows and one more for each sequence.
    """
    n: cython.Py_ssize_t = 0
    if count:
        with cython.nogil:
            n = settled(
                cython.address(sequences[0]), count, cython.address(va[0]), cython.address(file[0]),
                cython.address(line[0]), cython.address(renumbered[0]) if renumbered.shape[0] else cython.NULL,
                renumbered.shape[0], cython.address(out_va[0]), cython.address(out_file[0]),
                cython.address(out_line[0]),
            )  # fmt: skip
    return n
