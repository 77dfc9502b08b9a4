"""The headers of a PE file: sections with long names, directories, the image base and the CodeView record."""

from __future__ import annotations

import base64
import struct

from whence._base.budget import Budget
from whence._base.errors import PeError, cut_off, empty_file, wrong_magic
from whence._base.records import Record, replaced
from whence._base.window import cstring
from whence.objects.machines import EM_AARCH64, EM_X86_64
from whence.objects.parts import ObjectSection
from whence.objects.pe import layout

NAME_LIMIT = 4096
NAMES_TIMES, NAMES_ALLOWANCE = 16, 1 << 20  # names of sections may overlap in the string table


class PeHeader(Record, frozen=True):
    """The headers. Offsets are file offsets, `base` is the preferred image base, `entry` a vaddr."""

    machine: int
    time: int
    characteristics: int
    section_count: int
    sections_offset: int
    symbols_offset: int
    symbol_count: int
    bits: int
    base: int
    entry: int
    image_size: int
    headers_size: int
    directories: tuple[tuple[int, int], ...]  # RVA and size
    is_object: bool = False  # the input of a linker
    is_big: bool = False  # with section numbers of 32 bits

    @property
    def symbol_size(self) -> int:
        return layout.BIG_SYMBOL_SIZE if self.is_big else layout.SYMBOL_SIZE

    @property
    def names_offset(self) -> int:
        return self.symbols_offset + self.symbol_size * self.symbol_count

    def directory(self, index: int) -> tuple[int, int]:
        """Return RVA and size of a directory; (0, 0) if the file has none."""
        return self.directories[index] if index < len(self.directories) else (0, 0)


class PeSection(Record, ObjectSection, frozen=True):
    """A section header. `size` is in bytes without the padding in the file, `memory_size` as loaded."""

    index: int
    name: str
    vaddr: int
    file_offset: int
    size: int
    memory_size: int
    flags: int
    allocated: bool
    relocations: tuple[int, int] = (0, 0)  # file offset and count, in an object file

    @property
    def align(self) -> int:
        shift = self.flags >> layout.ALIGN_SHIFT & layout.ALIGN_MASK
        return 1 << shift - 1 if shift else 1

    @property
    def compressed(self) -> bool:
        return self.name.startswith(".zdebug_")

    @property
    def in_file(self) -> bool:
        """True if the file has its bytes: not for .bss."""
        return self.file_offset > 0

    @property
    def executable(self) -> bool:
        return bool(self.flags & (layout.EXECUTE | layout.CODE))

    @property
    def grouped(self) -> bool:
        return bool(self.relocations[1] and self.flags & layout.COMDAT)

    @property
    def part(self) -> str:
        """The section's name in errors."""
        return f"section {self.name or self.index}"


def read_header(data: memoryview) -> PeHeader:
    """Return the headers. Raises PeError if the file has another format or is cut off."""
    if not len(data):
        raise empty_file(PeError)
    if data[:2] != layout.DOS_MAGIC:
        header = read_object_header(data)
        if header is None:
            raise wrong_magic(PeError, "a PE file", data[:2], layout.DOS_MAGIC)
        return header
    start = _unpack("<I", data, layout.HEADER_OFFSET)[0]
    if data[start : start + 4] != layout.MAGIC:
        raise wrong_magic(PeError, "a PE file, but a DOS program", data[start : start + 4], layout.MAGIC)
    machine, sections, time, symbols, count, size, characteristics = _unpack(layout.COFF, data, start + 4)
    optional = start + 4 + struct.calcsize(layout.COFF)
    kind = _unpack("<H", data, optional)[0]
    if kind not in layout.BASE:
        raise PeError("header", optional, f"the optional header's magic is {kind:#x}, expected 0x10b or 0x20b")
    form, offset = layout.BASE[kind]
    base = _unpack(form, data, optional + offset)[0]
    entry = _unpack("<I", data, optional + layout.ENTRY_RVA)[0]
    image_size = _unpack("<I", data, optional + layout.IMAGE_SIZE)[0]
    headers_size = _unpack("<I", data, optional + layout.HEADERS_SIZE)[0]
    first = layout.DIRECTORIES[kind]
    listed = min(_unpack("<I", data, optional + first - 4)[0], max(0, size - first) // 8, 16)
    directories = tuple(_unpack("<II", data, optional + first + 8 * index) for index in range(listed))
    return PeHeader(
        machine,
        time,
        characteristics,
        sections,
        optional + size,
        symbols,
        count if symbols else 0,
        32 if kind == layout.PE32 else 64,
        base,
        base + entry if entry else 0,
        image_size,
        headers_size,
        directories,  # type: ignore[arg-type]
    )


def read_object_header(data: memoryview) -> PeHeader | None:
    """Return the header of a COFF object file, also of a bigobj file; None if the bytes are not such a header."""
    if data[:4] == layout.BIG_MARK and len(data) >= struct.calcsize(layout.BIG_HEADER):
        _, _, version, machine, class_id, sections, symbols, count = struct.unpack_from(layout.BIG_HEADER, data)
        big, size, flags, offset = True, 0, 0, struct.calcsize(layout.BIG_HEADER)
        if version < layout.BIG_VERSION or class_id != layout.BIG_CLASS_ID:
            return None
    elif len(data) >= struct.calcsize(layout.COFF):
        machine, sections, _, symbols, count, size, flags = struct.unpack_from(layout.COFF, data)
        big, offset = False, struct.calcsize(layout.COFF)
    else:
        return None
    machine_number = layout.MACHINES.get(machine, 0)
    if not machine_number or size or flags & (layout.IMAGE_DLL | layout.IMAGE_EXECUTABLE) or not sections:
        return None
    if symbols and symbols < offset + sections * struct.calcsize(layout.SECTION):
        return None
    bits = 64 if machine_number in (EM_X86_64, EM_AARCH64) else 32
    return PeHeader(
        machine, 0, flags, sections, offset, symbols, count if symbols else 0, bits, 0, 0, 0, 0, (), True, big
    )  # fmt: skip


def _unpack(form: str, data: memoryview, offset: int) -> tuple[int, ...]:
    if offset + struct.calcsize(form) > len(data):
        raise cut_off(PeError, "header", offset, struct.calcsize(form), max(0, len(data) - offset))
    return struct.unpack_from(form, data, offset)


def read_sections(data: memoryview, header: PeHeader) -> list[PeSection]:
    """Return every section; section 0 is empty, because symbols number sections from 1. Raises PeError."""
    sections = [PeSection(0, "", 0, 0, 0, 0, 0, False)]
    stride = struct.calcsize(layout.SECTION)
    size = header.section_count * stride
    if header.sections_offset + size > len(data):
        raise cut_off(PeError, "section table", None, size, max(0, len(data) - header.sections_offset))
    rows = struct.iter_unpack(layout.SECTION, data[header.sections_offset : header.sections_offset + size])
    names = string_size(data, header)
    budget = Budget("section table", "names", names, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=PeError)
    for index, (raw, virtual, rva, stored, offset, relocations, _, count, _, flags) in enumerate(rows, 1):
        name = section_name(raw, data, header.names_offset if header.symbols_offset else 0)
        budget.charge(len(name))
        in_file = min(stored, virtual or stored)
        absent = not offset or not stored or flags & layout.UNINITIALIZED
        memory = virtual or stored
        allocated = not name.startswith((".debug_", ".zdebug_"))
        if header.is_object:
            allocated = allocated and not flags & (layout.INFO | layout.REMOVE | layout.DISCARDABLE)
            if flags & layout.OVERFLOW and count == layout.MANY_RELOCATIONS and relocations + 4 <= len(data):
                count = struct.unpack_from("<I", data, relocations)[0]
        sections.append(
            PeSection(
                index, name, header.base + rva, 0 if absent else offset, memory if absent else in_file, memory, flags,
                allocated, (relocations, count) if header.is_object else (0, 0),
            )
        )  # fmt: skip
    return laid_out(sections) if header.is_object else sections


def string_size(data: memoryview, header: PeHeader) -> int:
    """Return the size of the string table in bytes, as far as the file has it; 0 without a string table."""
    start = header.names_offset
    if not header.symbols_offset or start + 4 > len(data):
        return 0
    return min(int.from_bytes(data[start : start + 4], "little"), len(data) - start)


def laid_out(sections: list[PeSection]) -> list[PeSection]:
    """Return the sections of an object file with distinct vaddrs: in order and aligned, code first.

    Existing addresses are kept.
    """
    loaded = [section for section in sections if section.allocated and section.size]
    if any(section.vaddr for section in sections) or sum(section.size for section in loaded) >> 31:
        return sections
    out = list(sections)
    end = 0
    for section in sorted(loaded, key=lambda section: not section.executable):
        end += -end % section.align
        out[section.index] = replaced(section, vaddr=end)
        end += section.size
    return out


def section_name(raw: bytes, data: memoryview, names: int) -> str:
    """Return a section's name.

    It has up to 8 bytes. A longer one is "/" and the decimal offset, or "//" and the base64 offset, of the name in the
    string table, which starts at file offset `names` (0: there is none).
    """
    text = raw.rstrip(b"\0")
    offset = -1
    if names and text.startswith(b"//"):
        digits = text[2:].rjust(8, b"A")
        try:
            offset = int.from_bytes(base64.b64decode(digits, validate=True), "big")
        except ValueError:
            offset = -1
    elif names and text[:1] == b"/" and text[1:].isdigit():
        offset = int(text[1:])
    if offset >= 4:
        text = cstring(data[names + offset : names + offset + NAME_LIMIT], 0) or text
    return text.decode("utf-8", "surrogateescape")


def read_codeview(data: memoryview, header: PeHeader, sections: list[PeSection]) -> tuple[str, int, str]:
    """Return GUID in hex, age and path of the PDB; ("", 0, "") if the file has no CodeView record."""
    rva, size = header.directory(layout.DEBUG)
    start = offset_of(rva, header, sections)
    stride = struct.calcsize(layout.DEBUG_ENTRY)
    for index in range(size // stride if start is not None else 0):
        offset = (start or 0) + index * stride
        if offset + stride > len(data):
            break
        *_, kind, length, _, record = struct.unpack_from(layout.DEBUG_ENTRY, data, offset)
        if kind == layout.DEBUG_CODEVIEW and length >= 24 and data[record : record + 4] == layout.RSDS:
            guid = bytes(data[record + 4 : record + 20])
            if len(guid) == 16 and any(guid) and record + 24 <= len(data):
                first, second, third, rest = struct.unpack("<IHH8s", guid)
                path = cstring(data[record + 24 : record + min(length, NAME_LIMIT)], 0)
                age = struct.unpack_from("<I", data, record + 20)[0]
                return f"{first:08x}{second:04x}{third:04x}{rest.hex()}", age, path.decode("utf-8", "surrogateescape")
    return "", 0, ""


def offset_of(rva: int, header: PeHeader, sections: list[PeSection]) -> int | None:
    """Return the file offset of an RVA; None if no section has it."""
    for section in sections:
        start = section.vaddr - header.base
        if rva and section.in_file and start <= rva < start + section.size:
            return section.file_offset + rva - start
    return None
