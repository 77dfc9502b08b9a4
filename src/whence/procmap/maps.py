"""Parse the text of /proc/PID/maps into mappings (proc_pid_maps(5)).

    55d0c2a00000-55d0c2a28000 r-xp 00002000 fe:00 26723      /usr/bin/a program (deleted)
    start        end          perms offset  device inode     name: the rest of the line

    >>> maps = parse(b"1000-2000 r-xp 00003000 fe:00 42     /opt/a b\\\\012c\\n7000-8000 rw-p 0 00:00 0 \\n", "/proc/7")
    >>> maps.mappings[0].path, hex(maps.mappings[0].file_offset_of(0x1010))
    ('/opt/a b\\nc', '0x3010')
    >>> len(maps.mappings)  # only executable ranges by default
    1

A newline in a path is written \\012, which can't be distinguished from a path with these four characters. A malformed
line is a problem; the other lines are read.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from whence._base.errors import MapsError, shown
from whence._base.records import Record, field
from whence.procmap.kernels import maps as maps_kernel
from whence.procmap.kernels.constants import EXECUTE
from whence.procmap.mapping import Mapping, kind_of

_KEPT_PROBLEMS = 16
_SHORTEST_LINE = len(b"0-1 r-xp 0 0:0 0\n")


class Maps(Record, frozen=True):
    """Mappings in address order, and the problems of malformed lines (the first 16)."""

    mappings: list[Mapping] = field(default_factory=list)
    problems: list[MapsError] = field(default_factory=list)
    bad_lines: int = 0


class MapsColumns:
    """Columns for lines of a maps file, filled by the kernel. A name is given by its start and end."""

    __slots__ = ("device", "end", "inode", "name_end", "name_start", "offset", "permissions", "start")

    def __init__(self, capacity: int) -> None:
        self.start, self.end, self.offset, self.device, self.inode, self.name_start, self.name_end = (
            array("Q", bytes(8 * capacity)) for _ in range(7)
        )
        self.permissions = bytearray(capacity)

    def rows(self, count: int) -> Iterator[tuple[int, int, int, int, int, int, int, int]]:
        """Return the first rows: start, end, offset, permissions, device, inode, start and end of the name."""
        numbers = (self.start, self.end, self.offset), (self.device, self.inode, self.name_start, self.name_end)
        before, after = ([column[:count] for column in columns] for columns in numbers)
        return zip(*before, self.permissions[:count], *after, strict=True)


def parse(data: bytes, process: str = "", permissions: int = EXECUTE, linked: bool = True) -> Maps:
    """Return the mappings with all of these permissions (0: all mappings), from the text of a maps file.

    Args:
        data: the text.
        process: the directory of the process.
        permissions: bits of READ, WRITE, EXECUTE and SHARED.
        linked: True if the links in the process's map_files can be read.

    Build-ids are not read.
    """
    capacity = min(data.count(b"\n"), len(data) // _SHORTEST_LINE) + 1
    columns = MapsColumns(capacity)
    bad = array("Q", bytes(8 * _KEPT_PROBLEMS))
    rows, wrong, _ = maps_kernel.parse_maps(data, permissions, columns, bad)
    problems = []
    for position in bad[: min(wrong, _KEPT_PROBLEMS)]:
        line = data[position:].partition(b"\n")[0][:80].decode("latin-1")
        problems.append(MapsError("line", position, f"not start-end perms offset device inode name: {shown(line)}"))
    new, mappings, last, ordered = tuple.__new__, [], 0, True
    for start, end, offset, bits, device, inode, name, name_end in columns.rows(rows):
        raw = data[name:name_end]
        if b"\\" in raw:
            raw = raw.replace(b"\\012", b"\n")
        kind, path, deleted = kind_of(raw.decode("utf-8", "surrogateescape"))
        # like Mapping(...), in half the time
        fields = (path, start, end, offset, "", kind, bits, device, inode, deleted, process, linked)
        mappings.append(new(Mapping, fields))
        ordered &= start >= last
        last = start
    if not ordered:
        mappings.sort(key=lambda mapping: mapping.start)
    return Maps(mappings, problems, wrong)


def read(process: str) -> bytes:
    """Return the text of a process's maps file. Raises OSError."""
    with open(f"{process}/maps", "rb", buffering=0) as file:
        return file.read()
