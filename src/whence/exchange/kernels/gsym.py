"""Read and write the function infos of GSYM files.

A function info is a size, a name and items of (type, length, content). Lines are a program of opcodes, like DWARF's;
inlined calls a tree, whose addresses are relative to the first range of the call around them.
"""

import cython
from cython.cimports.cpython.buffer import PyBuffer_FillInfo
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.whence.exchange.kernels.groups import FunctionGroups
from cython.cimports.whence.exchange.kernels.gsym import (
    BYTES_ALLOWANCE,
    INFO_END,
    INFO_INLINED,
    INFO_LINES,
    MAX_DELTA,
    MIN_DELTA,
    MORE_BYTES,
    MOST_DEPTH,
    OP_ADVANCE_LINE,
    OP_ADVANCE_PC,
    OP_END,
    OP_SET_FILE,
    OP_SPECIAL,
)
from cython.cimports.whence.kernels.bytes import number, put_uleb, sleb, u32, uleb
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column, append_u64
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import release, reserve

INFO_MERGED = cython.declare(cython.uint, 3)  # further names of the same code
LAST_VADDR = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
MOST_ROW = cython.declare(cython.Py_ssize_t, 40)  # bytes of a line row as it is written, at most
MOST_CALL = cython.declare(cython.Py_ssize_t, 64)  # bytes of an inlined call
MOST_FUNCTION = cython.declare(cython.Py_ssize_t, 128)  # bytes of the rest of a function


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def line_number(line: cython.ulonglong) -> cython.uint:
    """Return a line; 0 if it is too large."""
    return cython.cast(cython.uint, line) if line <= UINT_MAX else 0


@cython.final
@cython.cclass
class GsymFunctions(FunctionGroups):
    """Reads functions into their columns."""

    def _file(self, file):
        """Return the index of a file; 0 if it is too large."""
        return cython.cast(cython.uint, file) if file < self._source.files else 0

    def _lines(self, start, end, offset, stop):
        """Read the line table in bytes [offset, stop) of a function at [start, end). False if it is malformed."""
        data: cython.p_const_uchar = self._source.data
        least: cython.longlong = cython.cast(cython.longlong, sleb(data, cython.address(offset), stop))
        most: cython.longlong = cython.cast(cython.longlong, sleb(data, cython.address(offset), stop))
        line: cython.ulonglong = uleb(data, cython.address(offset), stop)
        vaddr: cython.ulonglong = start
        file: cython.ulonglong = 1
        if offset > stop or most < least:
            return False
        span: cython.ulonglong = cython.cast(cython.ulonglong, most) - cython.cast(cython.ulonglong, least) + 1
        while offset < stop:
            code: cython.uint = data[offset]
            step: cython.ulonglong = 0
            offset += 1
            if code == OP_END:
                return True
            if code == OP_SET_FILE:
                file = uleb(data, cython.address(offset), stop)
                continue
            if code == OP_ADVANCE_LINE:
                line += sleb(data, cython.address(offset), stop)
                continue
            if code == OP_ADVANCE_PC:
                step = uleb(data, cython.address(offset), stop)
            else:
                if span == 0:
                    return False
                line += cython.cast(cython.ulonglong, least) + (code - OP_SPECIAL) % span
                step = (code - OP_SPECIAL) // span
            if offset > stop:
                return False
            if step >= end - vaddr:
                return True  # rows after the end of the function name no code
            vaddr += step
            if not self.put_row(vaddr, self._file(file), line_number(line)):
                return True
        return False

    def _inlined(self, start, end, offset, stop):
        """Read the tree of inlined calls in bytes [offset, stop). False if it is malformed."""
        data: cython.p_const_uchar = self._source.data
        base: cython.ulonglong[MOST_DEPTH]
        width: cython.ulonglong = self._source.name_width
        depth: cython.Py_ssize_t = 0
        base[0] = start
        while True:
            ranges: cython.ulonglong = uleb(data, cython.address(offset), stop)
            if offset > stop:
                return False
            if ranges == 0:  # the end of the calls of one depth
                depth -= 1
                if depth <= 0:
                    return True
                continue
            first: cython.Py_ssize_t = self.vaddr.vector.count
            around: cython.ulonglong = base[depth]
            low: cython.ulonglong = 0
            index: cython.ulonglong = 0
            while index < ranges:
                vaddr: cython.ulonglong = around + uleb(data, cython.address(offset), stop)
                size: cython.ulonglong = uleb(data, cython.address(offset), stop)
                if offset > stop:
                    return False
                if index == 0:
                    low = vaddr
                if depth and start <= vaddr < end:
                    limit: cython.ulonglong = vaddr + size if size < end - vaddr else end
                    if size and not self.put_scope(vaddr, limit, cython.cast(cython.uint, depth), 0, 0, 0):
                        return True
                index += 1
            if offset >= stop or stop - offset < 1 + width:
                return False
            has_calls: cython.bint = data[offset] != 0
            name: cython.ulonglong = number(data + offset + 1, cython.cast(cython.int, width), self._source.big)
            offset += 1 + width
            file: cython.ulonglong = uleb(data, cython.address(offset), stop)
            line: cython.ulonglong = uleb(data, cython.address(offset), stop)
            if offset > stop:
                return False
            scope: cython.Py_ssize_t
            for scope in range(first, self.vaddr.vector.count):
                cython.cast(cython.p_ulonglong, self.name.vector.items)[scope] = (
                    name if name < self._source.names_size else 0
                )
                cython.cast(cython.p_uint, self.call_file.vector.items)[scope] = self._file(file)
                cython.cast(cython.p_uint, self.call_line.vector.items)[scope] = line_number(line)
            if has_calls:
                depth += 1
                if depth >= MOST_DEPTH:
                    return False
                base[depth] = low
            elif depth == 0:
                return True

    def _function(self, start, next, info):
        """Read the function info at an offset of the file. False if it is malformed: its name may be kept."""
        data: cython.p_const_uchar = self._source.data
        size: cython.ulonglong = self._source.size
        head: cython.ulonglong = 4 + self._source.name_width
        good: cython.bint = True
        if info > size or size - info < head:
            return False
        length: cython.ulonglong = u32(data + info, self._source.big)
        name: cython.ulonglong = number(data + info + 4, self._source.name_width, self._source.big)
        end: cython.ulonglong = start + length
        if length == 0 or end < start:
            end = next if length == 0 and next > start else start + 1 if length == 0 else LAST_VADDR
        if end > next > start:
            end = next  # the next function wins
        if name == 0 or name >= self._source.names_size:
            return False
        if not self.put_scope(start, end, 0, name, 0, 0):
            return True
        offset: cython.ulonglong = info + head
        while True:
            if size - offset < 8:
                return False
            kind: cython.uint = u32(data + offset, self._source.big)
            length = u32(data + offset + 4, self._source.big)
            offset += 8
            if length > size - offset:
                return False
            if kind == INFO_END:
                return good
            if kind == INFO_LINES:
                good = self._lines(start, end, offset, offset + length) and good
            elif kind == INFO_INLINED:
                good = self._inlined(start, end, offset, offset + length) and good
            elif kind == INFO_MERGED:
                self.folded += 1
            offset += length

    def read(self, data: cython.const[cython.uchar][::1], tables, big: cython.bint, files: cython.Py_ssize_t, chosen):
        """Read the functions whose indexes are `chosen`, ascending; None for all.

        `tables` is a GsymTables that was checked against the file's size. Raises MemoryError.
        """
        addresses: cython.Py_ssize_t = tables.addresses[0]
        infos: cython.Py_ssize_t = tables.info_offsets[0]
        origin: cython.ulonglong = tables.infos
        base: cython.ulonglong = tables.base
        count: cython.Py_ssize_t = tables.count
        width: cython.int = tables.width
        info_width: cython.int = tables.info_width
        names: cython.Py_ssize_t = tables.strings[1] - tables.strings[0]
        index: cython.Py_ssize_t
        step: cython.Py_ssize_t
        picked: cython.const[cython.uint][::1] = chosen
        steps: cython.Py_ssize_t = count if chosen is None else picked.shape[0]
        every: cython.bint = chosen is None
        belong(data.shape[0] > 0 and 1 <= width <= 8 and (info_width == 4 or info_width == 8))
        belong(0 <= addresses and count <= (data.shape[0] - addresses) // width)
        belong(0 <= infos and count <= (data.shape[0] - infos) // info_width)
        belong(count <= UINT_MAX and names >= 0 and files >= 0)
        self._source.data = cython.address(data[0])
        self._source.size = data.shape[0]
        self._source.big = big
        self._source.name_width = tables.name_width
        self._source.names_size = names
        self._source.files = files
        belong(self._source.name_width == 4 or self._source.name_width == 8)
        p: cython.p_const_uchar = cython.address(data[0])
        work: cython.Py_ssize_t = 0
        left: cython.longlong = MORE_BYTES * cython.cast(cython.longlong, data.shape[0]) + BYTES_ALLOWANCE
        previous: cython.ulonglong = 0
        with cython.nogil:
            for step in range(steps):
                index = step if every else picked[step]
                if index >= count:
                    break
                start: cython.ulonglong = base + number(p + addresses + index * width, width, big)
                following: cython.ulonglong = LAST_VADDR
                if index + 1 < count:
                    following = base + number(p + addresses + (index + 1) * width, width, big)
                info: cython.ulonglong = origin + number(p + infos + index * info_width, info_width, big)
                rows: cython.Py_ssize_t = self.row_vaddr.vector.count
                scopes: cython.Py_ssize_t = self.vaddr.vector.count
                good: cython.bint = start >= previous and left > 0
                if step and start == previous and good:
                    continue  # the first of several functions at an address
                if good:
                    good = self._function(start, following, info)
                    previous = start
                rows = self.row_vaddr.vector.count - rows
                scopes = self.vaddr.vector.count - scopes
                left -= 2 * rows + 8 * scopes + 8
                handle_signals(cython.address(work), 8 * (rows + scopes) + 8)
                if not good:
                    self.note_damage(cython.cast(cython.Py_ssize_t, min(info, self._source.size)))
                self.end_group()
                if self._failed:
                    break
        if self._failed:
            raise MemoryError


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_u32(out: cython.p_uchar, value: cython.uint) -> cython.p_uchar:
    """Write a little-endian number. Return the end."""
    out[0] = cython.cast(cython.uchar, value)
    out[1] = cython.cast(cython.uchar, value >> 8)
    out[2] = cython.cast(cython.uchar, value >> 16)
    out[3] = cython.cast(cython.uchar, value >> 24)
    return out + 4


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_sleb(out: cython.p_uchar, value: cython.longlong) -> cython.p_uchar:
    """Write an SLEB128 number. Return the end."""
    while not -64 <= value < 64:
        out[0] = cython.cast(cython.uchar, (value & 0x7F) | 0x80)
        value >>= 7
        out += 1
    out[0] = cython.cast(cython.uchar, value & 0x7F)
    return out + 1


@cython.final
@cython.cclass
class GsymEncoder:
    """Writes function infos; a buffer of their bytes."""

    def __cinit__(self):
        self.offset = Column("Q", True)

    def __dealloc__(self):
        release(cython.address(self._out))

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self._out.items, self._out.count, True, flags)

    def _reserve(self, more):
        return reserve(cython.address(self._out), more, 1)

    def run(self, flat, names, files, call_files):
        """Write the functions of a FlatTable. Raises MemoryError.

        Args:
            flat: the table.
            names: the offset of each scope's name in the strings.
            files: the number of each of the rows' files.
            call_files: the number of the file that each scope is called in.
        """
        file_number: cython.const[cython.uint][::1] = files
        vaddr: cython.const[cython.ulonglong][::1] = flat.scopes.vaddr
        end: cython.const[cython.ulonglong][::1] = flat.scopes.end
        depth: cython.const[cython.uint][::1] = flat.scopes.depth
        call_line: cython.const[cython.uint][::1] = flat.scopes.call_line
        name: cython.const[cython.ulonglong][::1] = names
        call_file: cython.const[cython.uint][::1] = call_files
        row_vaddr: cython.const[cython.ulonglong][::1] = flat.rows.vaddr
        row_file: cython.const[cython.uint][::1] = flat.rows.file
        row_line: cython.const[cython.uint][::1] = flat.rows.line
        scope_ends: cython.const[cython.uint][::1] = flat.scope_ends
        row_ends: cython.const[cython.uint][::1] = flat.row_ends
        scopes: cython.Py_ssize_t = vaddr.shape[0]
        group: cython.Py_ssize_t
        scope: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t = 0
        ok: cython.bint = True
        belong(min(end.shape[0], depth.shape[0], call_line.shape[0], name.shape[0], call_file.shape[0]) >= scopes)
        belong(min(row_file.shape[0], row_line.shape[0]) >= row_vaddr.shape[0])
        belong(all_below(row_file, row_vaddr.shape[0], file_number.shape[0]))
        belong(row_ends.shape[0] >= scope_ends.shape[0] and are_ends(scope_ends, scopes))
        belong(are_ends(row_ends, row_vaddr.shape[0]))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for group in range(scope_ends.shape[0]):
                last_scope: cython.Py_ssize_t = scope_ends[group]
                last_row: cython.Py_ssize_t = row_ends[group]
                size: cython.Py_ssize_t = MOST_FUNCTION + (last_row - row) * MOST_ROW
                size += (last_scope - scope) * MOST_CALL
                handle_signals(cython.address(work), size >> 3)
                ok = last_scope > scope and self._reserve(size) and self.offset.reserve(1)
                if not ok:
                    break
                while self._out.count % 4:
                    self._out.items[self._out.count] = 0
                    self._out.count += 1
                append_u64(self.offset, self._out.count)
                start: cython.ulonglong = vaddr[scope]
                length: cython.ulonglong = end[scope] - start
                out: cython.p_uchar = self._out.items + self._out.count
                out = put_u32(out, cython.cast(cython.uint, min(length, cython.cast(cython.ulonglong, UINT_MAX))))
                out = put_u32(out, cython.cast(cython.uint, name[scope]))
                while row < last_row and file_number[row_file[row]] == 0 and row_line[row] == 0:
                    row += 1  # no row says that the line is unknown
                if row < last_row:
                    head: cython.p_uchar = put_u32(out, INFO_LINES)
                    out = put_sleb(head + 4, MIN_DELTA)
                    out = put_sleb(out, MAX_DELTA)
                    line: cython.longlong = row_line[row]
                    file: cython.uint = 1
                    position: cython.ulonglong = start
                    out = put_uleb(out, cython.cast(cython.ulonglong, line))
                    while row < last_row:
                        if file_number[row_file[row]] != file:
                            file = file_number[row_file[row]]
                            out[0] = OP_SET_FILE
                            out = put_uleb(out + 1, file)
                        delta: cython.longlong = cython.cast(cython.longlong, row_line[row]) - line
                        step: cython.ulonglong = row_vaddr[row] - position
                        line = row_line[row]
                        position = row_vaddr[row]
                        special: cython.ulonglong = OP_SPECIAL + step * (MAX_DELTA - MIN_DELTA + 1)
                        if MIN_DELTA <= delta <= MAX_DELTA and step < 32:
                            special += cython.cast(cython.ulonglong, delta - MIN_DELTA)
                        else:
                            special = 256
                        if special < 256:
                            out[0] = cython.cast(cython.uchar, special)
                            out += 1
                        else:
                            if delta:
                                out[0] = OP_ADVANCE_LINE
                                out = put_sleb(out + 1, delta)
                            out[0] = OP_ADVANCE_PC
                            out = put_uleb(out + 1, step)
                        row += 1
                    out[0] = OP_END
                    out += 1
                    put_u32(head, cython.cast(cython.uint, out - head - 4))
                if last_scope > scope + 1:
                    head = put_u32(out, INFO_INLINED)
                    out = head + 4
                    around: cython.ulonglong[MOST_DEPTH]
                    level: cython.uint = 0
                    around[0] = start
                    first: cython.Py_ssize_t = scope
                    while scope < last_scope:
                        below: cython.uint = depth[scope]
                        while level > below:
                            out[0] = 0
                            out += 1
                            level -= 1
                        level = min(below, cython.cast(cython.uint, MOST_DEPTH - 1))
                        calls: cython.bint = scope + 1 < last_scope and depth[scope + 1] > below
                        out[0] = 1
                        out = put_uleb(out + 1, vaddr[scope] - around[level])
                        out = put_uleb(out, end[scope] - vaddr[scope])
                        out[0] = calls
                        out = put_u32(out + 1, cython.cast(cython.uint, name[scope]))
                        out = put_uleb(out, call_file[scope] if scope > first else 0)
                        out = put_uleb(out, call_line[scope] if scope > first else 0)
                        if level + 1 < MOST_DEPTH:
                            around[level + 1] = vaddr[scope]
                        scope += 1
                    while level:
                        out[0] = 0
                        out += 1
                        level -= 1
                    put_u32(head, cython.cast(cython.uint, out - head - 4))
                out = put_u32(put_u32(out, INFO_END), 0)
                self._out.count = out - self._out.items
                scope = last_scope
        if not ok:
            raise MemoryError
