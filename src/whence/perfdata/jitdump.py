"""jitdump: what a JIT compiler writes down of its code, with times, moves and lines (Linux, tools/perf/util/jitdump.h).

    header   u32 magic "JiTD", u32 version 1, u32 its size, u32 ELF machine, u32, u32 pid, u64 time, u64 flags
    record   u32 type, u32 size, u64 time, then
      0 LOAD          u32 pid, tid, u64 vaddr, address, size, index, name NUL, the code
      1 MOVE          u32 pid, tid, u64 vaddr, old address, new address, size, index
      2 DEBUG_INFO    u64 address, count, then count x {u64 address, u32 line, discriminator, file NUL}: before its LOAD
      3 CLOSE
      4 UNWINDING_INFO  u64 size, u64 size of .eh_frame_hdr at its end, u64, .eh_frame, .eh_frame_hdr: before its LOAD

V8 (0xdeadbeef behind the machine) adds the 64 bytes of an ELF header to the addresses of lines, and writes senseless
file names of some scripts: rows with such are left out.

Records begin at the header's own size. A file name of ff 00 is the one before it. A record that is cut ends the file:
the process was killed. Times are those of CLOCK_MONOTONIC, or of the processor's counter (bit 0 of the flags).
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

from whence._base.budget import Budget
from whence._base.errors import WRONG_KIND, ProfileError
from whence._base.model import Frame, Frames, Source
from whence._base.records import Record, field
from whence.samples import bounds

MAGIC = b"DTiJ"  # as a little-endian machine writes it
VERSION = 1
HEADER, RECORD = 40, 16
LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING_INFO = range(5)
LOADED, MOVED, DEBUGGED, UNWINDS = struct.calcsize("<IIQQQQ"), struct.calcsize("<IIQQQQQ"), 16, 24
COUNTER_TIMES = 1  # a bit of the flags
V8_PADDING, V8_SHIFT = 0xDEADBEEF, 0x40
SAME_FILE = b"\xff"
ADDRESS_END = 1 << 64
EH_FRAME_ALIGN = 8  # .eh_frame counts its distances from where it lies: behind the code, at such an address


class JitCode(Record, frozen=True):
    """A function from `time` on at [address, address + size), with its lines: (offset, line, file), by offset.

    `eh_frame` says how to unwind it, as bytes at `eh_frame_address`; b"" where the compiler did not say.
    """

    time: int
    address: int
    size: int
    name: str
    lines: tuple[tuple[int, int, str], ...] = ()
    eh_frame: bytes = b""

    @property
    def eh_frame_address(self) -> int:
        end = self.address + self.size
        return end + -end % EH_FRAME_ALIGN

    def frames(self, address: int) -> Frames:
        """The frame of one of its addresses."""
        at = bisect_right(self.lines, address - self.address, key=lambda row: row[0]) - 1
        _, line, file = self.lines[at] if at >= 0 else (0, 0, "")
        return (Frame(self.name, file, line, source=Source.PERFMAP),)


class JitDump(Record):
    """All code of a dump in order of the file. `counter` says that times are of the processor's counter."""

    pid: int
    counter: bool
    code: list[JitCode] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def read(data: bytes, budget: Budget | None = None) -> JitDump:
    """The code that a dump records. ProfileError for what is no jitdump."""
    budget = budget or bounds.reading(len(data))
    order = "<" if data[:4] == MAGIC else ">"
    if data[:4] not in (MAGIC, MAGIC[::-1]):
        fault = "not a jitdump"
        raise ProfileError("jitdump", 0, 'the magic is "JiTD"', data[:4], fault=fault, code=WRONG_KIND)
    if len(data) < HEADER:
        raise ProfileError("jitdump", 0, f"the header has {HEADER} bytes", f"{len(data)}")
    version, size, _, padding, pid, _, flags = struct.unpack_from(order + "IIIIIQQ", data, 4)
    if version != VERSION:
        raise ProfileError("jitdump", 4, "the version is 1", str(version))
    out = JitDump(pid, bool(flags & COUNTER_TIMES))
    by_index: dict[int, JitCode] = {}
    lines: dict[int, tuple[tuple[int, int, str], ...]] = {}
    eh_frame = b""  # of the next LOAD

    def keep(code: JitCode, index: int, at: int) -> None:
        if code.eh_frame_address >= ADDRESS_END:
            out.problems.append(f"the record at {at:#x} has code that ends beyond 64 bits")
            return
        by_index[index] = code
        out.code.append(code)

    for at, kind, time, body in records(data, max(size, HEADER), order):
        try:
            if kind == LOAD:
                budget.charge(bounds.LOCATION + len(body))
                code = loaded(body, order, time, lines, eh_frame)
                eh_frame = b""
                keep(code, struct.unpack_from(order + "Q", body, LOADED - 8)[0], at)
            elif kind == MOVE:
                budget.charge(bounds.LOCATION)
                _, _, _, _, new, length, index = struct.unpack_from(order + "IIQQQQQ", body)
                old = by_index.get(index)
                if old is not None:
                    keep(JitCode(time, new, length, old.name, old.lines, old.eh_frame), index, at)
            elif kind == DEBUG_INFO:
                address, rows = debug_info(body, order, V8_SHIFT if padding == V8_PADDING else 0, budget)
                lines[address] = rows
            elif kind == UNWINDING_INFO:
                budget.charge(len(body))
                size, header_size, _ = struct.unpack_from(order + "QQQ", body)
                eh_frame = body[UNWINDS : max(UNWINDS, UNWINDS + size - header_size)]
            elif kind == CLOSE:
                break
        except (struct.error, ValueError):
            out.problems.append(f"the record at {at:#x} is shorter than what it says")
    return out


def records(data: bytes, at: int, order: str) -> Iterator[tuple[int, int, int, bytes]]:
    """Offset, type, time and body of each record that is whole."""
    while at + RECORD <= len(data):
        kind, size, time = struct.unpack_from(order + "IIQ", data, at)
        if size < RECORD or at + size > len(data):
            return
        yield at, kind, time, data[at + RECORD : at + size]
        at += size


def loaded(
    body: bytes, order: str, time: int, lines: dict[int, tuple[tuple[int, int, str], ...]], eh_frame: bytes
) -> JitCode:
    _, _, _, address, size, _ = struct.unpack_from(order + "IIQQQQ", body)
    end = body.index(b"\0", LOADED)
    name = body[LOADED:end].decode("utf-8", "surrogateescape")
    return JitCode(time, address, size, name, lines.pop(address, ()), eh_frame)


def debug_info(body: bytes, order: str, shift: int, budget: Budget) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """The address of the code, and its rows of lines; `shift` is what their addresses have too much."""
    address, count = struct.unpack_from(order + "QQ", body)
    at = DEBUGGED
    file = ""
    rows = []
    if count > len(body) // 17:
        raise ValueError("rows are cut")
    for _ in range(count):
        where, line, _ = struct.unpack_from(order + "QII", body, at)
        end = body.index(b"\0", at + 16)
        if body[at + 16 : end] != SAME_FILE:
            file = body[at + 16 : end].decode("utf-8", "surrogateescape")
        budget.charge(bounds.FRAME)
        if not file.isprintable():
            return address, ()
        rows.append((max(0, where - address - shift), line, file))
        at = end + 1
    if len(body) - at >= 8:  # more than padding: a name had zeros in it
        return address, ()
    return address, tuple(sorted(rows, key=lambda row: row[0]))
