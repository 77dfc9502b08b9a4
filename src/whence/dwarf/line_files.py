"""The files of line programs: names put together the way the program's version says, only when asked for.

A path is comp_dir / directory / name; each absolute part makes the ones before it fall away. Nothing is normalized:
`..` and doubled slashes stay as the producer wrote them, so that paths agree with what other tools print.
"""

from __future__ import annotations

from array import array
from typing import Protocol

from whence.errors import DwarfError
from whence.ranges.strings import Arena
from whence.window import ByteOrder, Window

PLACE_BITS = 56
PLACE_MASK = (1 << PLACE_BITS) - 1

# The low byte of a form that can name a file -> the section its number counts in
SECTION_OF_FORM = {0x08: "debug_line", 0x1F: "debug_line_str", 0x0E: "debug_str", 0x1D: "alt_str", 0x21: "alt_str"}
INDEX_FORMS = {0x1A, 0x25, 0x26, 0x27, 0x28, 0x02}  # strx and its sizes, GNU_str_index
STRING, STRP = 0x08, 0x0E

SLACK = 1 << 16  # bytes of programs that may be read beyond twice their section
LONGEST = 1 << 14  # bytes of a directory or file name: four times what Linux opens
PATHS_PER_BYTE = 64  # bytes of paths that a byte of line programs may make


class LineSections(Protocol):
    """What line programs need of a file: sections as bytes, empty when the file has none."""

    debug_line: memoryview
    debug_line_str: memoryview
    debug_str: memoryview
    debug_str_offsets: memoryview


class Paths:
    """Paths of files, put together in an arena, each once for all programs of a file that name it the same way."""

    __slots__ = ("_arena", "_known", "_room", "_windows", "left")

    def __init__(self, sections: LineSections, order: ByteOrder, arena: Arena) -> None:
        self._arena = arena
        self.left = 2 * len(sections.debug_line) + SLACK  # bytes of programs that may still be read
        self._room = PATHS_PER_BYTE * (len(sections.debug_line) + SLACK)
        self._known: dict[bytes, dict[tuple[int, int], int]] = {}
        names = ("debug_line", "debug_line_str", "debug_str", "debug_str_offsets", "alt_str")
        self._windows = {name: Window(getattr(sections, name, None) or b"", name, order, DwarfError) for name in names}

    def beside(self, sections: LineSections) -> Paths:
        """The same for the line programs of a file that completes this one."""
        return Paths(sections, self._windows["debug_line"].order, self._arena)

    def spend(self, size: int) -> bool:
        """May a program of so many bytes be read? Programs that overlap could make a small file cost hours."""
        self.left -= size
        return self.left >= 0

    def known(self, comp_dir: bytes) -> dict[tuple[int, int], int]:
        """The paths put together so far for programs of a compilation directory, by places of directory and name."""
        return self._known.setdefault(comp_dir, {})

    def ref(self, known: dict[tuple[int, int], int], comp_dir: bytes, key: tuple[int, int]) -> int:
        """The name reference of a path by the places of its directory and name, from `known` or put there; 0 ("") when
        it cannot be read."""
        ref = known.get(key)
        if ref is None:
            try:
                ref = self.compose(comp_dir, *key)
            except DwarfError:
                ref = 0
            known[key] = ref
        return ref

    def compose(self, comp_dir: bytes, directory: int, name: int) -> int:
        """The name reference of a path of two places (form << 56 | number); directory -1 is none."""
        path = join(comp_dir, self.text(directory) if directory >= 0 else b"", self.text(name))
        self._room -= len(path) + len(comp_dir)
        if self._room < 0:
            raise DwarfError("debug_line", None, "paths are no longer than the bytes of their programs justify")
        return self._arena.add(path)

    def direct(self, places: array[int], base: int, wide: bool) -> None:
        """Make indexes of strings offsets in .debug_str, in place. `base` is the unit's DW_AT_str_offsets_base; without
        one (0) entries begin behind the section's header, where it has one."""
        if not places or places[0] >> PLACE_BITS not in INDEX_FORMS:  # the entries of a table are of one form
            return
        offsets = self._windows["debug_str_offsets"]
        size = 8 if wide else 4
        if not base and len(offsets) > 2 * size and offsets.u16(2 * size - 4) == 5:
            base = 2 * size
        for at, place in enumerate(places):
            entry = base + size * (place & PLACE_MASK)
            try:
                number = offsets.u64(entry) if wide else offsets.u32(entry)
            except DwarfError:
                number = PLACE_MASK
            places[at] = STRP << PLACE_BITS | min(number, PLACE_MASK)

    def text(self, place: int) -> bytes:
        """The text at a place; DwarfError when it points outside its section."""
        form, number = place >> PLACE_BITS, place & PLACE_MASK
        section = SECTION_OF_FORM.get(form)
        if section is None:
            raise DwarfError("debug_line", None, "a path has a string form", f"form {form:#x}")
        return short_text(self._windows[section], number)


class FileNames:
    """The directories and files of one program, numbered as its version numbers them.

    Version 5 counts files and directories from 0; earlier ones from 1, with directory 0 for the unit's own.
    """

    __slots__ = ("_comp_dir", "_directories", "_first", "_known", "_parents", "_paths", "_places")

    def __init__(
        self,
        version: int,
        comp_dir: bytes,
        paths: Paths,
        directories: array[int],
        places: array[int],
        parents: array[int],
    ) -> None:
        self._first = 0 if version >= 5 else 1
        self._comp_dir, self._paths = comp_dir, paths
        self._directories, self._places, self._parents = directories, places, parents
        # A string in the program itself has a place that no other program names.
        inline = not places or places[0] >> PLACE_BITS == STRING
        self._known: dict[tuple[int, int], int] = {} if inline else paths.known(comp_dir)

    @classmethod
    def none(cls, paths: Paths) -> FileNames:
        """A program without files."""
        return cls(5, b"", paths, array("Q"), array("Q"), array("Q"))

    def __len__(self) -> int:
        """One more than the highest file number."""
        return len(self._places) + self._first

    def define(self, place: int, parent: int) -> None:
        """Add a file (DW_LNE_define_file)."""
        self._places.append(place)
        self._parents.append(parent)

    def ref(self, number: int) -> int:
        """The name reference of a file's path; 0 ("") when there is no such file or its name cannot be read."""
        index = number - self._first
        if not 0 <= index < len(self._places):
            return 0
        parent = self._parents[index] - self._first
        key = self._directories[parent] if 0 <= parent < len(self._directories) else -1, self._places[index]
        return self._paths.ref(self._known, self._comp_dir, key)


def short_text(window: Window, offset: int) -> bytes:
    """The bytes from an offset to the next NUL, which is not far."""
    window.need(offset, 1)
    for size in (128, LONGEST):
        text, nul, _ = bytes(window.data[offset : offset + size]).partition(b"\0")
        if nul:
            return text
    raise window.error(window.name, offset, f"a name in a path has at most {LONGEST} bytes", text[:16])


def join(comp_dir: bytes, directory: bytes, name: bytes) -> bytes:
    """One path of three parts.

    >>> join(b"/build", b"../src", b"main.c")
    b'/build/../src/main.c'
    >>> join(b"/build", b"/usr/include", b"stdio.h")
    b'/usr/include/stdio.h'
    """
    if not name or is_absolute(name):
        return name
    path = b"" if is_absolute(directory) else comp_dir
    for part in (directory, name):
        if path.endswith(b"/"):
            path += part.lstrip(b"/")
        elif path and part and not part.startswith(b"/"):
            path += b"/" + part
        else:
            path += part
    return path


def is_absolute(path: bytes) -> bool:
    """Absolute on Unix or on Windows (cross-compiled files name drives)."""
    return path.startswith((b"/", b"\\\\")) or (path[1:2] == b":" and path[2:3] in (b"\\", b"/"))
