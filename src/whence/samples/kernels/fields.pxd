# How the kernels of profiles read and write fields of protocol buffers (protobuf.dev, "Encoding"). The numbers are
# those of the module of the same name for Python, too.

from whence.kernels.bytes cimport MORE, put_uleb


cdef struct Field:
    unsigned long long number
    int wire
    unsigned long long value  # of a varint or fixed field
    Py_ssize_t start  # of the payload
    Py_ssize_t end  # of the payload, and of the field
    int fault  # 0, or what is wrong: CUT_VARINT to UNKNOWN

cpdef enum:  # wire types
    VARINT = 0
    FIXED64 = 1
    LENGTH = 2  # what has a length: messages, text, bytes, packed numbers
    FIXED32 = 5

cpdef enum:  # what is wrong with a field; wire.py has the rules in words
    CUT_VARINT = 1
    LONG_VARINT = 2
    CUT_FIELD = 3
    WIRE_TYPE = 4
    FIELD_ZERO = 5
    NO_ROOM = 6
    WRONG_TYPE = 7
    UNKNOWN = 8


cdef inline unsigned long long read_varint(
    const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Field* field
) noexcept nogil:
    """The varint at `at`; field.end is where it ends, field.fault is set when it does not."""
    cdef unsigned long long value = 0
    cdef int shift = 0
    cdef unsigned char byte
    if at < end and data[at] < MORE:  # most have one byte, and most others two
        field.end = at + 1
        return data[at]
    if at + 1 < end and data[at + 1] < MORE:
        field.end = at + 2
        return <unsigned long long>data[at + 1] << 7 | (data[at] & 0x7F)
    while at < end:
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            field.fault = LONG_VARINT
            return 0
        value |= <unsigned long long>(byte & 0x7F) << shift
        if byte < MORE:
            field.end = at
            return value
        shift += 7
    field.fault = CUT_VARINT
    return 0


cdef inline Py_ssize_t varints(const unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil:
    """How many varints end in data[start:end): each has one byte without its highest bit, its last."""
    cdef Py_ssize_t at
    cdef Py_ssize_t count = 0
    for at in range(start, end):
        count += data[at] < MORE
    return count


cdef inline void read_field(const unsigned char* data, Py_ssize_t at, Py_ssize_t end, Field* field) noexcept nogil:
    """The field that starts at `at`."""
    cdef unsigned long long size, tag
    cdef int i
    field.fault = 0
    field.end = at
    tag = read_varint(data, at, end, field)
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


cdef inline Py_ssize_t put_varint(unsigned char* out, Py_ssize_t at, unsigned long long value) noexcept nogil:
    """Write a varint at `at`; returns where it ends."""
    return put_uleb(out + at, value) - out


cdef inline Py_ssize_t varint_size(unsigned long long value) noexcept nogil:
    cdef Py_ssize_t size = 1
    while value >= MORE:
        value >>= 7
        size += 1
    return size
