"""Record batches in Arrow's C data interface: imported without a copy, exported, read as addresses and build-ids.

No Arrow library is used. A batch is a struct array; its columns are the children. Offsets and lengths from the producer
are trusted, as the interface requires: both sides are in one process.
"""

import cython
from cython.cimports.cpython.pycapsule import PyCapsule_GetPointer, PyCapsule_New
from cython.cimports.libc.limits import INT_MAX
from cython.cimports.libc.stdint import int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.libc.string import memcmp, memcpy, memset
from cython.cimports.whence.columns.kernels.arrow import (
    ArrowArray,
    ArrowSchema,
    Shared,
    copy_array,
    copy_schema,
    new_array,
    new_schema,
    release_shared,
)
from cython.cimports.whence.columns.kernels.texts import TextSet
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u8s, u32s, u64s

from whence._base.errors import WrongUse

NO_ID = cython.declare(cython.uint, 0xFFFFFFFF)  # the code of an element without a build-id
LONGEST_ID = cython.declare(cython.Py_ssize_t, 512)  # bytes: longer texts are cut, and are not build-ids
INLINE = cython.declare(cython.int, 12)  # bytes of a text that a view holds itself
LARGEST = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
VIEW_SIZE = cython.declare(cython.int, 16)


@cython.cfunc
@cython.exceptval(check=False)
def drop_schema(capsule: object) -> cython.void:
    """Release the schema of a capsule unless it was consumed: its destructor."""
    schema = cython.cast(cython.pointer(ArrowSchema), PyCapsule_GetPointer(capsule, b"arrow_schema"))
    if schema.release != cython.NULL:
        schema.release(schema)
    free(schema)


@cython.cfunc
@cython.exceptval(check=False)
def drop_array(capsule: object) -> cython.void:
    """Release the array of a capsule unless it was consumed: its destructor."""
    array = cython.cast(cython.pointer(ArrowArray), PyCapsule_GetPointer(capsule, b"arrow_array"))
    if array.release != cython.NULL:
        array.release(array)
    free(array)


@cython.final
@cython.cclass
class RecordBatch:
    """A record batch, which can be exported any number of times. `names` are the names of its columns."""

    def __cinit__(self, schema: object, array: object = None):
        """Take ownership of the contents of two capsules; without an array, of a schema only.

        Raises TypeError for other capsules, WrongUse for a schema that is not of a record batch.
        """
        self.shared = cython.cast(cython.pointer(Shared), calloc(1, cython.sizeof(Shared)))
        if self.shared == cython.NULL:
            raise MemoryError
        self.shared.references = 1
        self.names = ()
        if schema is None:
            return  # the caller fills it
        source_schema = cython.cast(cython.pointer(ArrowSchema), PyCapsule_GetPointer(schema, b"arrow_schema"))
        if source_schema.release == cython.NULL:
            raise ValueError("the Arrow schema was already consumed")
        memcpy(cython.address(self.shared.schema), source_schema, cython.sizeof(ArrowSchema))
        source_schema.release = cython.NULL
        if array is not None:
            source_array = cython.cast(cython.pointer(ArrowArray), PyCapsule_GetPointer(array, b"arrow_array"))
            if source_array.release == cython.NULL:
                raise ValueError("the Arrow array was already consumed")
            memcpy(cython.address(self.shared.array), source_array, cython.sizeof(ArrowArray))
            source_array.release = cython.NULL
            if self.shared.array.n_children != self.shared.schema.n_children:
                raise ValueError("the Arrow array and its schema have different numbers of columns")
        self._read_names()

    def _read_names(self):
        """Read the names from the schema. Raises WrongUse for a schema that is not of a record batch."""
        schema: cython.pointer(ArrowSchema) = cython.address(self.shared.schema)
        index: cython.Py_ssize_t
        names: list = []
        if cython.cast(bytes, schema.format) != b"+s":
            raise WrongUse(f"an array of format {schema.format.decode()}: pass a record batch, with named columns")
        for index in range(schema.n_children):
            name = schema.children[index].name
            names.append(b"" if name == cython.NULL else cython.cast(bytes, name))
        self.names = tuple([name.decode("utf-8", "surrogateescape") for name in names])

    def __dealloc__(self):
        release_shared(self.shared)

    def __len__(self):
        """Return the number of rows."""
        return self.shared.array.length

    def __repr__(self):
        return f"<RecordBatch of {len(self)} rows: {', '.join(self.names)}>"

    def __arrow_c_schema__(self):
        belong(self.shared.schema.release != cython.NULL)
        schema = cython.cast(cython.pointer(ArrowSchema), calloc(1, cython.sizeof(ArrowSchema)))
        if schema == cython.NULL:
            raise MemoryError
        capsule = PyCapsule_New(schema, b"arrow_schema", drop_schema)
        if not copy_schema(schema, cython.address(self.shared.schema)):
            raise MemoryError
        return capsule

    def __arrow_c_array__(self, requested_schema: object = None):
        """Return the schema and the array in two capsules. `requested_schema` is ignored."""
        if self.shared.array.release == cython.NULL:
            raise TypeError("a schema without an array has no rows")
        array = cython.cast(cython.pointer(ArrowArray), calloc(1, cython.sizeof(ArrowArray)))
        if array == cython.NULL:
            raise MemoryError
        capsule = PyCapsule_New(array, b"arrow_array", drop_array)
        if not copy_array(array, cython.address(self.shared.array), self.shared):
            raise MemoryError
        return self.__arrow_c_schema__(), capsule

    def format_of(self, name: str) -> str:
        """Return the format string of a column, or of the values of a dictionary. Raises KeyError."""
        schema: cython.pointer(ArrowSchema) = self.shared.schema.children[self.position(name)]
        if schema.dictionary != cython.NULL:
            schema = schema.dictionary
        return schema.format.decode()

    def position(self, name):
        """Return the index of a column among the children. Raises KeyError."""
        if name not in self.names:
            raise KeyError(name)
        return self.names.index(name)

    def joined(self, other: RecordBatch):
        """Return a batch with the columns of both. Raises ValueError if their numbers of rows differ."""
        out: RecordBatch = RecordBatch(None)
        index: cython.Py_ssize_t
        own: cython.Py_ssize_t = self.shared.schema.n_children
        both: cython.Py_ssize_t = own + other.shared.schema.n_children
        have_rows: cython.bint = self.shared.array.release != cython.NULL and other.shared.array.release != cython.NULL
        if have_rows and self.shared.array.length != other.shared.array.length:
            raise ValueError("the batches have different numbers of rows")
        if not new_schema(cython.address(out.shared.schema), b"+s", b"", both):
            raise MemoryError
        if have_rows and not new_array(cython.address(out.shared.array), self.shared.array.length, 1, both):
            raise MemoryError
        for index in range(both):
            source: cython.pointer(Shared) = self.shared if index < own else other.shared
            inner: cython.Py_ssize_t = index if index < own else index - own
            if not copy_schema(out.shared.schema.children[index], source.schema.children[inner]):
                raise MemoryError
            if have_rows:
                child: cython.pointer(ArrowArray) = out.shared.array.children[index]
                if not copy_array(child, source.array.children[inner], source):
                    raise MemoryError
                if (
                    source.array.offset or child.length != out.shared.array.length
                ):  # a slice: the offset is the struct's
                    child.offset += source.array.offset
                    child.length = out.shared.array.length
                    child.null_count = -1
        out._read_names()
        return out


# Reading columns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def integer_at(
    array: cython.pointer(ArrowArray), format: cython.char, row: int64_t, value: cython.p_ulonglong
) -> cython.bint:
    """Read an integer, negative ones as 64 bits; return False if the row is null."""
    data: cython.p_void = cython.cast(cython.p_void, array.buffers[1])
    if not is_valid(array, row):
        return False
    if format == ord("L") or format == ord("l"):
        value[0] = cython.cast(cython.p_ulonglong, data)[row]
    elif format == ord("I"):
        value[0] = cython.cast(cython.pointer(uint32_t), data)[row]
    elif format == ord("i"):
        value[0] = cython.cast(cython.ulonglong, cython.cast(int64_t, cython.cast(cython.pointer(int32_t), data)[row]))
    elif format == ord("S"):
        value[0] = cython.cast(cython.pointer(uint16_t), data)[row]
    elif format == ord("s"):
        value[0] = cython.cast(cython.ulonglong, cython.cast(int64_t, cython.cast(cython.pointer(int16_t), data)[row]))
    elif format == ord("C"):
        value[0] = cython.cast(cython.pointer(uint8_t), data)[row]
    else:
        value[0] = cython.cast(cython.ulonglong, cython.cast(int64_t, cython.cast(cython.pointer(int8_t), data)[row]))
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def bytes_at(
    array: cython.pointer(ArrowArray),
    format: cython.p_const_char,
    row: int64_t,
    size: cython.pointer(int64_t),
) -> cython.pointer(cython.const[cython.uchar]):
    """Return the bytes of a text or binary element; NULL if the row is null."""
    digits: int64_t = 0
    index: cython.int = 2
    length: int32_t
    buffer: int32_t
    offset: int32_t
    if not is_valid(array, row):
        return cython.NULL
    if format[0] == ord("v"):  # views: length, then the text, or a prefix, a buffer's number and an offset
        view: cython.pointer(cython.const[cython.uchar]) = (
            cython.cast(cython.pointer(cython.const[cython.uchar]), array.buffers[1]) + VIEW_SIZE * row
        )
        memcpy(cython.address(length), view, 4)
        size[0] = length
        if length <= INLINE:
            return view + 4
        memcpy(cython.address(buffer), view + 8, 4)
        memcpy(cython.address(offset), view + 12, 4)
        return cython.cast(cython.pointer(cython.const[cython.uchar]), array.buffers[2 + buffer]) + offset
    if format[0] == ord("w"):
        while ord("0") <= format[index] <= ord("9"):
            digits = digits * 10 + format[index] - ord("0")
            index += 1
        size[0] = digits
        return cython.cast(cython.pointer(cython.const[cython.uchar]), array.buffers[1]) + row * digits
    if format[0] == ord("U") or format[0] == ord("Z"):
        start: int64_t = cython.cast(cython.pointer(int64_t), array.buffers[1])[row]
        end: int64_t = cython.cast(cython.pointer(int64_t), array.buffers[1])[row + 1]
    else:
        start = cython.cast(cython.pointer(int32_t), array.buffers[1])[row]
        end = cython.cast(cython.pointer(int32_t), array.buffers[1])[row + 1]
    size[0] = end - start
    if array.buffers[2] == cython.NULL:
        return cython.cast(cython.pointer(cython.const[cython.uchar]), b"")
    return cython.cast(cython.pointer(cython.const[cython.uchar]), array.buffers[2]) + start


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def address_of_text(
    text: cython.pointer(cython.const[cython.uchar]), size: int64_t, decimal: cython.bint, value: cython.p_ulonglong
) -> cython.bint:
    """Parse an address in hex, with or without 0x, ignoring blanks around the text.

    With `decimal`, an address without 0x is decimal. Returns False for other texts and numbers of more than 64 bits.
    """
    index: int64_t = 0
    end: int64_t = size
    number: cython.ulonglong = 0
    digits: cython.int = 0
    while index < end and text[index] <= ord(" "):
        index += 1
    while end > index and text[end - 1] <= ord(" "):
        end -= 1
    if end - index > 2 and text[index] == ord("0") and text[index + 1] | 0x20 == ord("x"):
        index += 2
        decimal = False
    while index < end:
        if ord("0") <= text[index] <= ord("9"):
            digit: cython.uint = text[index] - ord("0")
        elif decimal:
            return False
        elif ord("a") <= text[index] | 0x20 <= ord("f"):
            digit = (text[index] | 0x20) - ord("a") + 10
        else:
            return False
        if decimal:
            if number > (LARGEST - digit) // 10:
                return False
            number = number * 10 + digit
        elif number >> 60:
            return False
        else:
            number = number << 4 | digit
        digits += 1
        index += 1
    value[0] = number
    return digits > 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def list_start(array: cython.pointer(ArrowArray), format: cython.p_const_char, row: int64_t) -> int64_t:
    """Return the first child of a list, whose end is the first child of row + 1. Rows count from the buffers' start."""
    size: int64_t = 0
    index: cython.int = 3
    if format[1] == ord("L"):
        return cython.cast(cython.pointer(int64_t), array.buffers[1])[row]
    if format[1] == ord("w"):
        while ord("0") <= format[index] <= ord("9"):
            size = size * 10 + format[index] - ord("0")
            index += 1
        return size * row
    return cython.cast(cython.pointer(int32_t), array.buffers[1])[row]


@cython.cfunc
def is_list(format: bytes) -> cython.bint:
    return format in (b"+l", b"+L") or format.startswith(b"+w:")


@cython.cfunc
@cython.exceptval(-1, check=False)
def must_be_numbers(format: bytes, name: str) -> cython.int:
    """Raise WrongUse unless a column's values can be addresses."""
    if format in (b"e", b"f", b"g"):
        raise WrongUse(
            f"column {name} has floating-point numbers, which can't hold 64 bits: cast it to uint64 at its source"
        )
    if format[:1] in (b"c", b"C", b"s", b"S", b"i", b"I", b"l", b"L", b"u", b"U") or format == b"vu":
        return 0
    if (
        format.startswith(b"d:")
        and (format.count(b",") == 1 or format.endswith(b",128"))
        and format.split(b",")[1] == b"0"
    ):
        return 0
    if format == b"n":
        return 0
    raise WrongUse(
        f"column {name} has the Arrow format {format.decode()!r}: addresses must be integers or texts in hex"
    )


@cython.cfunc
@cython.exceptval(-1, check=False)
def must_be_build_ids(format: bytes, name: str) -> cython.int:
    """Raise WrongUse unless a column's values can be build-ids."""
    if format not in (b"n", b"u", b"U", b"z", b"Z", b"vu", b"vz") and not format.startswith(b"w:"):
        raise WrongUse(
            f"column {name} has the Arrow format {format.decode()!r}: build-ids must be texts in hex or bytes"
        )
    return 0


@cython.cfunc
def format_of_values(batch: RecordBatch, name: str) -> bytes:
    """Return the format of a column's values: the items of lists, the values of a dictionary. Raises KeyError."""
    schema: cython.pointer(ArrowSchema) = batch.shared.schema.children[batch.position(name)]
    if is_list(cython.cast(bytes, schema.format)):
        schema = schema.children[0]
    if schema.dictionary != cython.NULL:
        schema = schema.dictionary
    return cython.cast(bytes, schema.format)


def check_formats(batch: RecordBatch, addresses: str, build_ids: str):
    """Raise WrongUse unless the types of two columns can hold addresses and build-ids; KeyError if one is missing."""
    must_be_numbers(format_of_values(batch, addresses), addresses)
    must_be_build_ids(format_of_values(batch, build_ids), build_ids)


@cython.final
@cython.cclass
class Elements:
    """The addresses of a column: an element for each row, or for each item of lists."""

    def __cinit__(self, batch: RecordBatch = None, name: str = "", decimal: cython.bint = False):
        """Read a column. Without a batch there are no elements.

        Texts are in hex; with `decimal`, those without 0x are decimal. Raises KeyError if the column is missing,
        WrongUse if its type can't hold addresses, MemoryError.
        """
        self.decimal = decimal
        self.address, self.status, self.starts = Column("Q", True), Column("B", True), Column("I", True)
        if batch is not None:
            self._take(batch, name)

    def _take(self, batch, name):
        position: cython.Py_ssize_t = batch.position(name)
        belong(batch.shared.array.release != cython.NULL)  # not a schema alone
        schema: cython.pointer(ArrowSchema) = batch.shared.schema.children[position]
        array: cython.pointer(ArrowArray) = batch.shared.array.children[position]
        row: int64_t
        format: cython.p_const_char = schema.format
        self.rows = batch.shared.array.length
        self.lists = is_list(cython.cast(bytes, format))
        first: int64_t = array.offset + batch.shared.array.offset
        if not self.lists:
            self._read(schema, array, first, self.rows, name)
            return
        inner: cython.pointer(ArrowArray) = array.children[0]
        if not self.starts.reserve(self.rows + 1):
            raise MemoryError
        starts: cython.p_uint = u32s(self.starts)
        self.starts.vector.count = self.rows + 1
        starts[0] = 0
        low: int64_t = list_start(array, format, first) if self.rows else 0
        high: int64_t = list_start(array, format, first + self.rows) if self.rows else 0
        if high - low > INT_MAX:
            raise WrongUse(f"column {name}: more than 2^31 addresses in one batch: pass smaller batches")
        self._read(schema.children[0], inner, inner.offset + low, high - low, name)
        for row in range(self.rows):
            starts[row + 1] = cython.cast(cython.uint, list_start(array, format, first + row + 1) - low)
            if not is_valid(array, first + row):  # a null list may have children
                for index in range(starts[row], starts[row + 1]):
                    u8s(self.status)[index] = IS_NULL

    def _read(self, schema, array, first, count, name):
        """Fill `address` and `status` with `count` elements, starting at row `first` of the buffers."""
        row: int64_t
        index: cython.ulonglong = 0
        inner: cython.pointer(ArrowArray) = array
        dictionary: cython.bint = schema.dictionary != cython.NULL
        format: cython.p_const_char = schema.dictionary.format if dictionary else schema.format
        index_format: cython.char = schema.format[0]
        must_be_numbers(cython.cast(bytes, format), name)
        if not self.address.reserve(count) or not self.status.reserve(count):
            raise MemoryError
        values: cython.p_ulonglong = u64s(self.address)
        status: cython.p_uchar = u8s(self.status)
        if dictionary:
            inner = array.dictionary
        with cython.nogil:
            if not dictionary and (format[0] == ord("L") or format[0] == ord("l")):
                memcpy(values, cython.cast(cython.p_ulonglong, array.buffers[1]) + first, 8 * count)
                memset(status, IS_ADDRESS, count)
                if array.buffers[0] != cython.NULL and array.null_count:
                    for row in range(count):
                        if not is_valid(array, first + row):
                            status[row] = IS_NULL
            else:
                for row in range(count):
                    index = cython.cast(cython.ulonglong, first + row)
                    if dictionary:
                        if not integer_at(array, index_format, first + row, cython.address(index)):
                            status[row] = IS_NULL
                            values[row] = 0
                            continue
                        index += cython.cast(cython.ulonglong, inner.offset)
                    status[row] = read_address(inner, format, cython.cast(int64_t, index), self.decimal, values + row)
        self.address.vector.count = self.status.vector.count = count

    def __len__(self):
        return len(self.address)

    def __repr__(self):
        return f"<Elements: {len(self)} addresses of {self.rows} rows>"

    def rows_of(self, elements: Column):
        """Return the row of each of some elements, which are in ascending order: a Column of u32."""
        index: cython.Py_ssize_t
        row: cython.uint = 0
        out: Column = Column("I")
        starts = u32s(self.starts)
        which = u32s(elements)
        belong(elements.typecode == "I")
        if not self.lists:
            return elements
        for index in range(elements.vector.count):
            while row < self.rows and starts[row + 1] <= which[index]:
                row += 1
            if not out.push_u32(row):
                raise MemoryError
        return out

    def to_file_offsets(self, start: Elements, offset: Elements):
        """Convert runtime addresses to file offsets: subtract the mapping's start, add its offset in the file.

        `start` and `offset` have an element for each address, or for each row.
        """
        index: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = self.address.vector.count
        values = u64s(self.address)
        status = u8s(self.status)
        starts = u32s(self.starts)
        of_start = u64s(start.address)
        of_offset = u64s(offset.address)
        alike: cython.bint = len(start) == count and start.lists == self.lists
        belong(len(start) == len(offset) and (alike or len(start) == self.rows))
        for index in range(count):
            while self.lists and starts[row + 1] <= index:
                row += 1
            source_index: cython.Py_ssize_t = index if alike else row
            if status[index] != IS_ADDRESS:
                continue
            if u8s(start.status)[source_index] or u8s(offset.status)[source_index]:
                status[index] = IS_INVALID
            else:
                values[index] = values[index] - of_start[source_index] + of_offset[source_index]

    def step_back(self, callers_only: bool):
        """Subtract one byte from return addresses: from all, or from all except the first of each list."""
        index: cython.Py_ssize_t
        row: cython.Py_ssize_t = 0
        values = u64s(self.address)
        status = u8s(self.status)
        starts = u32s(self.starts)
        leaves: cython.bint = callers_only
        if leaves and not self.lists:
            return
        for index in range(self.address.vector.count):
            if leaves:
                while starts[row + 1] <= index:
                    row += 1
                if starts[row] == index:
                    continue
            if status[index] == IS_ADDRESS:
                if values[index] == 0:
                    status[index] = IS_INVALID
                else:
                    values[index] -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_address(
    array: cython.pointer(ArrowArray),
    format: cython.p_const_char,
    row: int64_t,
    decimal: cython.bint,
    value: cython.p_ulonglong,
) -> cython.uchar:
    """Read one address; return its status."""
    size: int64_t = 0
    value[0] = 0
    if format[0] == ord("n"):
        return IS_NULL
    if format[0] == ord("u") or format[0] == ord("U") or format[0] == ord("v"):
        text: cython.pointer(cython.const[cython.uchar]) = bytes_at(array, format, row, cython.address(size))
        if text == cython.NULL:
            return IS_NULL
        return IS_ADDRESS if address_of_text(text, size, decimal, value) else IS_INVALID
    if format[0] == ord("d"):  # decimal numbers of 128 bits without a fraction
        if not is_valid(array, row):
            return IS_NULL
        halves: cython.p_ulonglong = cython.cast(cython.p_ulonglong, array.buffers[1]) + 2 * row
        value[0] = halves[0]
        return IS_INVALID if halves[1] else IS_ADDRESS
    return IS_ADDRESS if integer_at(array, format[0], row, value) else IS_NULL


def identities(batch: RecordBatch, name: str, elements: Elements, texts: TextSet) -> Column:
    """Return the build-id of each element: a Column of u32 with numbers of `texts`, or NO_ID. New texts are added.

    The column has a value for each row, or lists of the same lengths as the addresses. Raises WrongUse, KeyError.
    """
    position: cython.Py_ssize_t = batch.position(name)
    belong(batch.shared.array.release != cython.NULL)
    belong(elements.lists or elements.rows == batch.shared.array.length)
    schema: cython.pointer(ArrowSchema) = batch.shared.schema.children[position]
    array: cython.pointer(ArrowArray) = batch.shared.array.children[position]
    first: int64_t = array.offset + batch.shared.array.offset
    row: cython.Py_ssize_t
    index: cython.Py_ssize_t
    starts = u32s(elements.starts)
    out: Column = Column("I")
    if is_list(cython.cast(bytes, schema.format)):
        if not elements.lists or elements.rows != batch.shared.array.length:
            raise WrongUse(f"column {name} has lists, but the addresses are not lists")
        low: int64_t = list_start(array, schema.format, first) if elements.rows else 0
        for row in range(elements.rows):
            if list_start(array, schema.format, first + row + 1) - low != starts[row + 1]:
                raise WrongUse(f"column {name}: row {row} has different numbers of build-ids and addresses")
        read_identities(
            out, texts, schema.children[0], array.children[0], array.children[0].offset + low, len(elements), name
        )
        return out
    read_identities(out, texts, schema, array, first, elements.rows, name)
    if not elements.lists:
        return out
    spread: Column = Column("I")
    if not spread.reserve(len(elements)):
        raise MemoryError
    codes: cython.p_uint = u32s(out)
    for row in range(elements.rows):
        for index in range(starts[row], starts[row + 1]):
            u32s(spread)[index] = codes[row]
    spread.vector.count = len(elements)
    return spread


@cython.cfunc
def read_identities(
    out: Column,
    texts: TextSet,
    schema: cython.pointer(ArrowSchema),
    array: cython.pointer(ArrowArray),
    first: int64_t,
    count: int64_t,
    name: str,
):
    """Fill `out` with the numbers of `count` texts."""
    dictionary: cython.bint = schema.dictionary != cython.NULL
    format: bytes = cython.cast(bytes, schema.dictionary.format if dictionary else schema.format)
    row: int64_t
    index: cython.ulonglong = 0
    index_format: cython.char = schema.format[0]
    if not out.reserve(count):
        raise MemoryError
    codes: cython.p_uint = u32s(out)
    out.vector.count = count
    if format == b"n":
        memset(codes, 0xFF, 4 * count)
        return
    must_be_build_ids(format, name)
    if not dictionary:
        number_texts(codes, texts, array, format, first, count)
        return
    inner: Column = Column("I")
    if not inner.reserve(array.dictionary.length):
        raise MemoryError
    inner.vector.count = array.dictionary.length
    number_texts(
        u32s(inner), texts, array.dictionary, format, array.dictionary.offset,
        array.dictionary.length,
    )  # fmt: skip
    with cython.nogil:
        for row in range(count):
            codes[row] = NO_ID
            if integer_at(array, index_format, first + row, cython.address(index)):
                if index < cython.cast(cython.ulonglong, inner.vector.count):
                    codes[row] = u32s(inner)[index]


@cython.cfunc
@cython.exceptval(-1, check=False)
def number_texts(
    numbers: cython.p_uint,
    texts: TextSet,
    array: cython.pointer(ArrowArray),
    format: cython.p_const_char,
    first: int64_t,
    count: int64_t,
) -> cython.int:
    """Set the number of the text of each element."""
    row: int64_t
    size: int64_t = 0
    number: cython.Py_ssize_t = -1  # of the text before
    length: int64_t = -1
    previous: cython.pointer(cython.const[cython.uchar]) = cython.NULL
    ok: cython.bint = True
    with cython.nogil:
        for row in range(count):
            text: cython.pointer(cython.const[cython.uchar]) = bytes_at(
                array, format, first + row, cython.address(size)
            )
            if text == cython.NULL:
                numbers[row] = NO_ID
                continue
            size = min(size, LONGEST_ID)
            if size != length or memcmp(text, previous, size) != 0:
                previous, length = text, size
                number = texts.number_of(text, size, 0)
                if number < 0:
                    ok = False
                    break
            numbers[row] = cython.cast(cython.uint, number)
    if not ok:
        raise MemoryError
    return 0
