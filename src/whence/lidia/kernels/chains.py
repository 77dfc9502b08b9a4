"""Merge equal consecutive chains of frames: sorted addresses often have the same lines."""

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
    """Return the run of each address, the rows of the runs' frames, and the start of each run among these rows.

    The frames of address i are rows [starts[i], starts[i + 1]). A run of equal consecutive chains has the frames of its
    first address. Run 0 is empty and has all addresses without frames. The last start is the number of rows. Raises
    ValueError for columns of different lengths.
    """
    run_of: Column = Column("I")
    rows: Column = Column("I")
    run_starts: Column = Column("I")
    frames: cython.Py_ssize_t = line.shape[0]
    count: cython.Py_ssize_t = starts.shape[0] - 1
    address: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0  # of the run's frames
    frame: cython.Py_ssize_t = 0
    run_size: cython.Py_ssize_t = -1  # frames of the run's chain
    reserved: cython.bint = run_of.reserve(count + 1) and run_starts.reserve(count + 3) and rows.reserve(frames + 1)
    belong(
        count >= 0
        and starts[0] == 0
        and are_ends(starts, frames)
        and starts[count] == frames
        and range_index.shape[0] == frames
        and column.shape[0] == frames
        and discriminator.shape[0] == frames
    )
    if not reserved:
        raise MemoryError
    work: cython.Py_ssize_t = 0
    with cython.nogil:
        run_starts.push_u32(0)
        for address in range(count):
            handle_signals(cython.address(work), 4)
            row: cython.Py_ssize_t = starts[address]
            size: cython.Py_ssize_t = starts[address + 1] - row
            if size == 0:
                run_of.push_u32(0)
                continue
            same: cython.bint = size == run_size
            level: cython.Py_ssize_t = 0
            while same and level < size:
                same = (
                    range_index[row + level] == range_index[first + level]
                    and line[row + level] == line[first + level]
                    and column[row + level] == column[first + level]
                    and discriminator[row + level] == discriminator[first + level]
                )
                level += 1
            if not same:
                run_starts.push_u32(cython.cast(cython.uint, rows.vector.count))
                for frame in range(row, row + size):
                    rows.push_u32(cython.cast(cython.uint, frame))
                first, run_size = row, size
            run_of.push_u32(cython.cast(cython.uint, run_starts.vector.count - 1))
        run_starts.push_u32(cython.cast(cython.uint, rows.vector.count))
    return run_of, rows, run_starts
