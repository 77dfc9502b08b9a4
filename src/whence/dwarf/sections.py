"""Which sections hold a file's DWARF, and where its code can be."""

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
LAST = (1 << 64) - 3  # -1 and -2 mark code that a linker dropped


class Sections(Record):
    """The DWARF sections of a file as views; empty where it has none. Names as the line programs' rooms want them."""

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
        """The same for kernels. The sections that hold names become sources of the string space."""
        if self.refs is None:
            self.refs = tuple(
                strings.ref(strings.add(view), 0) if len(view) else 0
                for view in (self.debug_info, self.debug_str, self.debug_line_str)
            )
        return DwarfSections(self, self.refs, order == "big", code)

    def of_types(self, strings: StringSpace) -> Sections:
        """The same with .debug_types in place of .debug_info."""
        found = Sections(**{name: getattr(self, name) for name in Sections.__match_args__})
        found.debug_info = self.debug_types
        if self.refs is not None:
            found.refs = (strings.ref(strings.add(self.debug_types), 0), *self.refs[1:])
        return found


def read_sections(
    elf: ObjectFile | None, problems: list[DwarfError | ObjectError], *, suffix: str = "", lines: bool = True,
    info: memoryview | None = None, alt: Sections | None = None,
) -> Sections:  # fmt: skip
    """The sections of a file (`suffix` ".dwo" for those of a split file), unpacked at the same time where compressed.

    A damaged section is left empty and its error kept in `problems`. With `info` that is .debug_info. `alt`: those of
    the supplementary file.
    """
    own = SECTIONS if info is None else SECTIONS[1:]  # without the first
    names = [f".debug_{name}{suffix}" for name in (*own, *(LINE_SECTIONS if lines else ()))]

    found = dict.fromkeys(names, memoryview(b""))
    packed = [] if elf is None else [name for name in names if (there := elf.section(name)) and there.compressed]

    def read(name: str) -> None:
        assert elf is not None
        try:
            found[name] = joined(elf, name) if elf.is_relocatable else elf.content(name)
        except ObjectError as error:
            problems.append(error)

    if elf is not None:
        largest_first = sorted(packed, key=lambda name: -getattr(elf.section(name), "size", 0))
        share(range(max(1, min(2, len(packed)))), largest_first, lambda _, name: read(name))
        for name in names:
            if name not in packed:
                read(name)
    views: dict[str, Any] = {name[1:].removesuffix(suffix): view for name, view in found.items()}
    nothing = memoryview(b"")
    alt_str = nothing if alt is None else alt.debug_str
    return Sections(**{"debug_line": nothing, "debug_info": info or nothing, "alt_str": alt_str, **views})


def joined(elf: ObjectFile, name: str) -> memoryview:
    """The bytes of all sections of a name, for files that were not linked: gcc gives each type unit a .debug_info of
    its own, in a group. Those follow the other one, where offsets count from."""
    found = [section for section in elf.sections if section.name == name]
    if len(found) < 2:
        return elf.content(name)
    if sum(section.size for section in found if section.in_file) > elf.size:
        raise ObjectError(f"section {name}", None, "sections of one name lie apart, in a file that holds them all")
    found.sort(key=lambda section: section.grouped)
    return memoryview(b"".join(map(elf.content, found)))


def code_of(elf: ObjectFile) -> array[int]:
    """Where code can be: [start, end) pairs in ascending order; anywhere but at 0 where the file doesn't say. In
    relocatable files every section is at 0, and code too."""
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
