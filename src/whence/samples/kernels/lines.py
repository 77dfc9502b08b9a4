"""The lines of every location, from chains that locations share.

Location i has chain[i]; chain c has the frames in rows [first[c], first[c + 1]) of its columns.
"""

import cython
from cython.cimports.libc.stdlib import calloc, free
from cython.cimports.whence.kernels.checks import all_below, are_ends, belong
from cython.cimports.whence.kernels.columns import Column, u32s
from cython.cimports.whence.kernels.hashtable import (
    HashIndex,
    Probe,
    first_match,
    insert,
    mix,
    next_match,
    release_index,
    reserve_index,
)
from cython.cimports.whence.kernels.signals import handle_signals


@cython.cfunc
@cython.inline
def are_chains(
    chain: cython.const[cython.uint][::1], first: cython.const[cython.uint][::1], rows: cython.Py_ssize_t
) -> cython.bint:
    """Return True if the chains exist, and their frames are in `rows` rows."""
    chains: cython.Py_ssize_t = first.shape[0] - 1
    return (
        chains >= 0
        and are_ends(first, rows)
        and all_below(chain, chain.shape[0], cython.cast(cython.ulonglong, chains))
    )


def count(chain: cython.const[cython.uint][::1], first: cython.const[cython.uint][::1]) -> int:
    """Return the number of lines of all locations. Raise ValueError for inconsistent columns."""
    location: cython.Py_ssize_t
    lines: cython.Py_ssize_t = 0
    belong(first.shape[0] > 0 and are_chains(chain, first, first[first.shape[0] - 1]))
    with cython.nogil:
        for location in range(chain.shape[0]):
            lines += first[chain[location] + 1] - first[chain[location]]
    return lines


def of_locations(
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.uint][::1],
    function: cython.const[cython.ulonglong][::1],
    line: cython.const[cython.ulonglong][::1],
) -> tuple[Column, Column, Column]:
    """Return the index of each location's first line (one more at the end), and all functions and line numbers.

    Raises ValueError for inconsistent columns.
    """
    starts: Column = Column("Q")
    functions: Column = Column("Q")
    lines: Column = Column("Q")
    location: cython.Py_ssize_t
    row: cython.uint
    good: cython.bint = starts.reserve(chain.shape[0] + 1)
    belong(function.shape[0] == line.shape[0] and are_chains(chain, first, line.shape[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        good = good and starts.push_u64(0)
        for location in range(chain.shape[0]):
            handle_signals(cython.address(work), 4)
            for row in range(first[chain[location]], first[chain[location] + 1]):
                good = good and functions.push_u64(function[row]) and lines.push_u64(line[row])
            good = good and starts.push_u64(functions.vector.count)
    if not good:
        raise MemoryError
    return starts, functions, lines


def functions_of(
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.uint][::1],
    name: cython.const[cython.uint][::1],
    file: cython.const[cython.uint][::1],
    start_line: cython.const[cython.ulonglong][::1],
    seed: cython.ulonglong,
) -> tuple[Column, Column]:
    """Return the number of each frame's function, and for each function the first row that has it.

    Functions differ by name, file or start line, and are numbered in order of their first location. Frames of chains
    without a location have function 0. `seed` is random. Raises ValueError for inconsistent columns.
    """
    frames: cython.Py_ssize_t = name.shape[0]
    numbers: Column = Column("I")
    samples: Column = Column("I")
    index: HashIndex = HashIndex(cython.NULL, 0, 0)
    location: cython.Py_ssize_t
    row: cython.uint
    function_count: cython.uint = 0
    belong(file.shape[0] == frames and start_line.shape[0] == frames and are_chains(chain, first, frames))
    seen: cython.p_uchar = cython.cast(cython.p_uchar, calloc(first.shape[0] + 1, 1))
    good: cython.bint = (
        seen != cython.NULL
        and numbers.reserve(frames + 1)
        and samples.reserve(frames + 1)
        and reserve_index(cython.address(index), frames)
    )
    if good:
        number_of: cython.p_uint = u32s(numbers)
        row_of: cython.p_uint = u32s(samples)
        with cython.nogil:
            for row in range(cython.cast(cython.uint, frames)):
                number_of[row] = 0
            for location in range(chain.shape[0]):
                if seen[chain[location]]:
                    continue
                seen[chain[location]] = 1
                for row in range(first[chain[location]], first[chain[location] + 1]):
                    hash: cython.ulonglong = mix(cython.cast(cython.ulonglong, name[row]) << 32 | file[row], seed)
                    hash = mix(hash ^ start_line[row], seed)
                    probe: Probe = first_match(cython.address(index), hash)
                    matched: cython.bint = False
                    while not matched and next_match(cython.address(index), cython.address(probe)):
                        other: cython.uint = row_of[probe.item]
                        matched = (
                            name[other] == name[row]
                            and file[other] == file[row]
                            and start_line[other] == start_line[row]
                        )
                    if matched:
                        number_of[row] = probe.item
                    else:
                        row_of[function_count] = row
                        number_of[row] = function_count
                        good = good and insert(cython.address(index), hash, function_count)
                        function_count += 1
        numbers.vector.count = frames
        samples.vector.count = function_count
    release_index(cython.address(index))
    free(seen)
    if not good:
        raise MemoryError
    return numbers, samples


def kinds(
    file: cython.const[cython.uint][::1],
    line: cython.const[cython.ulonglong][::1],
    inlined: cython.const[cython.uchar][::1],
    has_file: cython.uchar,
    has_line: cython.uchar,
    is_inlined: cython.uchar,
) -> Column:
    """Return bits for each frame: `has_file`, `has_line` and `is_inlined`, if they apply. Text 0 is not a file.

    Raises ValueError for inconsistent columns.
    """
    out: Column = Column("B")
    row: cython.Py_ssize_t
    belong(file.shape[0] == line.shape[0] == inlined.shape[0])
    if not out.reserve(file.shape[0] + 1):
        raise MemoryError
    for row in range(file.shape[0]):
        out.vector.items[row] = (
            (has_file if file[row] else 0) | (has_line if line[row] else 0) | (is_inlined if inlined[row] else 0)
        )
    out.vector.count = file.shape[0]
    return out


def mark(
    mapping: cython.const[cython.longlong][::1],
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.uint][::1],
    bits: cython.const[cython.uchar][::1],
    out: cython.uchar[::1],
) -> None:
    """Set in out[j] the bits of all frames of the locations of mapping j; locations without a mapping have -1.

    Raises ValueError for inconsistent columns.
    """
    location: cython.Py_ssize_t
    frame: cython.uint
    good: cython.bint = True
    belong(mapping.shape[0] == chain.shape[0] and are_chains(chain, first, bits.shape[0]))
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        for location in range(chain.shape[0]):
            handle_signals(cython.address(work), 2)
            if mapping[location] < 0:
                continue
            good = mapping[location] < out.shape[0]
            if not good:
                break
            for frame in range(first[chain[location]], first[chain[location] + 1]):
                out[mapping[location]] |= bits[frame]
    belong(good)


def census(
    chain: cython.const[cython.uint][::1],
    first: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    source: cython.const[cython.uchar][::1],
    counts: cython.ulonglong[::1],
) -> int:
    """Return how many locations have a line in their innermost frame; add to `counts` the outermost source of each.

    Raises ValueError for inconsistent columns.
    """
    location: cython.Py_ssize_t
    with_lines: cython.Py_ssize_t = 0
    belong(line.shape[0] == source.shape[0] and counts.shape[0] == 256 and are_chains(chain, first, line.shape[0]))
    with cython.nogil:
        for location in range(chain.shape[0]):
            begin: cython.uint = first[chain[location]]
            end: cython.uint = first[chain[location] + 1]
            if begin < end:
                with_lines += line[begin] != 0
                counts[source[end - 1]] += 1
    return with_lines
