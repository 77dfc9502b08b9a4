"""Kernel: the directory of an MSF file, which lists the blocks of every stream.

The directory is a count of streams, their sizes (0xffffffff: the stream does not exist), and the numbers of the blocks
of one stream after the other. A block belongs to one stream: otherwise a small file could claim streams of any size.
Stream 0 is the previous directory, whose blocks may be in use again; it is never read.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.whence.kernels.bytes import u32
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.signals import handle_signals

NO_STREAM = cython.declare(cython.uint, 0xFFFFFFFF)

VALID, CUT_OFF, OUTSIDE, SHARED = range(4)  # faults of a stream
IS_CUT_OFF = cython.declare(cython.uchar, CUT_OFF)
IS_OUTSIDE = cython.declare(cython.uchar, OUTSIDE)
IS_SHARED = cython.declare(cython.uchar, SHARED)


def read_directory(
    directory: cython.const[cython.uchar][::1],
    block_size: cython.uint,
    block_count: cython.uint,
    starts: cython.uint[::1],
    faults: cython.uchar[::1],
) -> None:
    """Write the index of the first block number of each stream in the directory, in words, and the stream's fault."""
    count: cython.Py_ssize_t = starts.shape[0]
    words: cython.Py_ssize_t = directory.shape[0] // 4
    belong(block_size > 0 and faults.shape[0] == count and count < words)
    data: cython.p_const_uchar = cython.address(directory[0])
    used: cython.p_uchar = cython.cast(cython.p_uchar, calloc(block_count // 8 + 1, 1))
    if used == cython.NULL:
        raise MemoryError
    index: cython.Py_ssize_t
    position: cython.Py_ssize_t = 1 + count
    work: cython.Py_ssize_t = 0
    try:
        with cython.nogil:
            for index in range(count):
                size: cython.uint = u32(data + 4 * (1 + index), False)
                starts[index] = cython.cast(cython.uint, min(position, words))
                faults[index] = 0
                if size == NO_STREAM:
                    continue
                blocks: cython.Py_ssize_t = size // block_size + (size % block_size > 0)
                if blocks > words - position:
                    faults[index] = IS_CUT_OFF
                    position = words
                    continue
                stop: cython.Py_ssize_t = position + blocks
                while position < stop:
                    block: cython.uint = u32(data + 4 * position, False)
                    position += 1
                    if block >= block_count:
                        faults[index] = IS_OUTSIDE
                    elif index == 0:
                        continue
                    elif used[block >> 3] >> (block & 7) & 1:
                        if faults[index] == 0:
                            faults[index] = IS_SHARED
                    else:
                        used[block >> 3] |= 1 << (block & 7)
                handle_signals(cython.address(work), blocks + 1)
    finally:
        free(used)
