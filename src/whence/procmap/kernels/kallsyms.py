"""Lines of /proc/kallsyms into columns: one pass, no copy of a name.

A line is `address type name`, or `address type name [module]` behind blanks; what is no function's (of a type but t, T,
w and W), and what is not so, is passed over.
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
    """Of each address that a function has, ascending, where its name begins: that of the first such line.
    `first_symbols` are where the names begin that are _text or _stext."""

    start = cython.declare(Column, visibility="readonly")
    name_at = cython.declare(Column, visibility="readonly")
    first_symbols = cython.declare(Column, visibility="readonly")

    def __cinit__(self, data: cython.const[cython.uchar][::1]):
        starts: Column = Column("Q")
        names: Column = Column("Q")
        size: cython.Py_ssize_t = data.shape[0]
        at: cython.Py_ssize_t = 0
        name: cython.Py_ssize_t
        address: cython.ulonglong = 0
        good: cython.bint = True
        self.start, self.name_at, self.first_symbols = Column("Q"), Column("Q"), Column("Q")
        if size == 0:
            return
        text: cython.p_const_uchar = cython.address(data[0])
        with cython.nogil:
            while at < size and good:
                name = function_name(text, at, size, cython.address(address))
                if name >= 0 and address != 0:
                    good = starts.push_u64(address) and names.push_u64(name)
                    if is_first_symbol(text + name, size - name):
                        good = good and self.first_symbols.push_u64(name)
                while at < size and text[at] != b"\n":
                    at += 1
                at += 1
        if not good or not self._put(starts, names):
            raise MemoryError

    @cython.cfunc
    @cython.exceptval(check=False)
    def _put(self, starts: Column, names: Column) -> cython.bint:
        """The rows in ascending order, the first of each address. False when there is no memory."""
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
                        good and self.start.push_u64(keys[rows[row]]) and self.name_at.push_u64(u64s(names)[rows[row]])
                    )
        free(order)
        free(other)
        return good


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_blank(c: cython.uchar) -> cython.bint:
    return c == b" " or c == b"\t"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_space(c: cython.uchar) -> cython.bint:
    return c == b" " or b"\t" <= c <= b"\r"


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def function_name(
    text: cython.p_const_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, address: cython.p_ulonglong
) -> cython.Py_ssize_t:
    """Where the name of the function begins of the line at `at` begins; -1 where it has none."""
    total: cython.ulonglong = 0
    first: cython.Py_ssize_t = at
    name: cython.Py_ssize_t
    digit: cython.int
    while at < size and at - first <= MOST_DIGITS:
        if b"0" <= text[at] <= b"9":
            digit = text[at] - 48
        elif b"a" <= text[at] | 32 <= b"f":
            digit = (text[at] | 32) - 87
        else:
            break
        total = total << 4 | cython.cast(cython.ulonglong, digit)
        at += 1
    if at == first or at - first > MOST_DIGITS or size - at < 4 or text[at] != b" " or text[at + 2] != b" ":
        return -1
    if text[at + 1] | 32 != b"t" and text[at + 1] | 32 != b"w":
        return -1
    address[0] = total
    at += 3
    name = at
    while at < size and not is_space(text[at]):
        at += 1
    if at == name:
        return -1
    first = at
    while at < size and is_blank(text[at]):
        at += 1
    if at < size and text[at] == b"[" and at > first:
        first = at
        while at < size and not is_space(text[at]):
            at += 1
        if at - first < 3 or text[at - 1] != b"]":
            return -1
        while at < size and is_blank(text[at]):
            at += 1
    return name if at >= size or text[at] == b"\n" else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_first_symbol(name: cython.p_const_uchar, size: cython.Py_ssize_t) -> cython.bint:
    if size >= 5 and memcmp(name, b"_text", 5) == 0:
        return size == 5 or name[5] == b"\n"
    return size >= 6 and memcmp(name, b"_stext", 6) == 0 and (size == 6 or name[6] == b"\n")
