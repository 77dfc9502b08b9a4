"""Find the registers and stack copies of samples in a recording, and store the unwound stacks.

After its call chain such a sample has: u64 ABI (0: no registers follow), a u64 for each register of the event's mask,
u64 size of the stack copy, its bytes, u64 number of valid bytes. Stack copies are not moved: offset and size are read.
"""

import cython
from cython.cimports.libc.string import memset
from cython.cimports.whence.kernels.bytes import u64
from cython.cimports.whence.kernels.checks import belong
from cython.cimports.whence.kernels.columns import Column, append_u64, u32s, u64s
from cython.cimports.whence.kernels.signals import handle_signals
from cython.cimports.whence.perfdata.kernels import constants as c
from cython.cimports.whence.perfdata.kernels.copies import UserState
from cython.cimports.whence.perfdata.kernels.records import Records

MAX_REGISTERS = cython.declare(cython.Py_ssize_t, 64)
NO_USER = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


@cython.final
@cython.cclass
class Copies:
    """Columns of samples of one event, stream and ABI, a row for each.

    The stack copy is `size` bytes at `offset` in the stream, and begins at the address `start`, the stack pointer.
    `values` has a row of the registers `registers[1:]` for each sample. `rest` are the samples of other kinds.
    """

    def __cinit__(self):
        self.sample, self.rest = Column("I"), Column("I")
        self.pc, self.values = Column("Q"), Column("Q")
        self.start, self.offset, self.size = Column("Q"), Column("Q"), Column("Q")

    def read(
        self,
        records: Records,
        samples: cython.const[cython.uint][::1],
        data: cython.const[cython.uchar][::1],
        register_count: cython.int,
        stack_limit: cython.ulonglong,
        registers: cython.const[cython.uchar][::1],
    ) -> None:
        """Read the samples that have event, stream and ABI of the first sample.

        `data` is their stream, `register_count` the number of registers of their event, `stack_limit` the size of the
        largest stack copy. `registers` are the indices of the pc, the stack pointer and others; if empty, only the
        numbers of the samples are stored.
        """
        state: UserState
        first: UserState
        row: cython.Py_ssize_t
        index: cython.Py_ssize_t
        good: cython.bint = True
        count: cython.Py_ssize_t = registers.shape[0]
        samples_count: cython.Py_ssize_t = records.sample_time.vector.count
        belong(self.sample.vector.count == 0 and self.rest.vector.count == 0)
        belong(records.sample_user.vector.count == samples_count)
        belong(0 <= register_count <= MAX_REGISTERS and count != 1)
        for index in range(count):
            belong(registers[index] < register_count)
        for row in range(samples.shape[0]):
            belong(samples[row] < samples_count)
        if samples.shape[0] == 0:
            return
        read_state(records, samples[0], data, register_count, stack_limit, cython.address(first))
        work: cython.Py_ssize_t = 0
        with cython.nogil:
            for row in range(samples.shape[0]):
                handle_signals(cython.address(work), 128)
                if is_same_kind(records, samples[row], samples[0]):
                    read_state(records, samples[row], data, register_count, stack_limit, cython.address(state))
                    if state.abi == first.abi:
                        good = self.sample.push_u32(samples[row])
                        if good and count and state.abi != c.ABI_NONE:
                            good = self._add(cython.address(state), registers, records.big)
                    else:
                        good = self.rest.push_u32(samples[row])
                else:
                    good = self.rest.push_u32(samples[row])
                if not good:
                    break
        if not good:
            raise MemoryError

    def _add(self, state, registers, big):
        """Add the registers and the stack copy of a sample. False if memory runs out."""
        index: cython.Py_ssize_t
        start: cython.ulonglong = u64(state.registers + 8 * registers[1], big)
        if not (
            self.pc.push_u64(u64(state.registers + 8 * registers[0], big))
            and self.start.push_u64(start)
            and self.offset.push_u64(state.offset)
            and self.size.push_u64(clipped(start, state.size))
            and self.values.reserve(registers.shape[0])
        ):
            return False
        for index in range(1, registers.shape[0]):
            append_u64(self.values, u64(state.registers + 8 * registers[index], big))
        return True


def abi_of(
    records: Records, sample: cython.uint, data: cython.const[cython.uchar][::1], register_count: cython.int
) -> int:
    """Return the ABI of a sample's registers; ABI_NONE if it has none, or they are truncated."""
    state: UserState
    belong(sample < records.sample_user.vector.count and sample < records.sample_event.vector.count)
    belong(0 <= register_count <= MAX_REGISTERS)
    read_state(records, sample, data, register_count, 0, cython.address(state))
    return state.abi


def add_stacks(
    pcs: Column,
    ends: cython.const[cython.ulonglong][::1],
    samples: cython.const[cython.uint][::1],
    addresses: Column,
    first: cython.ulonglong[::1],
    count: cython.uint[::1],
) -> None:
    """Append stacks to `addresses`, and set `first` and `count` of each sample to its stack.

    pcs[:ends[i]] are the pcs of the stacks of samples[:i + 1]. The address of a caller is the byte before its pc,
    inside the call.
    """
    row: cython.Py_ssize_t
    frame: cython.ulonglong
    begin: cython.ulonglong = 0
    belong(pcs is not None and pcs.typecode == "Q" and addresses is not None and addresses.takes(8))
    belong(pcs is not addresses and ends.shape[0] == samples.shape[0] and first.shape[0] == count.shape[0])
    for row in range(samples.shape[0]):
        belong(begin <= ends[row] <= cython.cast(cython.ulonglong, pcs.vector.count))
        belong(samples[row] < first.shape[0])
        begin = ends[row]
    if not addresses.reserve(pcs.vector.count):
        raise MemoryError
    begin = 0
    base: cython.Py_ssize_t = addresses.vector.count
    source: cython.p_ulonglong = u64s(pcs)
    out: cython.p_ulonglong = u64s(addresses) + base
    with cython.nogil:
        for row in range(samples.shape[0]):
            for frame in range(begin, ends[row]):
                pc: cython.ulonglong = source[frame]
                out[frame] = pc if frame == begin or pc == 0 else pc - 1
            first[samples[row]] = base + begin
            count[samples[row]] = cython.cast(cython.uint, ends[row] - begin)
            begin = ends[row]
        addresses.vector.count += begin


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def clipped(start: cython.ulonglong, size: cython.ulonglong) -> cython.ulonglong:
    """Return a size at `start`, reduced to end within the address space."""
    return size if start + size >= start else 0 - start - 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def is_same_kind(records: Records, sample: cython.uint, other: cython.uint) -> cython.bint:
    """Return True if two samples have the same event and stream."""
    user: cython.p_ulonglong = u64s(records.sample_user)
    event: cython.p_uint = u32s(records.sample_event)
    return (user[sample] ^ user[other]) >> c.SOURCE_SHIFT == 0 and event[sample] == event[other]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def read_state(
    records: Records, sample: cython.uint, data: cython.const[cython.uchar][::1], register_count: cython.int,
    stack_limit: cython.ulonglong, state: cython.pointer[UserState],
) -> cython.void:  # fmt: skip
    """Read the registers and the stack copy of a sample; a stack copy that does not fit is left out."""
    user: cython.ulonglong = u64s(records.sample_user)[sample]
    offset: cython.ulonglong = user & ((cython.cast(cython.ulonglong, 1) << c.SOURCE_SHIFT) - 1)
    total: cython.ulonglong = data.shape[0]
    big: cython.bint = records.big
    memset(state, 0, cython.sizeof(UserState))
    state.abi = c.ABI_NONE
    if user == NO_USER or offset > total or total - offset < cython.cast(cython.ulonglong, 8 * (register_count + 1)):
        return
    cursor: cython.p_const_uchar = cython.address(data[offset])
    state.abi = u64(cursor, big)
    if state.abi != c.ABI_NONE and state.abi != c.ABI_32:
        state.abi = c.ABI_64
    state.registers = cursor + 8
    left: cython.ulonglong = total - offset - 8 * (register_count + 1)
    cursor += 8 * (register_count + 1)
    if left < 8:
        return
    size: cython.ulonglong = u64(cursor, big)
    if size == 0 or size > stack_limit or left < 16 or size > left - 16:
        return
    state.offset = offset + 8 * (register_count + 2)
    state.size = u64(cursor + 8 + size, big)
    if state.size > size:
        state.size = size
