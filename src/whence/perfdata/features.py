"""The feature sections of a perf.data: who recorded it, where and how, and the build-ids of files.

Which sections there are is a bitmap in the header; each is given by offset and size, so that unknown ones are passed
over. In the pipe form each is a record (HEADER_FEATURE). A string is a u32 length with its padding, and NUL-padded
bytes. A section that breaks its own rules is left out, and says so.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from whence._base.records import Record, field, replaced
from whence.perfdata import attributes
from whence.perfdata.attributes import Attribute
from whence.perfdata.kernels import constants

BUILD_ID, HOST, SYSTEM, VERSION, MACHINE = 2, 3, 4, 5, 6
COMMAND, EVENTS, SAMPLE_TIMES, COMPRESSION, CLOCK = 11, 12, 21, 27, 29
STRINGS = {HOST: "host", SYSTEM: "system", VERSION: "version", MACHINE: "machine"}

BUILD_ID_BYTES = 20
BUILD_ID_AT = 12  # in a record: header, s32 pid
BUILD_ID_NAME_AT = 36
LENGTH_TOLD = 0x8000  # of misc: the byte behind the id is its length


class Features(Record):
    """What the sections hold. `build_ids` are by file name; `events` are attributes with names and ids."""

    host: str = ""
    system: str = ""
    version: str = ""
    machine: str = ""
    command: tuple[str, ...] = ()
    build_ids: dict[str, str] = field(default_factory=dict)
    events: list[tuple[Attribute, tuple[int, ...]]] = field(default_factory=list)
    clock_offset: int | None = None  # nanoseconds from the recording's clock to those since 1970
    damaged: list[int] = field(default_factory=list)  # numbers of sections that break their rules

    def read(self, number: int, data: bytes, big: bool) -> None:
        """Take in a section."""
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
            elif number == CLOCK:
                _, _, wall, clock = struct.unpack_from(order + "IIQQ", data)
                self.clock_offset = wall - clock
        except (ValueError, struct.error):
            self.damaged.append(number)

    def comments(self) -> list[str]:
        """What a profile says of where it comes from."""
        out = []
        where = ", ".join(filter(None, (self.host, self.machine, self.system and f"Linux {self.system}")))
        if where or self.version:
            out.append(f"recorded by perf {self.version}".rstrip() + (f" on {where}" if where else ""))
        if self.command:
            out.append(f"command: {' '.join(self.command)}")
        return out


def text(data: bytes, at: int, order: str) -> tuple[str, int]:
    """A string, and where the next thing is. ValueError when it is cut."""
    (size,) = struct.unpack_from(order + "I", data, at)
    if at + 4 + size > len(data):
        raise ValueError("a string is cut")
    return decoded(data[at + 4 : at + 4 + size]), at + 4 + size


def decoded(data: bytes) -> str:
    return bytes(data).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


def texts(data: bytes, order: str) -> Iterator[str]:
    (count,) = struct.unpack_from(order + "I", data)
    at = 4
    for _ in range(count):
        found, at = text(data, at, order)
        yield found


def build_ids(data: bytes, order: str) -> Iterator[tuple[str, str]]:
    """Names and build-ids: records of BUILD_ID one after another, as far as they are whole."""
    at = 0
    while at + BUILD_ID_NAME_AT <= len(data):
        _, misc, size = struct.unpack_from(order + "IHH", data, at)
        if size < BUILD_ID_NAME_AT or at + size > len(data):
            raise ValueError("a record is cut")
        yield build_id_record(data[at : at + size], misc)
        at += size


def build_id_record(record: bytes, misc: int) -> tuple[str, str]:
    """The name and the build-id in a record with its header. Where its length is not given, zeros at its end are none
    of it, four at a time: recorders before Linux 5.10 padded shorter ones."""
    whole = bytes(record[BUILD_ID_AT : BUILD_ID_AT + BUILD_ID_BYTES])
    if misc & LENGTH_TOLD:
        whole = whole[: record[BUILD_ID_AT + BUILD_ID_BYTES]]
    else:
        while whole.endswith(bytes(4)):
            whole = whole[:-4]
    return decoded(record[BUILD_ID_NAME_AT:]), whole.hex()


def described(data: bytes, order: str) -> Iterator[tuple[Attribute, tuple[int, ...]]]:
    """Events with their names and ids."""
    count, size = struct.unpack_from(order + "II", data)
    at = 8
    for _ in range(count):
        attribute, _ = attributes.parse(data[at : at + size], order == ">")
        at += size
        (ids,) = struct.unpack_from(order + "I", data, at)
        name, at = text(data, at + 4, order)
        if ids > (len(data) - at) // 8:
            raise ValueError("ids are cut")
        yield named(attribute, name), struct.unpack_from(f"{order}{ids}Q", data, at)
        at += 8 * ids


def named(attribute: Attribute, name: str) -> Attribute:
    return replaced(attribute, name=name)


def map_build_id(about: bytes) -> str:
    """The build-id in an MMAP2 record that has one: u8 length, three bytes, the id."""
    return about[4 : 4 + min(about[0], BUILD_ID_BYTES)].hex()


assert constants.MMAP2_ABOUT == 4 + BUILD_ID_BYTES
