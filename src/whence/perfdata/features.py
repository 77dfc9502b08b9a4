"""The feature sections of a perf.data: host, command line, event names, clocks, build-ids of files, BPF programs.

A bitmap in the header lists the sections; each has an offset and a size, so unknown sections are skipped. In the pipe
form each section is a record (HEADER_FEATURE). A string is a u32 length, padding included, and NUL-padded bytes. A
malformed section is ignored and counted in `damaged`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from whence._base.records import Record, field, replaced
from whence.perfdata import attributes
from whence.perfdata.attributes import Attribute
from whence.perfdata.bpf import BpfLines
from whence.perfdata.kernels import constants

BUILD_ID, HOST, SYSTEM, VERSION, MACHINE = 2, 3, 4, 5, 6
COMMAND, EVENTS, SAMPLE_TIMES, BPF_PROGRAMS, BPF_TYPES, COMPRESSION, CLOCK = 11, 12, 21, 25, 26, 27, 29
STRINGS = {HOST: "host", SYSTEM: "system", VERSION: "version", MACHINE: "machine"}

BUILD_ID_BYTES = 20
BUILD_ID_OFFSET = 12  # in a record: header, s32 pid
BUILD_ID_NAME = 36
HAS_LENGTH = 0x8000  # of misc: the byte after the id is its length


class Features(Record):
    """The contents of the sections. `build_ids` are by file name; `events` are attributes with their ids."""

    host: str = ""
    system: str = ""
    version: str = ""
    machine: str = ""
    command: tuple[str, ...] = ()
    build_ids: dict[str, str] = field(default_factory=dict)
    events: list[tuple[Attribute, tuple[int, ...]]] = field(default_factory=list)
    bpf: BpfLines = field(default_factory=BpfLines)
    clock_offset: int | None = None  # nanoseconds to add to times of the recording to get times since 1970
    damaged: list[int] = field(default_factory=list)  # numbers of malformed sections

    def read(self, number: int, data: bytes, big: bool) -> None:
        """Read a section."""
        order = ">" if big else "<"
        try:
            if number in STRINGS:
                setattr(self, STRINGS[number], text(data, 0, order)[0])
            elif number == COMMAND:
                self.command = tuple(texts(data, order))
            elif number == BUILD_ID:
                for name, build_id in build_ids(data, order):
                    self.build_ids.setdefault(name, build_id)
            elif number == EVENTS:
                self.events = list(described(data, order))
            elif number == BPF_PROGRAMS:
                self.bpf.read_programs(data, order)
            elif number == BPF_TYPES:
                self.bpf.read_btf(data, order)
            elif number == CLOCK:
                _, _, wall, clock = struct.unpack_from(order + "IIQQ", data)
                self.clock_offset = wall - clock
        except (ValueError, struct.error):
            self.damaged.append(number)

    def comments(self) -> list[str]:
        """Return lines about the recorder, its machine and the command."""
        lines = []
        where = ", ".join(filter(None, (self.host, self.machine, self.system and f"Linux {self.system}")))
        if where or self.version:
            lines.append(f"recorded by perf {self.version}".rstrip() + (f" on {where}" if where else ""))
        if self.command:
            lines.append(f"command: {' '.join(self.command)}")
        return lines


def text(data: bytes, offset: int, order: str) -> tuple[str, int]:
    """Return the string at `offset`, and the offset after it. Raise ValueError if it is truncated."""
    (size,) = struct.unpack_from(order + "I", data, offset)
    end = offset + 4 + size
    if end > len(data):
        raise ValueError("truncated string")
    return decoded(data[offset + 4 : end]), end


def decoded(data: bytes) -> str:
    return bytes(data).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def texts(data: bytes, order: str) -> Iterator[str]:
    (count,) = struct.unpack_from(order + "I", data)
    offset = 4
    for _ in range(count):
        item, offset = text(data, offset, order)
        yield item


def build_ids(data: bytes, order: str) -> Iterator[tuple[str, str]]:
    """Yield names and build-ids of consecutive BUILD_ID records. Raise ValueError if one is truncated."""
    offset = 0
    while offset + BUILD_ID_NAME <= len(data):
        _, misc, size = struct.unpack_from(order + "IHH", data, offset)
        if size < BUILD_ID_NAME or offset + size > len(data):
            raise ValueError("truncated record")
        yield build_id_record(data[offset : offset + size], misc)
        offset += size


def build_id_record(record: bytes, misc: int) -> tuple[str, str]:
    """Return the name and the build-id in a record, header included.

    Without a length, groups of four zeros at the end are padding, which recorders before Linux 5.10 wrote.
    """
    build_id = bytes(record[BUILD_ID_OFFSET : BUILD_ID_OFFSET + BUILD_ID_BYTES])
    if misc & HAS_LENGTH:
        build_id = build_id[: record[BUILD_ID_OFFSET + BUILD_ID_BYTES]]
    else:
        while build_id.endswith(bytes(4)):
            build_id = build_id[:-4]
    return decoded(record[BUILD_ID_NAME:]), build_id.hex()


def described(data: bytes, order: str) -> Iterator[tuple[Attribute, tuple[int, ...]]]:
    """Yield events with their names and ids. Raise ValueError if one is truncated."""
    count, size = struct.unpack_from(order + "II", data)
    offset = 8
    for _ in range(count):
        attribute, _ = attributes.parse(data[offset : offset + size], order == ">")
        offset += size
        (ids,) = struct.unpack_from(order + "I", data, offset)
        name, offset = text(data, offset + 4, order)
        if ids > (len(data) - offset) // 8:
            raise ValueError("truncated ids")
        yield replaced(attribute, name=name), struct.unpack_from(f"{order}{ids}Q", data, offset)
        offset += 8 * ids


def map_build_id(about: bytes) -> str:
    """Return the build-id in an MMAP2 record: u8 length, three bytes, the id."""
    return about[4 : 4 + min(about[0], BUILD_ID_BYTES)].hex()


assert constants.MMAP2_ABOUT == 4 + BUILD_ID_BYTES
