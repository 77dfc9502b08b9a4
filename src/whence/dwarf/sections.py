"""The sections with a file's DWARF, and the vaddrs where its code can be."""

from __future__ import annotations

from array import array

from whence._base.cores import share
from whence._base.errors import DwarfError, ObjectError
from whence._base.records import Record
from whence.dwarf.kernels.units import DwarfSections
from whence.objects.interface import DWARF_SECTIONS, ObjectFile
from whence.ranges.strings import StringSpace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SECTIONS = DWARF_SECTIONS[:-1]
LINE_SECTIONS = DWARF_SECTIONS[-1:]
LAST = (1 << 64) - 3  # -1 and -2 mark dropped code


class Sections(Record):
    """The DWARF sections of a file as views; empty if missing."""

    debug_info: memoryview
    debug_types: memoryview  # type units of version 4
    debug_abbrev: memoryview
    debug_str: memoryview
    debug_line_str: memoryview
    debug_str_offsets: memoryview
    debug_addr: memoryview
    debug_ranges: memoryview
    debug_rnglists: memoryview
    debug_line: memoryview
    alt_str: memoryview  # .debug_str of the supplementary file
    refs: tuple[int, ...] | None = None  # of the first bytes of info, str, line_str
    types: Any = None  # the UnitSet of debug_types, once it is wanted

    def for_kernels(self, strings: StringSpace, order: str, code: array[int]) -> DwarfSections:
        """Return the sections for kernels. Sections with names become sources of the string space."""
        if self.refs is None:
            self.refs = tuple(
                strings.ref(strings.add(view), 0) if len(view) else 0
                for view in (self.debug_info, self.debug_str, self.debug_line_str)
            )
        return DwarfSections(self, self.refs, order == "big", code)

    def of_types(self, strings: StringSpace) -> Sections:
        """Return the sections with .debug_types as .debug_info."""
        sections = Sections(**{name: getattr(self, name) for name in Sections.__match_args__})
        sections.debug_info = self.debug_types
        if self.refs is not None:
            sections.refs = (strings.ref(strings.add(self.debug_types), 0), *self.refs[1:])
        return sections


def read_sections(
    elf: ObjectFile | None, problems: list[DwarfError | ObjectError], *, suffix: str = "", lines: bool = True,
    info: memoryview | None = None, alt: Sections | None = None,
) -> Sections:  # fmt: skip
    """Return the sections of a file, decompressed on two threads if they are compressed.

    A damaged section is empty, and its error is added to `problems`.

    Args:
        elf: the file; None for empty sections.
        problems: receives the errors.
        suffix: ".dwo" for the sections of a split file.
        lines: read .debug_line.
        info: used as .debug_info instead of the file's.
        alt: the sections of the supplementary file.
    """
    own = SECTIONS if info is None else SECTIONS[1:]  # without the first
    names = [f".debug_{name}{suffix}" for name in (*own, *(LINE_SECTIONS if lines else ()))]

    contents = dict.fromkeys(names, memoryview(b""))
    compressed = (
        [] if elf is None else [name for name in names if (section := elf.section(name)) and section.compressed]
    )

    def read(name: str) -> None:
        assert elf is not None
        try:
            contents[name] = joined(elf, name) if elf.is_relocatable else elf.content(name)
        except ObjectError as error:
            problems.append(error)

    if elf is not None:
        largest_first = sorted(compressed, key=lambda name: -getattr(elf.section(name), "size", 0))
        share(range(max(1, min(2, len(compressed)))), largest_first, lambda _, name: read(name))
        for name in names:
            if name not in compressed:
                read(name)
    views: dict[str, Any] = {name[1:].removesuffix(suffix): view for name, view in contents.items()}
    nothing = memoryview(b"")
    alt_str = nothing if alt is None else alt.debug_str
    return Sections(**{"debug_line": nothing, "debug_info": info or nothing, "alt_str": alt_str, **views})


def joined(elf: ObjectFile, name: str) -> memoryview:
    """Return the bytes of all sections of a name, for relocatable files.

    gcc puts each type unit into a .debug_info of its own, in a group; these follow the main section, which offsets
    refer to.
    """
    sections = [section for section in elf.sections if section.name == name]
    if len(sections) < 2:
        return elf.content(name)
    if sum(section.size for section in sections if section.in_file) > elf.size:
        raise ObjectError(name, None, "sections of this name together are larger than the file")
    sections.sort(key=lambda section: section.grouped)
    return memoryview(b"".join(map(elf.content, sections)))


def code_of(elf: ObjectFile) -> array[int]:
    """Return where code can be: [start, end) pairs in ascending order.

    Anywhere except at 0 if the file does not say. In relocatable files all sections, and so the code, are at 0.
    """
    if elf.is_relocatable:
        return array("Q", [0, LAST])
    joined = array("Q")
    for start, end in sorted(elf.code_ranges(or_loaded=True)):
        end = min(end, LAST)
        if end <= start:
            continue
        if joined and start <= joined[-1]:
            joined[-1] = max(joined[-1], end)
        else:
            joined.extend((start, end))
    return joined or array("Q", [1, LAST])
