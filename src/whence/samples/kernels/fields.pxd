# Read and write fields of protocol buffers (protobuf.dev, "Encoding"). Python imports the numbers from the module of the
# same name.

from whence.kernels.bytes cimport LEB_CUT_OFF, MORE, put_uleb, uvarint


cdef struct Field:
    unsigned long long number
    int wire
    unsigned long long value  # of a varint or fixed field
    Py_ssize_t start  # of the payload
    Py_ssize_t end  # of the payload, and of the field
    int fault  # 0, or CUT_VARINT to UNKNOWN

cpdef enum:  # wire types
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2  # with a length: messages, text, bytes, packed numbers
    FIXED32 = 5

cpdef enum:  # faults; wire.py has their texts
    CUT_VARINT = 1
    LONG_VARINT = 2
    CUT_FIELD = 3
    WIRE_TYPE = 4
    FIELD_ZERO = 5
    NO_ROOM = 6
    WRONG_TYPE = 7
    UNKNOWN = 8


cdef inline unsigned long long read_varint(
    const unsigned char* data, Py_ssize_t offset, Py_ssize_t end, Field* field
) noexcept nogil:
    """Read the varint at `offset` and set field.end to its end; set field.fault if it is invalid."""
    cdef unsigned long long value = 0
    cdef int size
    if offset < end and data[offset] < MORE:  # most have one byte, and most others two
        field.end = offset + 1
        return data[offset]
    if offset + 1 < end and data[offset + 1] < MORE:
        field.end = offset + 2
        return <unsigned long long>data[offset + 1] << 7 | (data[offset] & 0x7F)
    size = uvarint(data + offset, data + end, &value)
    if size <= 0:
        field.fault = CUT_VARINT if size == LEB_CUT_OFF else LONG_VARINT
        return 0
    field.end = offset + size
    return value


cdef inline Py_ssize_t varints(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """Return the number of varints that end in data[start:end]: the last byte of each is less than MORE."""
    cdef Py_ssize_t offset
    cdef Py_ssize_t count = 0
    for offset in range(start, end):
        count += data[offset] < MORE
    return count


cdef inline void read_field(const unsigned char* data, Py_ssize_t offset, Py_ssize_t end, Field* field) noexcept nogil:
    """Read the field at `offset`."""
    cdef unsigned long long size, tag
    cdef int i
    field.fault = 0
    field.end = offset
    tag = read_varint(data, offset, end, field)
    if field.fault:
        return
    field.number = tag >> 3
    field.wire = <int>(tag & 7)
    field.start = field.end
    field.value = 0
    if field.number == 0:
        field.fault = FIELD_ZERO
    elif field.wire == VARINT:
        field.value = read_varint(data, field.start, end, field)
    elif field.wire == LENGTH:
        size = read_varint(data, field.start, end, field)
        if field.fault:
            return
        field.start = field.end
        if size > <unsigned long long>(end - field.start):
            field.fault = CUT_FIELD
            return
        field.end = field.start + <Py_ssize_t>size
    elif field.wire == FIXED64 or field.wire == FIXED32:
        size = 8 if field.wire == FIXED64 else 4
        if size > <unsigned long long>(end - field.start):
            field.fault = CUT_FIELD
            return
        for i in range(<int>size):
            field.value |= <unsigned long long>data[field.start + i] << (8 * i)
        field.end = field.start + <Py_ssize_t>size
    else:
        field.fault = WIRE_TYPE


cdef inline Py_ssize_t put_varint(unsigned char* out, Py_ssize_t offset, unsigned long long value) noexcept nogil:
    """Write a varint at `offset`. Return its end."""
    return put_uleb(out + offset, value) - out


cdef inline Py_ssize_t varint_size(unsigned long long value) noexcept nogil:
    """Return the size of a varint."""
    cdef Py_ssize_t size = 1
    while value >= MORE:
        value >>= 7
        size += 1
    return size
