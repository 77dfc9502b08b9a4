"""Kernel: type records and the names of functions by id.

A record of the TPI or IPI stream is a length (16 bits, without itself), a kind and its fields. Records are numbered
from the first index on. A function's id names its scope (a string, or a class of the TPI stream) and the function.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memchr, memcmp, memcpy
from cython.cimports.whence.kernels.bytes import u16, u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import append_u8
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.pdb.kernels import constants as c

from whence.kernels.columns import Column as new_column

COLON = cython.declare(cython.uchar, ord(":"))
OPERATOR = cython.declare(cython.p_const_char, b"operator")
MOST_TEXT = cython.declare(cython.Py_ssize_t, 0xFFFFFF00)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def text_at(data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t) -> Text:
    """Return the text from an offset to the next NUL, or to the end."""
    text: Text
    text.data = data + offset
    text.size = 0
    if offset >= size:
        text.data = cython.NULL
        return text
    end: cython.p_const_void = memchr(text.data, 0, size - offset)
    text.size = size - offset if end == cython.NULL else cython.cast(cython.p_const_uchar, end) - text.data
    return text


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def without_scope(name: Text) -> Text:
    """Return a name after its last `::` that is outside of brackets."""
    index: cython.Py_ssize_t = 0
    start: cython.Py_ssize_t = 0
    depth: cython.int = 0
    byte: cython.uchar
    while index < name.size:
        byte = name.data[index]
        if depth == 0 and index == start and name.size - index > 8 and memcmp(name.data + index, OPERATOR, 8) == 0:
            break
        if byte == ord("<") or byte == ord("(") or byte == ord("{"):
            depth += 1
        elif (byte == ord(">") or byte == ord(")") or byte == ord("}")) and depth:
            depth -= 1
        elif byte == COLON and depth == 0 and index + 2 < name.size and name.data[index + 1] == COLON:
            start = index + 2
            index += 1
        index += 1
    name.data += start
    name.size -= start
    return name


@cython.final
@cython.cclass
class TypeRecords:
    """The records of a TPI or IPI stream by number. `data` are the records, `count` their number by the header."""

    def __cinit__(self, data: cython.const[cython.uchar][::1], first: cython.uint, offsets: cython.uint[::1]):
        """Find the records. `offsets` has capacity for each record's offset."""
        size: cython.Py_ssize_t = data.shape[0]
        offset: cython.Py_ssize_t = 0
        work: cython.Py_ssize_t = 0
        self.data = data
        self.offsets = offsets
        self.first = first
        self.count = 0
        belong(size <= MOST_TEXT)
        if size < 4:
            return
        start: cython.p_const_uchar = cython.address(data[0])
        with cython.nogil:
            while offset <= size - 4 and self.count < offsets.shape[0]:
                handle_signals(cython.address(work), 1)
                length: cython.Py_ssize_t = 2 + u16(start + offset, False)
                if length < 4 or length > size - offset:
                    break
                self.offsets[self.count] = cython.cast(cython.uint, offset)
                self.count += 1
                offset += length

    def record(self, index, size):
        """Return the record with a number, and its size; NULL if it does not exist."""
        if index < self.first or index - self.first >= cython.cast(cython.ulonglong, self.count):
            return cython.NULL
        data: cython.p_const_uchar = cython.address(self.data[0]) + self.offsets[index - self.first]
        size[0] = 2 + u16(data, False)
        return data


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def after_number(data: cython.p_const_uchar, offset: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the offset after a number; `size` if it is cut off or has an unknown form."""
    if offset > size - 2:
        return size
    kind: cython.uint = u16(data + offset, False)
    offset += 2
    if kind < c.LF_NUMERIC:
        return offset
    if kind == c.LF_CHAR:
        return offset + 1
    if kind == c.LF_SHORT or kind == c.LF_USHORT:
        return offset + 2
    if kind == c.LF_LONG or kind == c.LF_ULONG:
        return offset + 4
    if kind == c.LF_QUADWORD or kind == c.LF_UQUADWORD:
        return offset + 8
    return size


@cython.final
@cython.cclass
class FunctionNames:
    """Writes names of functions into one text; each id's name is written once.

    Args:
        types, ids: the records.
        base: the reference of the first byte of the text.
        budget: bytes of names from ids; when they are spent, names have no scope.
        short: leave out scopes.
    """

    def __cinit__(
        self, types: TypeRecords, ids: TypeRecords, base: cython.ulonglong, budget: cython.Py_ssize_t,
        short: cython.bint,
    ):  # fmt: skip
        self.types, self.ids = types, ids
        self.base, self.budget, self.short = base, budget, short
        self.text = new_column("B")
        if not self.text.reserve(1):
            raise MemoryError
        append_u8(self.text, 0)
        self.known = cython.cast(cython.p_uint, calloc(ids.count + 1, 4))
        if self.known == cython.NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.known)

    def class_name(self, type):
        """Return the name of a class, structure, union or enumeration."""
        size: cython.Py_ssize_t = 0
        none: Text
        none.data = cython.NULL
        none.size = 0
        data: cython.p_const_uchar = self.types.record(type, cython.address(size))
        if data == cython.NULL:
            return none
        kind: cython.uint = u16(data + 2, False)
        if kind == c.LF_CLASS or kind == c.LF_STRUCTURE or kind == c.LF_INTERFACE:
            return text_at(data, after_number(data, 20, size), size)
        if kind == c.LF_CLASS2 or kind == c.LF_STRUCTURE2 or kind == c.LF_INTERFACE2:
            return text_at(data, after_number(data, after_number(data, 20, size), size), size)
        if kind == c.LF_UNION:
            return text_at(data, after_number(data, 12, size), size)
        if kind == c.LF_UNION2:
            return text_at(data, after_number(data, after_number(data, 12, size), size), size)
        if kind == c.LF_ENUM:
            return text_at(data, 16, size)
        return none

    def string_of(self, id):
        """Return the text of a string id."""
        size: cython.Py_ssize_t = 0
        none: Text
        none.data = cython.NULL
        none.size = 0
        data: cython.p_const_uchar = self.ids.record(id, cython.address(size))
        if data == cython.NULL or u16(data + 2, False) != c.LF_STRING_ID:
            return none
        return text_at(data, 8, size)

    def name_of(self, id):
        """Return the reference of the name of a function's id; 0 if it has none, or memory runs out."""
        size: cython.Py_ssize_t = 0
        data: cython.p_const_uchar = self.ids.record(id, cython.address(size))
        if data == cython.NULL:
            return 0
        index: cython.uint = id - self.ids.first
        if self.known[index]:
            return self.base + self.known[index] - 1
        kind: cython.uint = u16(data + 2, False)
        if (kind != c.LF_FUNC_ID and kind != c.LF_MFUNC_ID) or size < 12:
            return 0
        scope: Text
        scope.data = cython.NULL
        scope.size = 0
        owner: cython.uint = u32(data + 4, False)
        if not self.short and owner:
            scope = self.string_of(owner) if kind == c.LF_FUNC_ID else self.class_name(owner)
        name: Text = text_at(data, 12, size)
        if self.short:
            name = without_scope(name)
        if scope.size > self.budget:
            self.unscoped += 1
            scope.size = 0
        self.budget -= scope.size
        ref: cython.ulonglong = self.add(scope, name)
        if ref:
            self.known[index] = cython.cast(cython.uint, ref - self.base + 1)
        return ref

    def add(self, scope, name):
        """Append a name with its scope and return its reference; 0 for no name, or if memory runs out."""
        offset: cython.Py_ssize_t = self.text.vector.count
        size: cython.Py_ssize_t = scope.size + name.size + 3
        if name.data == cython.NULL or name.size == 0 or offset > MOST_TEXT - size or not self.text.reserve(size):
            return 0
        if scope.data != cython.NULL and scope.size:
            memcpy(self.text.vector.items + self.text.vector.count, scope.data, scope.size)
            self.text.vector.count += scope.size
            append_u8(self.text, COLON)
            append_u8(self.text, COLON)
        memcpy(self.text.vector.items + self.text.vector.count, name.data, name.size)
        self.text.vector.count += name.size
        append_u8(self.text, 0)
        return self.base + offset
