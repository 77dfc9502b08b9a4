"""jitdump: code recorded by a JIT compiler, with times, moves and lines (Linux, tools/perf/util/jitdump.h).

    header   u32 magic "JiTD", u32 version 1, u32 header size, u32 ELF machine, u32, u32 pid, u64 time, u64 flags
    record   u32 type, u32 size, u64 time, then
      0 LOAD          u32 pid, tid, u64 vaddr, address, size, index, name NUL, the code
      1 MOVE          u32 pid, tid, u64 vaddr, old address, new address, size, index
      2 DEBUG_INFO    u64 address, count, then count x {u64 address, u32 line, discriminator, file NUL}: before its LOAD
      3 CLOSE
      4 UNWINDING_INFO  u64 size, u64 size of .eh_frame_hdr at its end, u64, .eh_frame, .eh_frame_hdr: before its LOAD

V8 (0xdeadbeef after the machine) adds the 64 bytes of an ELF header to the addresses of lines, and writes invalid file
names for some scripts: such rows are left out.

Records begin at the offset that the header's size gives. A file name of ff 00 repeats the previous one. A truncated
record ends the file: the process was killed. Times are of CLOCK_MONOTONIC, or of the processor's counter (bit 0 of the
flags).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

from whence._base.budget import Budget
from whence._base.errors import ProfileError, cut_off, wrong_magic
from whence._base.model import Frame, Frames, Source
from whence._base.records import Record, field
from whence.samples import bounds

MAGIC = b"DTiJ"  # as a little-endian machine writes it
VERSION = 1
HEADER, RECORD = 40, 16
LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING_INFO = range(5)
LOAD_NAME, DEBUG_ROWS, EH_FRAME = struct.calcsize("<IIQQQQ"), 16, 24  # offsets in a record's body
COUNTER_TIMES = 1  # a bit of the flags
V8_PADDING, V8_SHIFT = 0xDEADBEEF, 0x40
SAME_FILE = b"\xff"
ADDRESS_END = 1 << 64
EH_FRAME_ALIGN = 8

Lines = tuple[tuple[int, int, str], ...]
"""Rows of (offset in the code, line, file), by offset."""


class JitCode(Record, frozen=True):
    """A function that has been at [address, address + size) since `time`.

    `eh_frame` is its call frame information at `eh_frame_address`; b"" if the compiler wrote none.
    """

    time: int
    address: int
    size: int
    name: str
    lines: Lines = ()
    eh_frame: bytes = b""

    @property
    def eh_frame_address(self) -> int:
        """The address that .eh_frame is relative to: after the code, aligned."""
        end = self.address + self.size
        return end + -end % EH_FRAME_ALIGN

    def frames(self, address: int) -> Frames:
        """Return the frame at an address in the code."""
        index = bisect_right(self.lines, address - self.address, key=lambda row: row[0]) - 1
        _, line, file = self.lines[index] if index >= 0 else (0, 0, "")
        return (Frame(self.name, file, line, source=Source.PERFMAP),)


class JitDump(Record):
    """The code of a dump, in file order. With `counter`, times are of the processor's counter."""

    pid: int
    counter: bool
    code: list[JitCode] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    by_index: dict[int, JitCode] = field(default_factory=dict)  # the latest code of each index

    def add(self, code: JitCode, index: int, offset: int) -> None:
        """Add the code of the record at `offset`."""
        if code.eh_frame_address >= ADDRESS_END:
            self.problems.append(f"the code of the record at {offset:#x} extends past 64-bit addresses")
            return
        self.by_index[index] = code
        self.code.append(code)


def read(data: bytes, budget: Budget | None = None) -> JitDump:
    """Read the code in a dump. Raise ProfileError if the bytes are not a jitdump."""
    budget = budget or bounds.reading(len(data))
    order = "<" if data[:4] == MAGIC else ">"
    if data[:4] not in (MAGIC, MAGIC[::-1]):
        raise wrong_magic(ProfileError, "a jitdump", data[:4], MAGIC, MAGIC[::-1])
    if len(data) < HEADER:
        raise cut_off(ProfileError, "jitdump header", 0, HEADER, len(data))
    version, size, _, padding, pid, _, flags = struct.unpack_from(order + "IIIIIQQ", data, 4)
    if version != VERSION:
        raise ProfileError(
            "jitdump header", 4, f"version {version} is not supported, expected {VERSION}", found=version
        )
    dump = JitDump(pid, bool(flags & COUNTER_TIMES))
    lines: dict[int, Lines] = {}
    eh_frame = b""  # of the next LOAD
    for offset, kind, time, body in records(data, max(size, HEADER), order):
        try:
            if kind == LOAD:
                budget.charge(bounds.LOCATION + len(body))
                code = loaded_code(body, order, time, lines, eh_frame)
                eh_frame = b""
                dump.add(code, struct.unpack_from(order + "Q", body, LOAD_NAME - 8)[0], offset)
            elif kind == MOVE:
                budget.charge(bounds.LOCATION)
                _, _, _, _, address, size, index = struct.unpack_from(order + "IIQQQQQ", body)
                old = dump.by_index.get(index)
                if old is not None:
                    dump.add(JitCode(time, address, size, old.name, old.lines, old.eh_frame), index, offset)
            elif kind == DEBUG_INFO:
                address, rows = debug_info(body, order, V8_SHIFT if padding == V8_PADDING else 0, budget)
                lines[address] = rows
            elif kind == UNWINDING_INFO:
                budget.charge(len(body))
                size, header_size, _ = struct.unpack_from(order + "QQQ", body)
                eh_frame = body[EH_FRAME : max(EH_FRAME, EH_FRAME + size - header_size)]
            elif kind == CLOSE:
                break
        except (struct.error, ValueError):
            dump.problems.append(f"the record at {offset:#x} is truncated")
    return dump


def records(data: bytes, offset: int, order: str) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield offset, type, time and body of each complete record."""
    while offset + RECORD <= len(data):
        kind, size, time = struct.unpack_from(order + "IIQ", data, offset)
        if size < RECORD or offset + size > len(data):
            return
        yield offset, kind, time, data[offset + RECORD : offset + size]
        offset += size


def loaded_code(body: bytes, order: str, time: int, lines: dict[int, Lines], eh_frame: bytes) -> JitCode:
    """Return the code of a LOAD record, with the lines recorded for its address."""
    _, _, _, address, size, _ = struct.unpack_from(order + "IIQQQQ", body)
    name = body[LOAD_NAME : body.index(b"\0", LOAD_NAME)].decode("utf-8", "surrogateescape")
    return JitCode(time, address, size, name, lines.pop(address, ()), eh_frame)


def debug_info(body: bytes, order: str, shift: int, budget: Budget) -> tuple[int, Lines]:
    """Return the address of the code and its lines; `shift` is subtracted from the rows' addresses."""
    address, count = struct.unpack_from(order + "QQ", body)
    offset = DEBUG_ROWS
    file = ""
    rows = []
    if count > len(body) // 17:
        raise ValueError("truncated rows")
    for _ in range(count):
        row_address, line, _ = struct.unpack_from(order + "QII", body, offset)
        end = body.index(b"\0", offset + 16)
        if body[offset + 16 : end] != SAME_FILE:
            file = body[offset + 16 : end].decode("utf-8", "surrogateescape")
        budget.charge(bounds.FRAME)
        if not file.isprintable():
            return address, ()
        rows.append((max(0, row_address - address - shift), line, file))
        offset = end + 1
    if len(body) - offset >= 8:  # more than padding: a name contained zeros
        return address, ()
    return address, tuple(sorted(rows, key=lambda row: row[0]))
