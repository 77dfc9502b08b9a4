"""perf_event_attr: what an event is, and how its records lie (include/uapi/linux/perf_event.h).

    0 type   4 size   8 config   16 period or frequency   24 sample_type   32 read_format   40 bits   64 config2
    72 branch_sample_type   80 sample_regs_user   88 sample_stack_user   92 clockid   96 sample_regs_intr

Later fields are absent where `size` ends before them, and then 0. The bits are a C bit-field: on big-endian machines
the first one is the highest of its byte.
"""

from __future__ import annotations

import struct

from whence._base.records import Record
from whence.perfdata.kernels import constants

SMALLEST = 64  # bytes, of the first version; a size of 0 means it
LARGEST = 4096
MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))

HARDWARE, SOFTWARE, TRACEPOINT, HW_CACHE, RAW, BREAKPOINT = range(6)
DUMMY = (SOFTWARE, 9)  # an event that counts nothing, for maps and names alone
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
    """One event as it was recorded. `name` is what the recorder called it, else made of its type."""

    type: int
    config: int
    period: int
    sample_type: int
    read_format: int
    bits: int
    branch_type: int = 0
    user_registers: int = 0  # a mask: which registers samples have
    user_stack: int = 0  # bytes of the stack that samples have at most
    inner_registers: int = 0
    clock: int | None = None  # CLOCK_MONOTONIC and such; None: the scheduler's
    name: str = ""

    def has(self, bit: int) -> bool:
        return bool(self.bits >> bit & 1)

    @property
    def is_dummy(self) -> bool:
        return (self.type, self.config) == DUMMY

    @property
    def shown(self) -> str:
        """The name, or one by type and number."""
        if self.name:
            return self.name
        known = NAMES.get(self.type, ())
        return known[self.config] if self.config < len(known) else f"event-{self.type}:{self.config:#x}"

    @property
    def id_at(self) -> int:
        """Where in a sample's body the id of its event is; -1: nowhere."""
        kind = self.sample_type
        if kind & constants.HAS_IDENTIFIER:
            return 0
        if not kind & constants.HAS_ID:
            return -1
        before = constants.HAS_IP, constants.HAS_TID, constants.HAS_TIME, constants.HAS_ADDR
        return 8 * sum(bool(kind & one) for one in before)

    @property
    def id_from_end(self) -> int:
        """How far before the end of a trailer the id of its event is; 0: nowhere."""
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
        """What `Records.set_events` takes of it."""
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
    """The attribute that some bytes begin with, and how many it says it has. ValueError when it is cut or senseless."""
    order = ">" if big else "<"
    if len(data) < SMALLEST:
        raise ValueError(f"it has {len(data)} bytes")
    size = struct.unpack_from(order + "I", data, 4)[0] or SMALLEST
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"its size is {size}")
    whole = data[:size].ljust(LARGEST, b"\0")
    kind, _, config, period, sample_type, read_format = struct.unpack_from(order + "IIQQQQ", whole)
    flags = whole[40:48].translate(MIRRORED) if big else whole[40:48]
    branch_type, user_registers, user_stack, clock, inner_registers = struct.unpack_from(order + "QQIiQ", whole, 72)
    bits = int.from_bytes(flags, "little")
    attribute = Attribute(
        kind, config, period, sample_type, read_format, bits, branch_type, user_registers, user_stack, inner_registers,
        clock if bits >> HAS_CLOCK & 1 else None,
    )  # fmt: skip
    return attribute, size
