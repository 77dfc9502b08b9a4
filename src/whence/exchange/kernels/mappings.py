"""Kernel: the mappings of a source map (version 3) as line rows."""

import cython
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals

from whence.kernels.columns import Column as new_column

BITS = cython.declare(cython.int, 5)  # of a base64 digit of a VLQ number; the sixth says that another one follows
MORE = cython.declare(cython.int, 0x20)
LONGEST = cython.declare(cython.int, 7)  # digits of a number of 32 bits and its sign
LIMIT = cython.declare(cython.longlong, 1 << 32)
NO_FILE = cython.declare(cython.uint, 0xFFFFFFFF)
COMMA = cython.declare(cython.uchar, 0x2C)
SEMICOLON = cython.declare(cython.uchar, 0x3B)


ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
VALUES = bytes(ALPHABET.find(byte) & 0xFF for byte in range(256))  # of base64 digits; other bytes have NO_DIGIT
NO_DIGIT = cython.declare(cython.int, 0xFF)


def rows(text: cython.const[cython.uchar][::1], first: cython.longlong, files: cython.uint):
    """Return the rows of the first line of the generated code: offsets, files, lines and columns, and a fault or -1.

    Offsets start at `first`; lines and columns count from 1. A file is an index of the map's sources, below `files`; a
    part without a source has NO_FILE. Rows end at the fault, an offset in the text.
    """
    values: cython.const[cython.uchar][::1] = VALUES
    offsets: Column = new_column("Q")
    sources: Column = new_column("I")
    lines: Column = new_column("I")
    columns: Column = new_column("I")
    size: cython.Py_ssize_t = text.shape[0]
    position: cython.Py_ssize_t = 0
    fault: cython.longlong = -1
    offset: cython.longlong = first
    source: cython.longlong = 0
    line: cython.longlong = 0
    column: cython.longlong = 0
    field: cython.int = 0  # of the segment
    memory: cython.bint = True
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        while position <= size:
            handle_signals(cython.address(work), 1)
            ends: cython.bint = position == size or text[position] == COMMA or text[position] == SEMICOLON
            if ends:
                if field:
                    named: cython.bint = field >= 4 and source < files
                    memory = offsets.push_u64(cython.cast(cython.ulonglong, offset)) and sources.push_u32(
                        cython.cast(cython.uint, source) if named else NO_FILE
                    )
                    memory = memory and lines.push_u32(cython.cast(cython.uint, line + 1) if named else 0)
                    memory = memory and columns.push_u32(cython.cast(cython.uint, column + 1) if named else 0)
                    if not memory:
                        break
                field = 0
                if position < size and text[position] == SEMICOLON:
                    break
                position += 1
                continue
            value: cython.longlong = 0
            digits: cython.int = 0
            digit: cython.int = MORE
            while digit & MORE:
                digit = values[text[position]] if position < size else NO_DIGIT
                if digit == NO_DIGIT or digits == LONGEST:
                    digit = NO_DIGIT
                    break
                value |= cython.cast(cython.longlong, digit & (MORE - 1)) << (BITS * digits)
                digits += 1
                position += 1
            if digit == NO_DIGIT:
                fault = position
                break
            value = -(value >> 1) if value & 1 else value >> 1
            if field == 0:
                offset += value
            elif field == 1:
                source += value
            elif field == 2:
                line += value
            elif field == 3:
                column += value
            field += 1
            if not (0 <= offset < LIMIT and 0 <= source < LIMIT and 0 <= line < LIMIT - 1 and 0 <= column < LIMIT - 1):
                fault = position
                break
    if not memory:
        raise MemoryError
    return offsets, sources, lines, columns, fault
