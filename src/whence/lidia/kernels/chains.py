"""Chains of frames that equal the one before: addresses in order ask for the same lines again and again."""

import cython
from cython.cimports.whence.kernels.checks import are_ends, belong
from cython.cimports.whence.kernels.columns import Column
from cython.cimports.whence.kernels.signals import handle_signals


def runs(
    starts: cython.const[cython.uint][::1],
    range_index: cython.const[cython.uint][::1],
    line: cython.const[cython.uint][::1],
    column: cython.const[cython.uint][::1],
    discriminator: cython.const[cython.uint][::1],
) -> tuple[Column, Column, Column]:
    """Which run of equal chains each address is in, the rows of each run's frames, and where each run's begin there.

    The frames of address i are rows [starts[i], starts[i + 1]); a run has those of its first address. Run 0 has none,
    and addresses without frames are in it. The last of the starts is the number of rows. ValueError for columns that
    do not belong together, MemoryError.
    """
    run_of: Column = Column("I")
    kept: Column = Column("I")
    run_starts: Column = Column("I")
    frames: cython.Py_ssize_t = line.shape[0]
    count: cython.Py_ssize_t = starts.shape[0] - 1
    address: cython.Py_ssize_t
    size: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0  # of the run's frames
    at: cython.Py_ssize_t
    row: cython.Py_ssize_t
    frame: cython.Py_ssize_t = 0
    before: cython.Py_ssize_t = -1  # how many frames the run's chain has
    same: cython.bint
    room: cython.bint = run_of.reserve(count + 1) and run_starts.reserve(count + 3) and kept.reserve(frames + 1)
    belong(
        count >= 0
        and starts[0] == 0
        and are_ends(starts, frames)
        and starts[count] == frames
        and range_index.shape[0] == frames
        and column.shape[0] == frames
        and discriminator.shape[0] == frames
    )
    if not room:
        raise MemoryError
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        run_starts.push_u32(0)
        for address in range(count):
            handle_signals(cython.address(work), 4)
            row = starts[address]
            size = starts[address + 1] - row
            if size == 0:
                run_of.push_u32(0)
                continue
            same = size == before
            at = 0
            while same and at < size:
                same = (
                    range_index[row + at] == range_index[first + at]
                    and line[row + at] == line[first + at]
                    and column[row + at] == column[first + at]
                    and discriminator[row + at] == discriminator[first + at]
                )
                at += 1
            if not same:
                run_starts.push_u32(cython.cast(cython.uint, kept.vector.count))
                for frame in range(row, row + size):
                    kept.push_u32(cython.cast(cython.uint, frame))
                first, before = row, size
            run_of.push_u32(cython.cast(cython.uint, run_starts.vector.count - 1))
        run_starts.push_u32(cython.cast(cython.uint, kept.vector.count))
    return run_of, kept, run_starts
