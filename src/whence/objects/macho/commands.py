"""Load commands: segments with their sections, and where the other tables of a file are."""

from __future__ import annotations

import struct

from whence._base.errors import MachoError, cut_off, empty_file, wrong_magic
from whence._base.records import Record, field
from whence._base.window import ByteOrder
from whence.objects.elf.kernels.constants import PF_R, PF_W, PF_X, PT_LOAD
from whence.objects.elf.segments import Segment
from whence.objects.macho import layout
from whence.objects.parts import ObjectSection

MAGICS = {magic.to_bytes(4, order): (bits, order) for bits, magic in ((32, layout.MAGIC_32), (64, layout.MAGIC_64))
          for order in ("little", "big")}  # fmt: skip
MARKS = {"little": "<", "big": ">"}
PAGE = 1 << 12
NOT_LOADED = 0  # ELF's PT_NULL


class MachoHeader(Record, frozen=True):
    bits: int
    order: ByteOrder
    cpu: int
    subtype: int
    type: int
    command_count: int
    command_size: int  # bytes of all commands

    @property
    def machine(self) -> int:
        return layout.MACHINES.get(self.cpu, 0)

    @property
    def mark(self) -> str:
        """The byte order for struct."""
        return MARKS[self.order]


class MachoSection(Record, ObjectSection, frozen=True):
    """A section header. `name` is the standard name that readers use, `own_name` that in the file ("__TEXT,__text")."""

    index: int
    name: str
    own_name: str
    vaddr: int
    file_offset: int
    size: int
    align: int
    flags: int
    allocated: bool
    in_file: bool
    relocations: tuple[int, int] = (0, 0)  # file offset and count

    @property
    def compressed(self) -> bool:
        return self.name.startswith(".zdebug_")

    @property
    def executable(self) -> bool:
        return bool(self.flags & layout.CODE_ATTRIBUTES)

    @property
    def grouped(self) -> bool:
        return False

    @property
    def part(self) -> str:
        """The section's name in errors."""
        return f"section {self.own_name or self.index}"


class LoadCommands(Record):
    """The facts of the load commands. Tables are (file offset, size in bytes), symbols (offset, count, names, size)."""

    segments: list[Segment] = field(default_factory=list)
    sections: list[MachoSection] = field(default_factory=list)
    text_vaddr: int = 0
    uuid: str = ""
    symbols: tuple[int, int, int, int] | None = None
    function_starts: tuple[int, int] | None = None
    entry_offset: int | None = None
    platform: str = ""
    encrypted: tuple[int, int] | None = None
    problems: list[MachoError] = field(default_factory=list)


def read_header(data: memoryview) -> MachoHeader:
    """Return the header. Raises MachoError if the file has another format or is cut off."""
    if not len(data):
        raise empty_file(MachoError)
    magic = bytes(data[:4])
    if magic not in MAGICS:
        raise wrong_magic(MachoError, "a Mach-O file", magic, *MAGICS)
    bits, order = MAGICS[magic]
    if len(data) < layout.HEADER_SIZE[bits]:
        raise cut_off(MachoError, "header", 0, layout.HEADER_SIZE[bits], len(data))
    cpu, subtype, type_, count, size, _ = struct.unpack_from(MARKS[order] + layout.HEADER, data, 4)
    return MachoHeader(bits, "little" if order == "little" else "big", cpu, subtype, type_, count, size)


def read_commands(data: memoryview, header: MachoHeader) -> LoadCommands:
    """Return what the load commands say. Reading stops at a damaged command, which is in `problems`."""
    out = LoadCommands()
    # section 0 is empty, because symbols number sections from 1
    out.sections.append(MachoSection(0, "", "", 0, 0, 0, 0, 0, False, False))
    offset = layout.HEADER_SIZE[header.bits]
    end = min(offset + header.command_size, len(data))
    try:
        for _ in range(header.command_count):
            if offset + 8 > end:
                raise cut_off(MachoError, "load commands", offset, 8, end - offset)
            command, size = struct.unpack_from(header.mark + "II", data, offset)
            if size < 8 or size % 4 or offset + size > end:
                fault = f"load command {command:#x} has size {size}, and {end - offset} bytes are left"
                raise MachoError("load commands", offset, fault)
            _read_command(data[offset : offset + size], offset, command, header, out)
            offset += size
    except MachoError as error:
        out.problems.append(error)
    return out


def _read_command(data: memoryview, offset: int, command: int, header: MachoHeader, out: LoadCommands) -> None:
    def words(form: str) -> tuple[int, ...]:
        if 8 + struct.calcsize(header.mark + form) > len(data):
            raise cut_off(MachoError, "load commands", offset, 8 + struct.calcsize(form), len(data))
        return struct.unpack_from(header.mark + form, data, 8)

    if command in (layout.LC_SEGMENT, layout.LC_SEGMENT_64):
        _read_segment(data, offset, 32 if command == layout.LC_SEGMENT else 64, header, out)
    elif command == layout.LC_SYMTAB:
        symbols, count, names, size = words("IIII")
        out.symbols = symbols, count, names, size
    elif command == layout.LC_UUID:
        words("16s")
        out.uuid = bytes(data[8:24]).hex() if any(data[8:24]) else ""
    elif command == layout.LC_FUNCTION_STARTS:
        start, size = words("II")
        out.function_starts = start, size
    elif command == layout.LC_MAIN:
        out.entry_offset = words("Q")[0]
    elif command in (layout.LC_ENCRYPTION_INFO, layout.LC_ENCRYPTION_INFO_64):
        start, size, method = words("III")
        if method:
            out.encrypted = start, start + size
    elif command == layout.LC_BUILD_VERSION:
        platform, least, sdk = words("III")
        out.platform = platform_text(layout.PLATFORMS.get(platform, f"platform {platform}"), least, sdk)
    elif command in layout.MIN_VERSIONS and not out.platform:
        least, sdk = words("II")
        out.platform = platform_text(layout.MIN_VERSIONS[command], least, sdk)


def platform_text(platform: str, least: int, sdk: int) -> str:
    """Return a platform and its versions in words.

    >>> platform_text("macOS", 0x000B0000, 0x000D0301)
    'macOS 11.0 or later, SDK 13.3.1'
    """
    return f"{platform} {version(least)} or later" + (f", SDK {version(sdk)}" if sdk else "")


def version(packed: int) -> str:
    parts = [packed >> 16, packed >> 8 & 0xFF, packed & 0xFF]
    return ".".join(map(str, parts if parts[2] else parts[:2]))


def _read_segment(data: memoryview, offset: int, bits: int, header: MachoHeader, out: LoadCommands) -> None:
    form = header.mark + layout.SEGMENT[bits]
    head = 8 + struct.calcsize(form)
    if head > len(data):
        raise cut_off(MachoError, "load commands", offset, head, len(data))
    raw, vaddr, memory_size, file_offset, file_size, _, protection, count, _ = struct.unpack_from(form, data, 8)
    name = text(raw)
    row = header.mark + layout.SECTION[bits]
    if head + count * struct.calcsize(row) > len(data):
        raise cut_off(MachoError, "load commands", offset, head + count * struct.calcsize(row), len(data))
    flags = PF_R
    if protection & layout.VM_PROT_WRITE:
        flags |= PF_W
    if protection & layout.VM_PROT_EXECUTE:
        flags |= PF_X
    loaded = name not in ("__PAGEZERO", "__DWARF")
    out.segments.append(
        Segment(PT_LOAD if loaded else NOT_LOADED, flags, file_offset, vaddr, file_size, memory_size, PAGE)
    )
    if name == "__TEXT":
        out.text_vaddr = vaddr
    for fields in struct.iter_unpack(row, data[head : head + count * struct.calcsize(row)]):
        section_name, segment_name, start, size, section_offset, align, relocations, number, section_flags, *_ = fields
        zero = section_flags & layout.SECTION_TYPE in layout.ZERO_FILL
        out.sections.append(
            MachoSection(
                len(out.sections),
                *section_names(text(segment_name), text(section_name)),
                start,
                section_offset,
                size,
                1 << min(align, 16),
                section_flags,
                text(segment_name) != "__DWARF",
                file_size > 0 and not zero,
                (relocations, number),
            )
        )


def section_names(segment: str, name: str) -> tuple[str, str]:
    """Return a section's standard name and its own.

    >>> section_names("__DWARF", "__debug_str_offs")
    ('.debug_str_offsets', '__DWARF,__debug_str_offs')
    """
    own = f"{segment},{name}"
    standard = layout.STANDARD_NAMES.get(name) if segment == "__DWARF" else layout.OTHER_NAMES.get(name)
    return standard or own, own


def text(raw: bytes) -> str:
    """Return a name of at most 16 bytes, padded with NUL."""
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
