"""Functions into ranges: pc-value tables stepped once each, side by side, and the inline tree climbed at each change.

The tables of inline index, file and line are unpacked into runs (pcvalue_kernel) and merged; at each boundary the chain
of inlined calls is compared with the one before, ranges that ended are closed and new ones opened, so that ranges come
out in (va, depth) order. A range's rows need not lie together in pc order
(inlined calls come between), so a function's rows are gathered and dealt out to its ranges at its end.

Faults stay with their function: a damaged inline tree leaves it without inlined calls, a damaged line table without
lines. Both are counted.
"""

import cython
from cython.cimports.whence.gopclntab.kernels.pcvalue import climb, file_name, unpack, value_at
from cython.cimports.whence.kernels.bytes import u32

NO_TREE = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
MAX_DEPTH = cython.declare(cython.int, 256)  # the caller's stack columns have one more
DONE = cython.declare(cython.int, 0)
FULL = cython.declare(cython.int, 1)  # the columns are full: to be called again with more room, from state[0] on


def lay(
    pctab_bytes: cython.const[cython.uchar][::1],
    tree_bytes: cython.const[cython.uchar][::1],
    file_bytes: cython.const[cython.uchar][::1],
    big: cython.bint,
    quantum: cython.uint,
    lines: cython.bint,
    files: cython.bint,
    inlines: cython.bint,
    names_size: cython.ulonglong,
    names_base: cython.ulonglong,
    texts_size: cython.ulonglong,
    texts_base: cython.ulonglong,
    lowest_file: cython.int,
    node_size: cython.int,
    node_name: cython.int,
    parent_width: cython.int,
    parent_pc_at: cython.int,
    node_start: cython.int,
    entry: cython.ulonglong[::1],
    end: cython.ulonglong[::1],
    name: cython.uint[::1],
    pcsp: cython.uint[::1],
    pcfile: cython.uint[::1],
    pcln: cython.uint[::1],
    cu: cython.uint[::1],
    pcinl: cython.uint[::1],
    starts_on: cython.uint[::1],
    tree: cython.ulonglong[::1],
    tree_base: cython.ulonglong,
    run_starts: cython.uint[::1],
    run_values: cython.int[::1],
    rows: cython.uint[::1],
    stack: cython.int[::1],
    state: cython.ulonglong[::1],
    va: cython.ulonglong[::1],
    length: cython.ulonglong[::1],
    depth: cython.uint[::1],
    function: cython.ulonglong[::1],
    file: cython.ulonglong[::1],
    line_index: cython.uint[::1],
    line_count: cython.uint[::1],
    call_file: cython.ulonglong[::1],
    call_line: cython.uint[::1],
    line_offset: cython.uint[::1],
    line_number: cython.uint[::1],
    start_line: cython.uint[::1],
) -> int:
    """Lay functions state[0].. into ranges; gives DONE or FULL.

    `state`: [next function, ranges, rows, functions whose lines are damaged, functions whose inlined calls are, hops
    left]; a hop is a step up an inline tree. `start_line` is told for the first range of a function or call. Scratch:
    three tables of runs in `run_starts` and `run_values`, each a third, one entry longer than it has runs; `rows`,
    thirds as well (range, offset, line); `stack`, of 5 * (MAX_DEPTH + 1).
    """
    functions: cython.Py_ssize_t = entry.shape[0]
    third: cython.Py_ssize_t = run_starts.shape[0] // 3
    room: cython.Py_ssize_t = third - 1
    row_room: cython.Py_ssize_t = rows.shape[0] // 3
    range_room: cython.Py_ssize_t = va.shape[0]
    line_room: cython.Py_ssize_t = line_offset.shape[0]
    pctab: cython.p_const_uchar = cython.address(pctab_bytes[0])
    pctab_size: cython.Py_ssize_t = pctab_bytes.shape[0]
    trees: cython.p_const_uchar = cython.address(tree_bytes[0])
    trees_size: cython.ulonglong = tree_bytes.shape[0]
    file_table: cython.p_const_uchar = cython.address(file_bytes[0])
    file_count: cython.ulonglong = file_bytes.shape[0] // 4
    inl_starts: cython.p_uint = cython.address(run_starts[0])
    file_starts: cython.p_uint = inl_starts + third
    line_starts: cython.p_uint = file_starts + third
    inl_values: cython.p_int = cython.address(run_values[0])
    file_values: cython.p_int = inl_values + third
    line_values: cython.p_int = file_values + third
    row_range: cython.p_uint = cython.address(rows[0])
    row_offset: cython.p_uint = row_range + row_room
    row_line: cython.p_uint = row_offset + row_room
    chain: cython.p_int = cython.address(stack[0])  # nodes to be opened, innermost first, as climbed
    nodes: cython.p_int = chain + MAX_DEPTH + 1  # by depth: the node that is open there
    opened: cython.p_int = nodes + MAX_DEPTH + 1  # by depth: its range, counted from the function's first
    filed: cython.p_int = opened + MAX_DEPTH + 1  # by depth: whether the range has its file
    lined: cython.p_int = filed + MAX_DEPTH + 1  # by depth: the last line given to it, -1 before the first

    f: cython.Py_ssize_t
    i: cython.Py_ssize_t
    inl_count: cython.Py_ssize_t
    files_count: cython.Py_ssize_t
    lines_count: cython.Py_ssize_t
    inl_at: cython.Py_ssize_t
    file_at: cython.Py_ssize_t
    line_at: cython.Py_ssize_t
    base: cython.Py_ssize_t
    count: cython.Py_ssize_t
    top: cython.Py_ssize_t
    row_count: cython.Py_ssize_t
    line_base: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, state[2])
    span: cython.ulonglong
    stop: cython.uint
    pc: cython.uint
    until: cython.uint
    inl: cython.int
    current: cython.int
    number: cython.int
    last_number: cython.int
    line: cython.int
    level: cython.int
    kept: cython.int
    found: cython.int
    reference: cython.ulonglong
    node_count: cython.ulonglong
    node: cython.p_const_uchar = trees
    own_tree: cython.p_const_uchar = trees
    parent_pc: cython.uint
    found_line: cython.int
    name_offset: cython.uint
    with_inlines: cython.bint
    broken: cython.bint
    full: cython.bint = False

    with cython.nogil:
        base = cython.cast(cython.Py_ssize_t, state[1])
        f = cython.cast(cython.Py_ssize_t, state[0])
        while f < functions and not full:
            span = end[f] - entry[f]
            if name[f] >= names_size or span == 0:
                f += 1
                continue

            # runs of the three tables, and where the function's code ends: before the padding behind it
            inl_count = 0
            files_count = 0
            lines_count = 0
            stop = 0
            file_starts[0] = 0
            line_starts[0] = 0
            if files:
                files_count = unpack(pctab, pctab_size, pcfile[f], quantum, span, file_starts, file_values, room)
            if lines:
                lines_count = unpack(pctab, pctab_size, pcln[f], quantum, span, line_starts, line_values, room)
            if files_count < 0 or lines_count < 0:
                state[3] += 1
                files_count = 0
                lines_count = 0
                file_starts[0] = 0
                line_starts[0] = 0
            if files_count > 0:
                stop = file_starts[files_count]
            if lines_count > 0 and line_starts[lines_count] > stop:
                stop = line_starts[lines_count]
            if stop == 0:
                inl_count = unpack(pctab, pctab_size, pcsp[f], quantum, span, inl_starts, inl_values, room)
                stop = inl_starts[inl_count] if inl_count > 0 else cython.cast(cython.uint, span)
                inl_count = 0
            with_inlines = inlines and tree[f] != NO_TREE and tree[f] - tree_base < trees_size
            node_count = 0
            if with_inlines:
                own_tree = trees + (tree[f] - tree_base)
                node_count = (trees_size - (tree[f] - tree_base)) // node_size
                inl_count = unpack(pctab, pctab_size, pcinl[f], quantum, span, inl_starts, inl_values, room)
                if inl_count < 0:
                    state[4] += 1
                    inl_count = 0
            elif inlines and tree[f] != NO_TREE:
                state[4] += 1

            while True:  # once; twice when the inline tree turns out to be damaged
                count = 0
                row_count = 0
                broken = False
                inl_at = 0
                file_at = 0
                line_at = 0
                current = -1
                last_number = -1
                reference = 0
                level = 0
                if base >= range_room:
                    full = True
                    break
                va[base] = entry[f]
                depth[base] = 0
                function[base] = names_base | name[f]
                file[base] = 0
                line_count[base] = 0
                call_file[base] = 0
                call_line[base] = 0
                start_line[base] = starts_on[f]
                opened[0] = 0
                filed[0] = 0
                lined[0] = -1
                count = 1
                pc = 0
                while pc < stop:
                    until = stop
                    inl = -1
                    number = -1
                    line = -1
                    if inl_at < inl_count:
                        inl = inl_values[inl_at]
                        if inl_starts[inl_at + 1] < until:
                            until = inl_starts[inl_at + 1]
                    if file_at < files_count:
                        number = file_values[file_at]
                        if file_starts[file_at + 1] < until:
                            until = file_starts[file_at + 1]
                    if line_at < lines_count:
                        line = line_values[line_at]
                        if line_starts[line_at + 1] < until:
                            until = line_starts[line_at + 1]

                    if inl != current:
                        current = inl
                        kept = level
                        found = climb(
                            own_tree,
                            node_count,
                            node_size,
                            parent_width,
                            parent_pc_at,
                            big,
                            inl_starts,
                            inl_values,
                            inl_count,
                            inl,
                            nodes,
                            cython.address(kept),
                            chain,
                        )
                        if found < 0 or cython.cast(cython.ulonglong, found) > state[5]:
                            broken = True
                            break
                        state[5] -= found
                        while level > kept:
                            top = base + opened[level]
                            length[top] = entry[f] + pc - va[top]
                            level -= 1
                        while level < kept + found:
                            if base + count >= range_room:
                                full = True
                                break
                            level += 1
                            nodes[level] = chain[kept + found - level]
                            node = own_tree + cython.cast(cython.Py_ssize_t, nodes[level]) * node_size
                            name_offset = u32(node + node_name, big)
                            if name_offset >= names_size:
                                broken = True
                                break
                            top = base + count
                            opened[level] = cython.cast(cython.int, count)
                            filed[level] = 0
                            lined[level] = -1
                            count += 1
                            va[top] = entry[f] + pc
                            depth[top] = level
                            function[top] = names_base | name_offset
                            file[top] = 0
                            line_count[top] = 0
                            start_line[top] = u32(node + node_start, big) if node_start >= 0 else 0
                            if parent_width == 0:
                                parent_pc = u32(node + parent_pc_at, big)
                                number = value_at(file_starts, file_values, files_count, parent_pc) if files else -1
                                found_line = value_at(line_starts, line_values, lines_count, parent_pc) if lines else -1
                            else:
                                number = cython.cast(cython.int, u32(node + 4, big)) if files else -1
                                found_line = cython.cast(cython.int, u32(node + 8, big)) if lines else -1
                            call_file[top] = file_name(
                                file_table, file_count, lowest_file, texts_size, texts_base, cu[f], number, big
                            )
                            call_line[top] = cython.cast(cython.uint, found_line) if found_line > 0 else 0
                        if full or broken:
                            break
                        number = file_values[file_at] if file_at < files_count else -1

                    # the innermost range takes the file and the line
                    top = base + opened[level]
                    if files and lines and (number < 0 or line < 0):
                        number = -1
                        line = -1
                    if files:
                        if number != last_number:
                            last_number = number
                            reference = file_name(
                                file_table, file_count, lowest_file, texts_size, texts_base, cu[f], number, big
                            )
                        if not filed[level]:
                            file[top] = reference
                            filed[level] = 1
                        elif file[top] != reference:
                            if base + count >= range_room:
                                full = True
                                break
                            length[top] = entry[f] + pc - va[top]
                            i = base + count
                            va[i] = entry[f] + pc
                            depth[i] = level
                            function[i] = function[top]
                            file[i] = reference
                            line_count[i] = 0
                            call_file[i] = call_file[top]
                            call_line[i] = call_line[top]
                            start_line[i] = 0
                            opened[level] = cython.cast(cython.int, count)
                            lined[level] = -1
                            count += 1
                            top = i
                    if lines:
                        if line < 0:
                            line = 0
                        if line != lined[level]:
                            if row_count >= row_room:
                                broken = True
                                break
                            lined[level] = line
                            row_range[row_count] = cython.cast(cython.uint, top - base)
                            row_offset[row_count] = cython.cast(cython.uint, entry[f] + pc - va[top])
                            row_line[row_count] = line
                            row_count += 1
                            line_count[top] += 1

                    pc = until
                    if inl_at < inl_count and inl_starts[inl_at + 1] == pc:
                        inl_at += 1
                    if file_at < files_count and file_starts[file_at + 1] == pc:
                        file_at += 1
                    if line_at < lines_count and line_starts[line_at + 1] == pc:
                        line_at += 1
                if not broken or inl_count == 0:
                    break
                state[4] += 1
                inl_count = 0
            if full:
                break
            while level >= 0:
                top = base + opened[level]
                length[top] = entry[f] + stop - va[top]
                level -= 1

            # deal the rows out: each range's lie together, in order of offset
            if line_base + row_count > line_room:
                full = True
                break
            for i in range(base, base + count):
                line_index[i] = cython.cast(cython.uint, line_base) if line_count[i] else 0
                line_base += line_count[i]
                line_count[i] = 0
            for i in range(row_count):
                top = base + row_range[i]
                line_at = cython.cast(cython.Py_ssize_t, line_index[top]) + line_count[top]
                line_offset[line_at] = row_offset[i]
                line_number[line_at] = row_line[i]
                line_count[top] += 1
            base += count
            f += 1
            state[0] = f
            state[1] = base
            state[2] = line_base
        if not full:
            state[0] = f
    return FULL if full else DONE
