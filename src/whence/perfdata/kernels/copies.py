"""Registers and copies of stacks that samples hold, taken from where they lie in a recording; and what they became.

Behind the call chain of such a sample: u64 ABI (0: no registers follow), a u64 for each register of the event's mask,
u64 size of the copy, its bytes, u64 how many of them are valid. A copy stays where it is: what is taken is where it
begins, and its size.
"""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.kernels.bytes import u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, u32s, u64s
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.copies import Reading
from cython.cimports.whence.perfdata.kernels.records import Records

MOST_REGISTERS = cython.declare(cython.Py_ssize_t, 64)
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Copies:
    """Columns of the samples of one kind, a row for each: of one event, stream and ABI. The stack's memory is
    `size` bytes of the stream from `at` on, and begins at the address that the stack pointer has.

    `values` has a row of registers for each, that of `picked[1:]`. `rest` are the samples of other kinds.
    """

    def __cinit__(self):
        self.sample, self.rest = Column("I"), Column("I")
        self.pc, self.values = Column("Q"), Column("Q")
        self.start, self.at, self.size = Column("Q"), Column("Q"), Column("Q")

    def take(
        self,
        records: Records,
        samples: cython.const[cython.uint][::1],
        data: cython.const[cython.uchar][::1],
        registers: cython.int,
        stack_limit: cython.ulonglong,
        picked: cython.const[cython.uchar][::1],
    ) -> None:
        """Take the samples that are of the first one's kind. `data` is its stream, `registers` how many its event has,
        `stack_limit` the largest copy, `picked` which registers are wanted: the pc, the stack pointer, then others; b""
        takes the samples' numbers alone."""
        one: Reading
        kind: Reading
        row: cython.Py_ssize_t
        index: cython.Py_ssize_t
        register: cython.p_const_uchar
        good: cython.bint = True
        wanted: cython.Py_ssize_t = picked.shape[0]
        count: cython.Py_ssize_t = records.sample_time.vector.count
        belong(self.sample.vector.count == 0 and self.rest.vector.count == 0)
        belong(records.sample_user.vector.count == count and 0 <= registers <= MOST_REGISTERS and wanted != 1)
        for index in range(wanted):
            belong(picked[index] < registers)
        for row in range(samples.shape[0]):
            belong(samples[row] < count)
        if samples.shape[0] == 0:
            return
        read(records, samples[0], data, registers, stack_limit, cython.address(kind))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(samples.shape[0]):
                handle_signals(cython.address(work), 128)
                if not is_of(records, samples[row], samples[0]):
                    good = self.rest.push_u32(samples[row])
                else:
                    read(records, samples[row], data, registers, stack_limit, cython.address(one))
                    if one.abi != kind.abi:
                        good = self.rest.push_u32(samples[row])
                    else:
                        good = self.sample.push_u32(samples[row])
                        if wanted and one.abi != c.ABI_NONE:
                            good = (
                                good
                                and self.pc.push_u64(u64(one.registers + 8 * picked[0], records.big))
                                and self.start.push_u64(u64(one.registers + 8 * picked[1], records.big))
                                and self.at.push_u64(one.at)
                                and self.size.push_u64(inside(self.start, one.size))
                                and self.values.reserve(wanted)
                            )
                            for index in range(1, wanted):
                                register = one.registers + 8 * picked[index]
                                good = good and self.values.push_u64(u64(register, records.big))
                if not good:
                    break
        if not good:
            raise MemoryError


def abi_of(records: Records, sample: cython.uint, data: cython.const[cython.uchar][::1], registers: cython.int) -> int:
    """The ABI of a sample's registers; ABI_NONE where it has none, or they are cut."""
    one: Reading
    belong(sample < records.sample_user.vector.count and sample < records.sample_event.vector.count)
    belong(0 <= registers <= MOST_REGISTERS)
    read(records, sample, data, registers, 0, cython.address(one))
    return one.abi


def keep(
    found: Column,
    ends: cython.const[cython.ulonglong][::1],
    samples: cython.const[cython.uint][::1],
    addresses: Column,
    first: cython.ulonglong[::1],
    count: cython.uint[::1],
) -> None:
    """Put stacks behind those in `addresses`, and where that of each sample is into its row of `first` and `count`.

    found[:ends[i]] are the pcs of the stacks of samples[:i + 1]. A caller's address is the byte before the pc, inside
    the call.
    """
    row: cython.Py_ssize_t
    frame: cython.ulonglong
    begin: cython.ulonglong = 0
    pc: cython.ulonglong
    pcs: cython.p_ulonglong
    out: cython.p_ulonglong
    base: cython.Py_ssize_t
    belong(found is not None and found.typecode == "Q" and addresses is not None and addresses.takes(8))
    belong(found is not addresses and ends.shape[0] == samples.shape[0] and first.shape[0] == count.shape[0])
    for row in range(samples.shape[0]):
        belong(begin <= ends[row] <= cython.cast(cython.ulonglong, found.vector.count))
        belong(samples[row] < first.shape[0])
        begin = ends[row]
    if not addresses.reserve(found.vector.count):
        raise MemoryError
    begin = 0
    base = addresses.vector.count
    pcs = u64s(found)
    out = u64s(addresses) + base
    with cython.nogil:
        for row in range(samples.shape[0]):
            for frame in range(begin, ends[row]):
                pc = pcs[frame]
                out[frame] = pc if frame == begin or pc == 0 else pc - 1
            first[samples[row]] = base + begin
            count[samples[row]] = cython.cast(cython.uint, ends[row] - begin)
            begin = ends[row]
        addresses.vector.count += begin


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def inside(starts: Column, size: cython.ulonglong) -> cython.ulonglong:
    """The part of a size that ends in the address space, from the last of some addresses on."""
    start: cython.ulonglong = u64s(starts)[starts.vector.count - 1]
    return size if start + size >= start else 0 - start - 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_of(records: Records, sample: cython.uint, other: cython.uint) -> cython.bint:
    """Whether two samples are of one event and stream."""
    user: cython.p_ulonglong = u64s(records.sample_user)
    event: cython.p_uint = u32s(records.sample_event)
    return (user[sample] ^ user[other]) >> c.SOURCE_SHIFT == 0 and event[sample] == event[other]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read(
    records: Records, sample: cython.uint, data: cython.const[cython.uchar][::1], registers: cython.int,
    stack_limit: cython.ulonglong, out: cython.pointer[Reading],
) -> cython.void:  # fmt: skip
    """What a sample has; of its stack nothing where the size is not that of what lies there."""
    user: cython.ulonglong = u64s(records.sample_user)[sample]
    at: cython.ulonglong = user & ((cython.cast(cython.ulonglong, 1) << c.SOURCE_SHIFT) - 1)
    total: cython.ulonglong = data.shape[0]
    here: cython.p_const_uchar
    size: cython.ulonglong
    left: cython.ulonglong
    big: cython.bint = records.big
    memset(out, 0, cython.sizeof(Reading))
    out.abi = c.ABI_NONE
    if user == NO_USER or at > total or total - at < cython.cast(cython.ulonglong, 8 * (registers + 1)):
        return
    here = cython.address(data[at])
    out.abi = u64(here, big)
    if out.abi != c.ABI_NONE and out.abi != c.ABI_32:
        out.abi = c.ABI_64
    out.registers = here + 8
    left = total - at - 8 * (registers + 1)
    here += 8 * (registers + 1)
    if left < 8:
        return
    size = u64(here, big)
    if size == 0 or size > stack_limit or left < 16 or size > left - 16:
        return
    out.at = at + 8 * (registers + 2)
    out.size = u64(here + 8 + size, big)
    if out.size > size:
        out.size = size
