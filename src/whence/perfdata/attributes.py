"""perf_event_attr: an event and the layout of its records (include/uapi/linux/perf_event.h).

    0 type   4 size   8 config   16 period or frequency   24 sample_type   32 read_format   40 bits   64 config2
    72 branch_sample_type   80 sample_regs_user   88 sample_stack_user   92 clockid   96 sample_regs_intr

Fields past `size` are absent and read as 0. The bits are a C bit-field: on big-endian machines the first is the highest
of its byte.
"""

from __future__ import annotations

import struct

from whence._base.records import Record
from whence.perfdata.kernels import constants

SMALLEST = 64  # bytes, of the first version; also the meaning of a size of 0
LARGEST = 4096
MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

HARDWARE, SOFTWARE, TRACEPOINT, HW_CACHE, RAW, BREAKPOINT = range(6)
DUMMY = (SOFTWARE, 9)  # counts nothing; recorded for maps and names only
NAMES = {
    HARDWARE: (
        "cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles",
        "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
    ),
    SOFTWARE: (
        "cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults",
        "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches",
    ),
}  # fmt: skip

IS_FREQUENCY, HAS_TRAILER, HAS_CLOCK = 10, 18, 25  # bits


class Attribute(Record, frozen=True):
    """An event; `name` is "" where the recording has none."""

    type: int
    config: int
    period: int
    sample_type: int
    read_format: int
    bits: int
    branch_type: int = 0
    user_registers: int = 0  # mask of the registers in samples
    user_stack: int = 0  # limit of the stack copy in bytes
    inner_registers: int = 0
    clock: int | None = None  # such as CLOCK_MONOTONIC; None: the scheduler's clock
    name: str = ""

    def has(self, bit: int) -> bool:
        return bool(self.bits >> bit & 1)

    @property
    def is_dummy(self) -> bool:
        return (self.type, self.config) == DUMMY

    @property
    def shown(self) -> str:
        """The recorded name, or a name made of type and number."""
        if self.name:
            return self.name
        names = NAMES.get(self.type, ())
        return names[self.config] if self.config < len(names) else f"event-{self.type}:{self.config:#x}"

    @property
    def id_offset(self) -> int:
        """The offset of the event's id in a sample's body; -1 if it has none."""
        kind = self.sample_type
        if kind & constants.HAS_IDENTIFIER:
            return 0
        if not kind & constants.HAS_ID:
            return -1
        before = constants.HAS_IP, constants.HAS_TID, constants.HAS_TIME, constants.HAS_ADDR
        return 8 * sum(bool(kind & bit) for bit in before)

    @property
    def id_from_end(self) -> int:
        """The distance of the event's id from the end of a trailer; 0 if it has none."""
        kind = self.sample_type
        if not self.has(HAS_TRAILER):
            return 0
        if kind & constants.HAS_IDENTIFIER:
            return 8
        if not kind & constants.HAS_ID:
            return 0
        return 8 * (1 + bool(kind & constants.HAS_STREAM_ID) + bool(kind & constants.HAS_CPU))

    @property
    def row(self) -> tuple[int, ...]:
        """The numbers that `Records.set_events` needs."""
        period = 1 if self.has(IS_FREQUENCY) else self.period
        return (
            self.sample_type,
            self.read_format,
            self.branch_type,
            self.user_registers.bit_count(),
            self.inner_registers.bit_count(),
            (period & (1 << 63) - 1) << 1 | self.has(HAS_TRAILER),
        )


def parse(data: bytes, big: bool) -> tuple[Attribute, int]:
    """Return the attribute at the start of `data`, and its size in bytes. Raise ValueError if it is invalid."""
    order = ">" if big else "<"
    if len(data) < SMALLEST:
        raise ValueError(f"{len(data)} bytes, expected at least {SMALLEST}")
    size = struct.unpack_from(order + "I", data, 4)[0] or SMALLEST
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"size {size} is not between {SMALLEST} and {LARGEST}")
    fields = data[:size].ljust(LARGEST, b"\0")
    kind, _, config, period, sample_type, read_format = struct.unpack_from(order + "IIQQQQ", fields)
    flags = fields[40:48].translate(MIRRORED) if big else fields[40:48]
    branch_type, user_registers, user_stack, clock, inner_registers = struct.unpack_from(order + "QQIiQ", fields, 72)
    bits = int.from_bytes(flags, "little")
    attribute = Attribute(
        kind, config, period, sample_type, read_format, bits, branch_type, user_registers, user_stack, inner_registers,
        clock if bits >> HAS_CLOCK & 1 else None,
    )  # fmt: skip
    return attribute, size
