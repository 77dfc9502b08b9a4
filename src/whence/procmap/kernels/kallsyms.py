"""Parse the lines of /proc/kallsyms into columns, in one pass, without copying names.

A line is `address type name` or, after blanks, `address type name [module]`. Symbols that are not functions (of a type
other than t, T, w and W) and malformed lines are ignored.
"""

import cython
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.columns import Column, u64s
from cython.cimports.whence.kernels.sort import sort_indexes

MOST_DIGITS = cython.declare(cython.Py_ssize_t, 16)


@cython.final
@cython.cclass
class FunctionLines:
    """The addresses of functions, ascending, and the offset of the name of the first line of each.

    `first_symbols` has the offsets of the names _text and _stext.
    """

    def __cinit__(self, data: cython.const[cython.uchar][::1]):
        starts: Column = Column("Q")
        names: Column = Column("Q")
        size: cython.Py_ssize_t = data.shape[0]
        pos: cython.Py_ssize_t = 0
        address: cython.ulonglong = 0
        good: cython.bint = True
        self.start, self.name_offset, self.first_symbols = Column("Q"), Column("Q"), Column("Q")
        if size == 0:
            return
        text: cython.p_const_uchar = cython.address(data[0])
        with cython.nogil:
            while pos < size and good:
                name: cython.Py_ssize_t = function_name(text, pos, size, cython.address(address))
                if name >= 0 and address != 0:
                    good = starts.push_u64(address) and names.push_u64(name)
                    if is_first_symbol(text + name, size - name):
                        good = good and self.first_symbols.push_u64(name)
                while pos < size and text[pos] != b"\n":
                    pos += 1
                pos += 1
        if not good or not self._put(starts, names):
            raise MemoryError

    def _put(self, starts, names):
        """Sort the rows and keep the first of each address; return False without memory."""
        count: cython.Py_ssize_t = starts.vector.count
        keys: cython.p_ulonglong = u64s(starts)
        order: cython.p_uint = cython.cast(cython.p_uint, malloc(4 * (count + 1)))
        other: cython.p_uint = cython.cast(cython.p_uint, malloc(4 * (count + 1)))
        rows: cython.p_uint = order
        row: cython.Py_ssize_t
        good: cython.bint = order != cython.NULL and other != cython.NULL
        if good:
            with cython.nogil:
                for row in range(count):
                    order[row] = cython.cast(cython.uint, row)
                if sort_indexes(keys, order, other, count):
                    rows = other
                for row in range(count):
                    if row and keys[rows[row]] == keys[rows[row - 1]]:
                        continue
                    good = (
                        good
                        and self.start.push_u64(keys[rows[row]])
                        and self.name_offset.push_u64(u64s(names)[rows[row]])
                    )
        free(order)
        free(other)
        return good


def is_blank(c):
    return c == b" " or c == b"\t"


def is_space(c):
    return c == b" " or b"\t" <= c <= b"\r"


def function_name(text, pos, size, address):
    """Return the offset of the name in the line at `pos`, -1 if the line is not a function."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = pos
    while pos < size and pos - first <= MOST_DIGITS:
        if b"0" <= text[pos] <= b"9":
            digit: cython.int = text[pos] - 48
        elif b"a" <= text[pos] | 32 <= b"f":
            digit = (text[pos] | 32) - 87
        else:
            break
        total = total << 4 | cython.cast(cython.ulonglong, digit)
        pos += 1
    if pos == first or pos - first > MOST_DIGITS or size - pos < 4 or text[pos] != b" " or text[pos + 2] != b" ":
        return -1
    if text[pos + 1] | 32 != b"t" and text[pos + 1] | 32 != b"w":
        return -1
    address[0] = total
    pos += 3
    name: cython.Py_ssize_t = pos
    while pos < size and not is_space(text[pos]):
        pos += 1
    if pos == name:
        return -1
    first = pos
    while pos < size and is_blank(text[pos]):
        pos += 1
    if pos < size and text[pos] == b"[" and pos > first:
        first = pos
        while pos < size and not is_space(text[pos]):
            pos += 1
        if pos - first < 3 or text[pos - 1] != b"]":
            return -1
        while pos < size and is_blank(text[pos]):
            pos += 1
    return name if pos >= size or text[pos] == b"\n" else -1


def is_first_symbol(name, size):
    if size >= 5 and memcmp(name, b"_text", 5) == 0:
        return size == 5 or name[5] == b"\n"
    return size >= 6 and memcmp(name, b"_stext", 6) == 0 and (size == 6 or name[6] == b"\n")
