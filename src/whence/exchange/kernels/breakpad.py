"""Read and write the records of Breakpad symbol files: functions, inlined calls, line rows and public symbols.

Numbers are hexadecimal, except lines, numbers of files and origins, and depths of calls. A name is the rest of its
line. The reader works on a copy of the file, in which it ends each name by a NUL.
"""

import cython
from cython.cimports.cpython.buffer import PyBuffer_FillInfo
from cython.cimports.libc.limits import UINT_MAX
from cython.cimports.libc.string import memchr, memcmp, memcpy
from cython.cimports.whence.exchange.kernels.breakpad import MOST_NESTING
from cython.cimports.whence.exchange.kernels.groups import FunctionGroups
from cython.cimports.whence.kernels.bytes import hex_digit, is_digit
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column, append_u64
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.kernels.vector import release, reserve

NO_NUMBER = 0xFFFFFFFF  # of a file: none
NONE = cython.declare(cython.uint, NO_NUMBER)
LAST_VADDR = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
LONGEST_LINE = cython.declare(cython.Py_ssize_t, 1 << 16)
MOST_NUMBERS = cython.declare(cython.Py_ssize_t, 128)  # bytes of the numbers of a record, at most
SPACE = cython.declare(cython.uchar, 32)
NEWLINE = cython.declare(cython.uchar, 10)
RETURN = cython.declare(cython.uchar, 13)


@cython.final
@cython.cclass
class BreakpadRecords(FunctionGroups):
    """Reads records into the columns of functions, and of files and symbols."""

    def __cinit__(self):
        self.file_number, self.file_name = Column("Q"), Column("Q")
        self.origin_number, self.origin_name = Column("Q"), Column("Q")
        self.public_vaddr, self.public_name = Column("Q"), Column("Q")

    def _word(self, word, size):
        """Move past a word, if the line has it here."""
        end: cython.Py_ssize_t = self._position + size
        if end > self._end or memcmp(self._data + self._position, word, size) != 0:
            return False
        if end < self._end and self._data[end] != SPACE:
            return False
        self._position = end
        while self._position < self._end and self._data[self._position] == SPACE:
            self._position += 1
        return True

    def _hex(self, value):
        """Read a hexadecimal number of at most 64 bits, and the spaces after it."""
        number: cython.ulonglong = 0
        start: cython.Py_ssize_t = self._position
        while self._position < self._end:
            digit: cython.int = hex_digit(self._data[self._position])
            if digit < 0:
                break
            if number >> 60:
                return False
            number = number << 4 | cython.cast(cython.ulonglong, digit)
            self._position += 1
        if self._position == start or (self._position < self._end and self._data[self._position] != SPACE):
            return False
        while self._position < self._end and self._data[self._position] == SPACE:
            self._position += 1
        value[0] = number
        return True

    def _decimal(self, value):
        """Read a decimal number of at most 32 bits, and the spaces after it."""
        number: cython.ulonglong = 0
        start: cython.Py_ssize_t = self._position
        while self._position < self._end and is_digit(self._data[self._position]):
            number = 10 * number + (self._data[self._position] - 48)
            if number > UINT_MAX:
                return False
            self._position += 1
        if self._position == start or (self._position < self._end and self._data[self._position] != SPACE):
            return False
        while self._position < self._end and self._data[self._position] == SPACE:
            self._position += 1
        value[0] = number
        return True

    def _text(self):
        """End the rest of the line by a NUL; return its offset."""
        self._data[self._end] = 0
        return self._position

    def _end_function(self):
        if not self._has_function:
            return
        if self._has_rows and self._row_end < self._function_end and not self.put_row(self._row_end, NONE, 0):
            return
        self.end_group()
        self._has_function = False

    def _func(self):
        """Read FUNC [m] address size parameter-size name."""
        vaddr: cython.ulonglong = 0
        size: cython.ulonglong = 0
        parameters: cython.ulonglong = 0
        self._end_function()
        self._word(b"m", 1)
        if not (
            self._hex(cython.address(vaddr))
            and self._hex(cython.address(size))
            and self._hex(cython.address(parameters))
            and self._position < self._end
        ):
            return False
        end: cython.ulonglong = vaddr + size if size <= LAST_VADDR - vaddr else LAST_VADDR
        if vaddr == end:
            return True  # no code
        self._function = vaddr
        self._function_end = end
        self._has_function = True
        self._has_rows = False
        self._level = 0
        return self.put_scope(vaddr, end, 0, self._text(), NONE, 0)

    def _inline(self):
        """Read INLINE depth call-line call-file origin, and pairs of address and size."""
        level: cython.ulonglong = 0
        line: cython.ulonglong = 0
        file: cython.ulonglong = 0
        origin: cython.ulonglong = 0
        vaddr: cython.ulonglong = 0
        size: cython.ulonglong = 0
        ranges: cython.int = 0
        if not (
            self._has_function
            and self._decimal(cython.address(level))
            and self._decimal(cython.address(line))
            and self._decimal(cython.address(file))
            and self._decimal(cython.address(origin))
            and level <= self._level
            and level < MOST_NESTING
        ):
            return False
        while self._position < self._end:
            if not (self._hex(cython.address(vaddr)) and self._hex(cython.address(size))):
                return False
            if self._function <= vaddr < self._function_end and size:
                end: cython.ulonglong = self._function_end
                if size < end - vaddr:
                    end = vaddr + size
                if not self.put_scope(
                    vaddr,
                    end,
                    cython.cast(cython.uint, level) + 1,
                    origin,
                    cython.cast(cython.uint, file),
                    cython.cast(cython.uint, line),
                ):
                    return False
                ranges += 1
        if ranges:
            self._level = cython.cast(cython.uint, level) + 1
        return ranges > 0

    def _row(self):
        """Read address size line file."""
        vaddr: cython.ulonglong = 0
        size: cython.ulonglong = 0
        line: cython.ulonglong = 0
        file: cython.ulonglong = 0
        if not (
            self._has_function
            and self._hex(cython.address(vaddr))
            and self._hex(cython.address(size))
            and self._decimal(cython.address(line))
            and self._decimal(cython.address(file))
            and self._position == self._end
        ):
            return False
        if not self._function <= vaddr < self._function_end or (self._has_rows and vaddr < self._row_end):
            return False
        if size == 0:
            return True
        if self._has_rows and vaddr > self._row_end and not self.put_row(self._row_end, NONE, 0):
            return False
        self._has_rows = True
        self._row_end = vaddr + size if size < self._function_end - vaddr else self._function_end
        return self.put_row(vaddr, cython.cast(cython.uint, file), cython.cast(cython.uint, line))

    def _public(self):
        """Read PUBLIC [m] address parameter-size name."""
        vaddr: cython.ulonglong = 0
        parameters: cython.ulonglong = 0
        self._word(b"m", 1)
        if not (
            self._hex(cython.address(vaddr)) and self._hex(cython.address(parameters)) and self._position < self._end
        ):
            return False
        if not (self.public_vaddr.reserve(1) and self.public_name.reserve(1)):
            self._failed = True
            return False
        append_u64(self.public_vaddr, vaddr)
        append_u64(self.public_name, self._text())
        return True

    def _numbered(self, numbers, names):
        """Read number and name, of FILE or INLINE_ORIGIN."""
        number: cython.ulonglong = 0
        if not self._decimal(cython.address(number)) or self._position == self._end:
            return False
        if not (numbers.reserve(1) and names.reserve(1)):
            self._failed = True
            return False
        append_u64(numbers, number)
        append_u64(names, self._text())
        return True

    def _record(self):
        """Read the record of a line. False if it is malformed."""
        first: cython.uchar = self._data[self._position]
        if first == ord("F"):
            if self._word(b"FUNC", 4):
                return self._func()
            if self._word(b"FILE", 4):
                return self._numbered(self.file_number, self.file_name)
        elif first == ord("I"):
            if self._word(b"INLINE", 6):
                return self._inline()
            if self._word(b"INLINE_ORIGIN", 13):
                return self._numbered(self.origin_number, self.origin_name)
            if self._word(b"INFO", 4):
                return True
        elif first == ord("P") and self._word(b"PUBLIC", 6):
            self._end_function()
            return self._public()
        elif first == ord("S") and self._word(b"STACK", 5):
            self._end_function()
            return True
        elif first == ord("M") and self._word(b"MODULE", 6):
            return True
        return self._row()

    def read(self, data: cython.uchar[::1]):
        """Read all records of a file, and write NULs into it. Its last byte is a newline. Raises MemoryError."""
        size: cython.Py_ssize_t = data.shape[0]
        belong(size > 0 and data[size - 1] == NEWLINE and size < UINT_MAX * cython.cast(cython.longlong, 16))
        self._data = cython.address(data[0])
        self._size = size
        start: cython.Py_ssize_t = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            while start < size and not self._failed:
                newline: cython.p_uchar = cython.cast(cython.p_uchar, memchr(self._data + start, NEWLINE, size - start))
                following: cython.Py_ssize_t = newline - self._data + 1
                handle_signals(cython.address(work), following - start)
                self._position = start
                self._end = following - 1
                while self._end > start and (self._data[self._end - 1] == RETURN or self._data[self._end - 1] == SPACE):
                    self._end -= 1
                if self._end > start and (self._end - start > LONGEST_LINE or not self._record()):
                    self.note_damage(start)
                start = following
            self._end_function()
        if self._failed:
            raise MemoryError


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_hex(out: cython.p_uchar, value: cython.ulonglong) -> cython.p_uchar:
    """Write a number in lowercase hex. Return the end."""
    size: cython.int = 1
    index: cython.int
    while size < 16 and value >> (4 * size):
        size += 1
    for index in range(size):
        out[index] = cython.cast(cython.p_uchar, b"0123456789abcdef")[value >> (4 * (size - 1 - index)) & 15]
    return out + size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_decimal(out: cython.p_uchar, value: cython.uint) -> cython.p_uchar:
    """Write a number in decimal digits. Return the end."""
    digits: cython.uchar[10]
    size: cython.int = 0
    while True:
        digits[size] = cython.cast(cython.uchar, 48 + value % 10)
        size += 1
        value //= 10
        if value == 0:
            break
    while size:
        size -= 1
        out[0] = digits[size]
        out += 1
    return out


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def put_bytes(out: cython.p_uchar, data: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.p_uchar:
    memcpy(out, data, size)
    return out + size


@cython.final
@cython.cclass
class BreakpadText:
    """Writes functions as records; a buffer of their text."""

    def __dealloc__(self):
        release(cython.address(self._out))

    def __getbuffer__(self, buffer: cython.pointer(Py_buffer), flags: cython.int):
        PyBuffer_FillInfo(buffer, self, self._out.items, self._out.count, True, flags)

    def _reserve(self, more):
        return reserve(cython.address(self._out), more, 1)

    def run(self, flat, names, base: cython.ulonglong):
        """Write the functions of a FlatTable that are not public symbols. Raises MemoryError.

        Args:
            flat: the table.
            names: a breakpad.Names: texts of functions, numbers of origins and files.
            base: what addresses are relative to.
        """
        vaddr: cython.const[cython.ulonglong][::1] = flat.scopes.vaddr
        end: cython.const[cython.ulonglong][::1] = flat.scopes.end
        depth: cython.const[cython.uint][::1] = flat.scopes.depth
        call_line: cython.const[cython.uint][::1] = flat.scopes.call_line
        row_vaddr: cython.const[cython.ulonglong][::1] = flat.rows.vaddr
        row_file: cython.const[cython.uint][::1] = flat.rows.file
        row_line: cython.const[cython.uint][::1] = flat.rows.line
        scope_ends: cython.const[cython.uint][::1] = flat.scope_ends
        row_ends: cython.const[cython.uint][::1] = flat.row_ends
        text: cython.const[cython.uchar][::1] = names.text
        name_start: cython.const[cython.ulonglong][::1] = names.start
        origin: cython.const[cython.uint][::1] = names.origin
        call_file: cython.const[cython.uint][::1] = names.call_file
        file_number: cython.const[cython.uint][::1] = names.file
        is_public: cython.const[cython.uchar][::1] = names.is_public
        scopes: cython.Py_ssize_t = vaddr.shape[0]
        group: cython.Py_ssize_t
        scope: cython.Py_ssize_t = 0
        row: cython.Py_ssize_t = 0
        ok: cython.bint = True
        belong(min(end.shape[0], depth.shape[0], call_line.shape[0], name_start.shape[0]) >= scopes)
        belong(min(origin.shape[0], call_file.shape[0]) >= scopes and is_public.shape[0] >= scope_ends.shape[0])
        belong(min(row_file.shape[0], row_line.shape[0]) >= row_vaddr.shape[0])
        belong(all_below(row_file, row_vaddr.shape[0], file_number.shape[0]))
        belong(row_ends.shape[0] >= scope_ends.shape[0] and are_ends(scope_ends, scopes))
        belong(are_ends(row_ends, row_vaddr.shape[0]))
        for scope in range(scopes):
            belong(name_start[scope] < cython.cast(cython.ulonglong, text.shape[0]))
        belong(text.shape[0] > 0 and text[text.shape[0] - 1] == 0)
        scope = 0
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for group in range(scope_ends.shape[0]):
                last_scope: cython.Py_ssize_t = scope_ends[group]
                last_row: cython.Py_ssize_t = row_ends[group]
                if is_public[group] or last_scope == scope:
                    scope = last_scope
                    row = last_row
                    continue
                name: cython.p_const_uchar = cython.address(text[name_start[scope]])
                size: cython.Py_ssize_t = (
                    cython.cast(cython.p_uchar, memchr(name, 0, text.shape[0] - name_start[scope])) - name
                )
                records: cython.Py_ssize_t = last_scope - scope + last_row - row + 1
                handle_signals(cython.address(work), records * 16)
                ok = self._reserve(records * MOST_NUMBERS + size)
                if not ok:
                    break
                function_end: cython.ulonglong = end[scope]
                out: cython.p_uchar = self._out.items + self._out.count
                out = put_bytes(out, cython.cast(cython.p_const_uchar, b"FUNC "), 5)
                out = put_hex(out, vaddr[scope] - base)
                out[0] = SPACE
                out = put_hex(out + 1, function_end - vaddr[scope])
                out = put_bytes(out, cython.cast(cython.p_const_uchar, b" 0 "), 3)
                out = put_bytes(out, name, size)
                out[0] = NEWLINE
                out += 1
                scope += 1
                while scope < last_scope:
                    out = put_bytes(out, cython.cast(cython.p_const_uchar, b"INLINE "), 7)
                    out = put_decimal(out, depth[scope] - 1)
                    out[0] = SPACE
                    out = put_decimal(out + 1, call_line[scope])
                    out[0] = SPACE
                    out = put_decimal(out + 1, call_file[scope])
                    out[0] = SPACE
                    out = put_decimal(out + 1, origin[scope])
                    out[0] = SPACE
                    out = put_hex(out + 1, vaddr[scope] - base)
                    out[0] = SPACE
                    out = put_hex(out + 1, end[scope] - vaddr[scope])
                    out[0] = NEWLINE
                    out += 1
                    scope += 1
                while row < last_row:
                    row_end: cython.ulonglong = row_vaddr[row + 1] if row + 1 < last_row else function_end
                    if row_file[row] or row_line[row]:
                        out = put_hex(out, row_vaddr[row] - base)
                        out[0] = SPACE
                        out = put_hex(out + 1, row_end - row_vaddr[row])
                        out[0] = SPACE
                        out = put_decimal(out + 1, row_line[row])
                        out[0] = SPACE
                        out = put_decimal(out + 1, file_number[row_file[row]])
                        out[0] = NEWLINE
                        out += 1
                    row += 1
                self._out.count = out - self._out.items
        if not ok:
            raise MemoryError
