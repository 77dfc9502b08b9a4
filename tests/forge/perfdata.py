"""Forge perf.data: records, events and features, of either byte order, in file or pipe form."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from whence.perfdata.header import FEATURE_BITS, FILE_SIZE, PIPE_SIZE
from whence.perfdata.kernels import constants
from whence.perfdata.magic import MAGIC

KIND = (
    constants.HAS_IP | constants.HAS_TID | constants.HAS_TIME | constants.HAS_ID | constants.HAS_PERIOD
    | constants.HAS_CALLCHAIN | constants.HAS_CPU
)  # fmt: skip
ATTRIBUTE = 128
TRAILER, CLOCK = 18, 25  # bits of attributes
KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512  # marks in call chains
KERNEL_PID = 0xFFFFFFFF


class Forge:
    """Makes records of one machine; `big` is its byte order, `kind` the sample_type of its events."""

    def __init__(self, big: bool = False, kind: int = KIND, *, trailer: bool = True) -> None:
        self.order = ">" if big else "<"
        self.kind, self.trailer = kind, trailer

    def pack(self, format: str, *values: object) -> bytes:
        return struct.pack(self.order + format, *values)

    def record(self, type: int, body: bytes, misc: int = constants.IN_USER) -> bytes:
        body += bytes(-len(body) % 8)
        return self.pack("IHH", type, misc, 8 + len(body)) + body

    def end(self, pid: int, tid: int, time: int, id: int = 1, cpu: int = 0) -> bytes:
        """Return the trailer of a record other than a sample."""
        out = b""
        if not self.trailer:
            return out
        if self.kind & constants.HAS_TID:
            out += self.pack("II", pid, tid)
        if self.kind & constants.HAS_TIME:
            out += self.pack("Q", time)
        if self.kind & constants.HAS_ID:
            out += self.pack("Q", id)
        if self.kind & constants.HAS_STREAM_ID:
            out += self.pack("Q", id)
        if self.kind & constants.HAS_CPU:
            out += self.pack("II", cpu, 0)
        if self.kind & constants.HAS_IDENTIFIER:
            out += self.pack("Q", id)
        return out

    def attribute(
        self, type: int = 1, config: int = 0, *, kind: int | None = None, bits: Iterable[int] = (), period: int = 1,
        read_format: int = 0, branch_type: int = 0, user_registers: int = 0, stack: int = 0, size: int = ATTRIBUTE,
        clock: int | None = None,
    ) -> bytes:  # fmt: skip
        flags = [*bits, *([TRAILER] if self.trailer else []), *([CLOCK] if clock is not None else [])]
        field = bytearray(8)
        for bit in flags:
            field[bit // 8] |= 1 << (7 - bit % 8 if self.order == ">" else bit % 8)
        head = self.pack("IIQQQQ", type, size, config, period, self.kind if kind is None else kind, read_format)
        rest = self.pack("IIQQQQIi", 0, 0, 0, 0, branch_type, user_registers, stack, clock or 0)
        return (head + bytes(field) + rest).ljust(size, b"\0")[:size]

    def mmap2(
        self, pid: int, start: int, size: int, offset: int, path: str, time: int = 0, *, build_id: str = "",
        prot: int = 5, misc: int = constants.IN_USER,
    ) -> bytes:  # fmt: skip
        about = bytes(24)
        if build_id:
            full = bytes.fromhex(build_id)
            about = bytes([len(full), 0, 0, 0]) + full.ljust(20, b"\0")
            misc |= constants.MAP_HAS_BUILD_ID
        body = self.pack("IIQQQ", pid, pid, start, size, offset) + about + self.pack("II", prot, 2)
        name = path.encode() + b"\0"
        return self.record(10, body + name + bytes(-len(name) % 8) + self.end(pid, pid, time), misc)

    def mmap(self, pid: int, start: int, size: int, offset: int, path: str, time: int = 0, misc: int = 2) -> bytes:
        name = path.encode() + b"\0"
        body = self.pack("IIQQQ", pid, 0, start, size, offset) + name + bytes(-len(name) % 8)
        return self.record(1, body + self.end(pid, pid, time), misc)

    def comm(self, pid: int, tid: int, name: str, time: int = 0, *, exec: bool = False) -> bytes:
        text = name.encode() + b"\0"
        body = self.pack("II", pid, tid) + text + bytes(-len(text) % 8) + self.end(pid, tid, time)
        return self.record(3, body, constants.COMM_IS_EXEC if exec else 0)

    def fork(self, pid: int, parent: int, tid: int, parent_tid: int, time: int) -> bytes:
        body = self.pack("IIIIQ", pid, parent, tid, parent_tid, time) + self.end(pid, tid, time)
        return self.record(7, body, 0)

    def exit(self, pid: int, time: int) -> bytes:
        return self.record(4, self.pack("IIIIQ", pid, pid, pid, pid, time) + self.end(pid, pid, time), 0)

    def lost(self, count: int, time: int) -> bytes:
        return self.record(2, self.pack("QQ", 1, count) + self.end(1, 1, time), 0)

    def sample(
        self, pid: int, tid: int, time: int, chain: Sequence[int], *, period: int = 1, id: int = 1, cpu: int = 0,
        misc: int = constants.IN_USER, ip: int | None = None, tail: bytes = b"",
    ) -> bytes:  # fmt: skip
        """A sample; `tail` are the bytes of the fields after the call chain."""
        kind, out = self.kind, b""
        first = next((each for each in chain if each < (1 << 64) - 4096), 0) if ip is None else ip
        fields = (
            (constants.HAS_IDENTIFIER, "Q", (id,)), (constants.HAS_IP, "Q", (first,)),
            (constants.HAS_TID, "II", (pid, tid)),
            (constants.HAS_TIME, "Q", (time,)), (constants.HAS_ADDR, "Q", (0,)), (constants.HAS_ID, "Q", (id,)),
            (constants.HAS_STREAM_ID, "Q", (id,)), (constants.HAS_CPU, "II", (cpu, 0)),
            (constants.HAS_PERIOD, "Q", (period,)),
        )  # fmt: skip
        for bit, format, values in fields:
            if kind & bit:
                out += self.pack(format, *values)
        if kind & constants.HAS_CALLCHAIN:
            out += self.pack(f"Q{len(chain)}Q", len(chain), *chain)
        return self.record(9, out + tail, misc)

    def user(self, registers: Sequence[int], stack: bytes, *, abi: int = 2) -> bytes:
        """Return the fields of REGS_USER and STACK_USER, after the call chain of a sample."""
        size = self.pack("Q", len(stack)) + (stack + self.pack("Q", len(stack)) if stack else b"")
        return self.pack("Q", abi) + (self.pack(f"{len(registers)}Q", *registers) if abi else b"") + size

    def file(
        self, records: bytes | Sequence[bytes], events: Sequence[tuple[bytes, Sequence[int]]] = (),
        features: dict[int, bytes] | None = None, *, data_size: int | None = None,
    ) -> bytes:  # fmt: skip
        """The file form: header, ids, attributes, data, features."""
        events = events or [(self.attribute(), [1])]
        data = records if isinstance(records, bytes) else b"".join(records)
        ids = b"".join(self.pack(f"{len(each)}Q", *each) for _, each in events)
        table = b""
        offset = FILE_SIZE
        for attribute, own in events:
            table += attribute + self.pack("QQ", offset, 8 * len(own))
            offset += 8 * len(own)
        start = FILE_SIZE + len(ids) + len(table)
        size = len(data) if data_size is None else data_size
        words = [0] * (FEATURE_BITS // 64)
        for bit in features or {}:
            words[bit // 64] |= 1 << bit % 64
        entry = len(events[0][0]) + 16
        magic = MAGIC if self.order == "<" else MAGIC[::-1]
        head = magic + self.pack("QQQQQQQQ", FILE_SIZE, entry, FILE_SIZE + len(ids), len(table), start, size, 0, 0)
        head += self.pack("4Q", *words)
        sections = sorted((features or {}).items())
        offset = start + len(data) + 16 * len(sections)
        rows = b""
        for _, body in sections:
            rows += self.pack("QQ", offset, len(body))
            offset += len(body)
        return head + ids + table + data + rows + b"".join(body for _, body in sections)

    def pipe(
        self, records: bytes | Sequence[bytes], events: Sequence[tuple[bytes, Sequence[int]]] = (),
        features: dict[int, bytes] | None = None,
    ) -> bytes:  # fmt: skip
        """The pipe form: events and features are records."""
        data = records if isinstance(records, bytes) else b"".join(records)
        magic = MAGIC if self.order == "<" else MAGIC[::-1]
        out = magic + self.pack("Q", PIPE_SIZE)
        for attribute, ids in events or [(self.attribute(), [1])]:
            out += self.record(constants.HEADER_ATTR, attribute + self.pack(f"{len(ids)}Q", *ids), 0)
        for bit, body in (features or {}).items():
            out += self.record(constants.HEADER_FEATURE, self.pack("Q", bit) + body, 0)
        return out + data

    def text(self, value: str) -> bytes:
        """A string of a feature."""
        full = value.encode() + b"\0"
        full += bytes(-len(full) % 64)
        return self.pack("I", len(full)) + full

    def build_ids(self, rows: Iterable[tuple[str, str]]) -> bytes:
        """The build-id feature: names and ids."""
        out = b""
        for name, build_id in rows:
            full = bytes.fromhex(build_id)
            text = name.encode() + b"\0"
            text += bytes(-len(text) % 64)
            body = self.pack("i", -1) + full.ljust(20, b"\0") + bytes([len(full), 0, 0, 0]) + text
            out += self.pack("IHH", 0, 0x8002, 8 + len(body)) + body
        return out
