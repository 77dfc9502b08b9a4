"""The section table: named parts of a file. A stripped or section-less file has an empty one."""

from __future__ import annotations

from whence._base.records import Record
from whence.objects.elf import layout
from whence.objects.elf.header import Header, entries
from whence.objects.elf.kernels import constants
from whence.objects.parts import ObjectSection

MAX_ALIGN = 1 << 16
NAME_LIMIT = 4096  # bytes of a name that are read; -ffunction-sections puts whole linkage names there
NAME_SHARING = 16  # names may overlap in their table; together they are at most this many times its size


class Section(Record, ObjectSection, frozen=True):
    """A section header. `size` is in bytes as stored: a compressed section decompresses to more.

    `vaddr` is sh_addr; in a relocatable file, which has no addresses, the address that `laid_out` assigns.
    """

    index: int
    name: str
    type: int
    flags: int
    vaddr: int
    file_offset: int
    size: int
    link: int
    info: int
    align: int
    entry_size: int

    @property
    def compressed(self) -> bool:
        return bool(self.flags & constants.SHF_COMPRESSED) or self.name.startswith(".zdebug_")

    @property
    def allocated(self) -> bool:
        return bool(self.flags & constants.SHF_ALLOC)

    @property
    def in_file(self) -> bool:
        """True if the file has its bytes: not for SHT_NOBITS (.bss, and most sections of a debug file)."""
        return self.type not in (constants.SHT_NULL, constants.SHT_NOBITS)

    @property
    def executable(self) -> bool:
        return bool(self.flags & constants.SHF_EXECINSTR)

    @property
    def grouped(self) -> bool:
        return bool(self.flags & constants.SHF_GROUP)

    @property
    def part(self) -> str:
        """The section's name in errors."""
        return self.name or f"section {self.index}"


def read_sections(data: memoryview, header: Header) -> tuple[Section, ...]:
    """Return every section, with names; a name outside the name table is ""."""
    rows = entries(data, header, header.sections, layout.SECTION[header.bits], "section table")
    names = b""
    if header.names_index < len(rows):
        _, type_, _, _, offset, size, *_ = rows[header.names_index]
        if type_ != constants.SHT_NOBITS and offset <= len(data):
            names = bytes(data[offset : offset + size])
    if header.type == constants.ET_REL:
        rows = laid_out(rows)
    names_by_offset: dict[int, str] = {}
    budget = NAME_SHARING * len(names) + NAME_LIMIT
    sections = []
    for index, (name, *rest) in enumerate(rows):
        text = names_by_offset.get(name)
        if text is None:
            end = names.find(b"\0", name, name + NAME_LIMIT)
            if end < 0 or budget <= 0:
                end = name
            text = names_by_offset[name] = names[name:end].decode("utf-8", "surrogateescape")
            budget -= end - name
        sections.append(Section(index, text, *rest))
    return tuple(sections)


def laid_out(rows: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the section headers of a relocatable file with distinct addresses assigned.

    In object files and kernel modules every sh_addr is 0, so a vaddr would be ambiguous. Like in a loader, sections
    follow each other, aligned, code first, so that .text keeps the 0 that other tools give it. Existing addresses are
    kept.
    """
    memory = [index for index, row in enumerate(rows) if row[2] & constants.SHF_ALLOC and row[5]]
    if any(row[3] for row in rows):
        return rows
    out = list(rows)
    end = 0
    for index in sorted(memory, key=lambda index: not rows[index][2] & constants.SHF_EXECINSTR):
        name, type_, flags, _, offset, size, link, info, align, entry_size = rows[index]
        end += -end % max(1, min(align, MAX_ALIGN))
        if end + size >= 1 << 31:
            return rows  # no sizes to believe
        out[index] = (name, type_, flags, end, offset, size, link, info, align, entry_size)
        end += size
    return out
