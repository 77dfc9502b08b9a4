"""The lines of every location: chains that locations share, written out for each of them."""

import cython
from cython.cimports.whence.kernels.checks import are_inside, belong
from cython.cimports.whence.kernels.columns import Column


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def holds(first: cython.const[cython.ulonglong][::1], chain: cython.uint) -> cython.bint:
    """Whether there is such a chain."""
    return cython.cast(cython.Py_ssize_t, chain) + 1 < first.shape[0]


def of_locations(
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.ulonglong][::1],
    function: cython.const[cython.ulonglong][::1],
    line: cython.const[cython.ulonglong][::1],
) -> tuple[Column, Column, Column]:
    """Where the lines of each location start (and the last one's end), and all their functions and line numbers.

    Location i has those of chain[i]; chain c has rows [first[c], first[c + 1]) of `function` and `line`. ValueError for
    columns that do not belong together, MemoryError.
    """
    starts: Column = Column("Q")
    functions: Column = Column("Q")
    lines: Column = Column("Q")
    location: cython.Py_ssize_t
    row: cython.ulonglong
    begin: cython.ulonglong
    end: cython.ulonglong
    good: cython.bint = True
    room: cython.bint = starts.reserve(chain.shape[0] + 1)
    belong(first.shape[0] > 0 and function.shape[0] == line.shape[0] and are_inside(first, first, line.shape[0]))
    with cython.nogil:
        room = room and starts.push_u64(0)
        for location in range(chain.shape[0]):
            good = holds(first, chain[location])
            if not (good and room):
                break
            begin = first[chain[location]]
            end = first[chain[location] + 1]
            if begin < end:
                room = functions.reserve(end - begin) and lines.reserve(end - begin)
            for row in range(begin, end):
                if not room:
                    break
                room = functions.push_u64(function[row]) and lines.push_u64(line[row])
            room = room and starts.push_u64(functions.vector.count)
    belong(good)
    if not room:
        raise MemoryError
    return starts, functions, lines


def mark(
    mapping: cython.const[cython.longlong][::1],
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.ulonglong][::1],
    bits: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> None:
    """Set in out[j] the bits of all frames of each location of mapping j; locations of no mapping have -1.

    Location i has chain[i]; chain c has frames [first[c], first[c + 1]). ValueError for columns that do not belong
    together.
    """
    location: cython.Py_ssize_t
    frame: cython.ulonglong
    good: cython.bint = True
    belong(mapping.shape[0] == chain.shape[0] and are_inside(first, first, bits.shape[0]))
    with cython.nogil:
        for location in range(chain.shape[0]):
            if mapping[location] < 0:
                continue
            good = mapping[location] < out.shape[0] and holds(first, chain[location])
            if not good:
                break
            for frame in range(first[chain[location]], first[chain[location] + 1]):
                out[mapping[location]] |= bits[frame]
    belong(good)
