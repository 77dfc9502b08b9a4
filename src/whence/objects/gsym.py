"""GSYM files: the header, and where the tables of functions, files and names are.

Version 1 has a header of 48 bytes and tables in a fixed order. Version 2 has a header of 20 bytes and a list of
sections. LLVM's llvm-gsymutil writes both; docs/formats/gsym.md has the layout. `whence.exchange.gsym` reads the
functions.

    version 1   magic u32 · version u16 · address offset size u8 · UUID size u8 · base address u64 · functions u32 ·
                strings: offset u32, size u32 · UUID 20 bytes;
                address offsets (aligned to their size) · info offsets u32 (aligned to 4) · files · strings · infos
    version 2   magic u32 · version u16 · address offset size u8 · string encoding u8 · base address u64 ·
                functions u32; sections: type u32 · offset u64 · size u64, up to one of type 0
"""

from __future__ import annotations

import struct

from whence._base.errors import UNSUPPORTED, GsymError, cut_off, naming, wrong_magic
from whence._base.forks import cached_property
from whence._base.records import Record
from whence.objects.elf.kernels.constants import PF_R, PF_X, PT_LOAD
from whence.objects.elf.segments import Segment
from whence.objects.ids import DebugId
from whence.objects.names_only import NamesFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

    from typing_extensions import Buffer

    from whence._base.mapped import MappedFile
    from whence._base.window import ByteOrder

MAGIC: Final = 0x4753594D
LITTLE_MAGIC: Final = struct.pack("<I", MAGIC)
BIG_MAGIC: Final = struct.pack(">I", MAGIC)
HEADER: Final = "IHBBQI"  # common to all versions
HEADER_REST: Final = "II20s"  # of version 1
HEADER_SIZE: Final = 48
HEADER_SIZE_2: Final = 20
SECTION: Final = "IQQ"
SECTION_SIZE: Final = 20
UUID_SIZE: Final = 20
FIRST, SECOND = 1, 2  # versions
WIDTHS = (1, 2, 4, 8)  # of an address offset
END, ADDRESSES, INFO_OFFSETS, STRINGS, FILES, INFOS, UUID = range(7)  # types of sections
NEEDED = {ADDRESSES: "address offsets", INFO_OFFSETS: "info offsets", STRINGS: "strings", FILES: "files"}
NEEDED[INFOS] = "function infos"
MOST_SECTIONS = 64
MOST_ID = 64  # bytes
LAST_VADDR = (1 << 64) - 1


class GsymTables(Record, frozen=True):
    """The positions of the tables, as [start, end) in the file, and the widths of their numbers.

    version: 1 or 2.
    base: added to the address offsets.
    count: the number of functions.
    width: bytes of an address offset.
    info_width, name_width: bytes of an info offset, and of an offset of a string.
    infos: what info offsets count from; 0 in version 1, where they are offsets in the file.
    """

    version: int
    base: int
    count: int
    width: int
    info_width: int
    name_width: int
    addresses: tuple[int, int]
    info_offsets: tuple[int, int]
    files: tuple[int, int]
    strings: tuple[int, int]
    infos: int
    identity: bytes


class GsymFile(NamesFile):
    """A GSYM file, mapped: functions with lines and inlined calls, but neither sections nor code.

    Vaddrs are those of the file that it was made from. A malformed header raises GsymError.
    """

    error = GsymError
    format = "GSYM"

    def __init__(self, data: Buffer, path: str = "", mapped: MappedFile | None = None, start: int = 0) -> None:
        super().__init__(data, path, mapped, start)
        with naming(path):
            self.bits, self.machine = 64, 0
            self.order = order_of(self.data)
            self.tables = read_header(self.data, self.order)
            self.check()

    @property
    def build_id(self) -> str:
        """The UUID in lowercase hex, which is the build-id of an ELF file; "" if the file has none."""
        identity = self.tables.identity
        return identity.hex() if any(identity) else ""

    @property
    def debug_id(self) -> DebugId:
        """The build-id as a GUID. The format does not say whether it is a UUID, which has no other byte order."""
        return DebugId.of_build_id(self.build_id)

    @property
    def image_base(self) -> int:
        """0, as in shared libraries: the format does not say it."""
        return 0

    @property
    def details(self) -> dict[str, str]:
        return {"GSYM version": str(self.tables.version), "functions": str(self.tables.count)}

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Return the addresses from the first function to the end of the last, without bytes."""
        tables = self.tables
        if not tables.count:
            return ()

        def number(start: int, size: int) -> int:
            return int.from_bytes(self.data[start : start + size], self.order)

        first = tables.base + number(tables.addresses[0], tables.width)
        last = tables.base + number(tables.addresses[1] - tables.width, tables.width)
        info = tables.infos + number(tables.info_offsets[1] - tables.info_width, tables.info_width)
        end = min(last + max(number(info, 4), 1), LAST_VADDR)
        return (Segment(PT_LOAD, PF_R | PF_X, 0, first, 0, max(end - first, 0), 1),)


def order_of(data: memoryview) -> ByteOrder:
    """Return the byte order of a file by its magic. Raises GsymError."""
    if data[:4] not in (LITTLE_MAGIC, BIG_MAGIC):
        raise wrong_magic(GsymError, "a GSYM file", data[:4], LITTLE_MAGIC, BIG_MAGIC)
    return "little" if data[:4] == LITTLE_MAGIC else "big"


def read_header(data: memoryview, order: ByteOrder) -> GsymTables:
    """Return where the tables are. Raises GsymError if the header or a table extends past the end of the file."""
    sign = "<" if order == "little" else ">"
    if len(data) < HEADER_SIZE_2:
        raise cut_off(GsymError, "header", 0, HEADER_SIZE_2, len(data))
    _, version, width, _, _, _ = struct.unpack_from(sign + HEADER, data)
    if version not in (FIRST, SECOND):
        raise GsymError("header", 4, f"version {version}, expected {FIRST} or {SECOND}", code=UNSUPPORTED)
    if width not in WIDTHS:
        raise GsymError("header", 6, f"an address offset has {width} bytes, expected 1, 2, 4 or 8", found=width)
    return first_version(data, sign) if version == FIRST else second_version(data, sign)


def first_version(data: memoryview, sign: str) -> GsymTables:
    """Return the tables of version 1."""
    if len(data) < HEADER_SIZE:
        raise cut_off(GsymError, "header", 0, HEADER_SIZE, len(data))
    _, version, width, uuid_size, base, count = struct.unpack_from(sign + HEADER, data)
    strings, strings_size, uuid = struct.unpack_from(sign + HEADER_REST, data, HEADER_SIZE_2)
    if uuid_size > UUID_SIZE:
        raise GsymError("header", 7, f"the UUID has {uuid_size} bytes, at most {UUID_SIZE} fit", found=uuid_size)
    addresses = aligned(HEADER_SIZE, width), aligned(HEADER_SIZE, width) + count * width
    info_offsets = aligned(addresses[1], 4), aligned(addresses[1], 4) + 4 * count
    check_inside("address offsets", addresses, data)
    check_inside("info offsets", info_offsets, data)
    files = files_of(data, sign, info_offsets[1], 4)
    check_inside("strings", (strings, strings + strings_size), data)
    return GsymTables(
        version, base, count, width, 4, 4, addresses, info_offsets, files, (strings, strings + strings_size), 0,
        uuid[:uuid_size],
    )  # fmt: skip


def second_version(data: memoryview, sign: str) -> GsymTables:
    """Return the tables of version 2."""
    _, version, width, encoding, base, count = struct.unpack_from(sign + HEADER, data)
    if encoding:
        raise GsymError("header", 7, f"string encoding {encoding}, expected 0", found=encoding, code=UNSUPPORTED)
    sections: dict[int, tuple[int, int]] = {}
    for index in range(MOST_SECTIONS):
        offset = HEADER_SIZE_2 + index * SECTION_SIZE
        if offset + SECTION_SIZE > len(data):
            raise cut_off(GsymError, "section table", offset, SECTION_SIZE, len(data) - offset)
        kind, start, size = struct.unpack_from(sign + SECTION, data, offset)
        if kind == END:
            break
        check_inside(NEEDED.get(kind, f"section {kind}"), (start, start + size), data)
        sections.setdefault(kind, (start, start + size))
    else:
        raise GsymError("section table", None, f"more than {MOST_SECTIONS} sections")
    for kind, what in NEEDED.items():
        if kind not in sections:
            raise GsymError("section table", None, f"the {what} (section {kind}) are missing")
    for kind, size in ((ADDRESSES, width), (INFO_OFFSETS, 8)):
        start, end = sections[kind]
        if end - start != count * size:
            fault = f"the {NEEDED[kind]} have {end - start} bytes, expected {count * size} for {count} functions"
            raise GsymError("section table", None, fault)
    files = files_of(data, sign, sections[FILES][0], 8)
    start, end = sections.get(UUID, (0, 0))
    return GsymTables(
        version, base, count, width, 8, 8, sections[ADDRESSES], sections[INFO_OFFSETS], files, sections[STRINGS],
        sections[INFOS][0], bytes(data[start : min(end, start + MOST_ID)]),
    )  # fmt: skip


def files_of(data: memoryview, sign: str, start: int, width: int) -> tuple[int, int]:
    """Return where the pairs of the table of files are, whose count is at `start`."""
    if start + 4 > len(data):
        raise cut_off(GsymError, "files", start, 4, max(0, len(data) - start))
    (count,) = struct.unpack_from(sign + "I", data, start)
    files = start + 4, start + 4 + 2 * width * count
    check_inside("files", files, data)
    return files


def check_inside(part: str, bounds: tuple[int, int], data: memoryview) -> None:
    """Raise GsymError if [start, end) is not in the file."""
    start, end = bounds
    if end > len(data):
        raise cut_off(GsymError, part, start, end - start, max(0, len(data) - start))


def aligned(offset: int, to: int) -> int:
    """Return the next multiple of `to`."""
    return -(-offset // to) * to
