"""Members of static libraries: ar archives as System V, GNU and BSD write them, and GNU's thin ones.

An archive is a magic and members one after the other, each with a header of 60 bytes and padded to an even size. Names
of more than 15 bytes are in the member `//` (GNU: `/offset`), or before the contents (BSD: `#1/length`). A thin archive
has headers alone: its members are files, by paths relative to it.
"""

from __future__ import annotations

import os

from whence._base.errors import ElfError, shown
from whence._base.files import open_regular
from whence._base.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC = b"!<arch>\n"
THIN_MAGIC = b"!<thin>\n"
HEADER = 60  # bytes: name 16, date 12, uid 6, gid 6, mode 8, size 10, and the mark
NAME = slice(0, 16)
TIME = slice(16, 28)
SIZE = slice(48, 58)
MARK = slice(58, 60)
NAMES = b"//"
INDEXES = (b"/", b"/SYM64/", b"__.SYMDEF", b"__.SYMDEF SORTED")
LONGEST = 4096  # bytes of a name
LARGEST_TABLE = 64 << 20  # bytes of `//` that are read


class Member(NamedTuple):
    """A member's name, and where its contents are in the file; of a thin archive `offset` is -1.

    `time` is when it was modified, in seconds since 1970; 0 if unknown.
    """

    name: bytes
    offset: int
    size: int
    time: int = 0


def members(descriptor: int, size: int, start: int = 0) -> Iterator[Member]:
    """Yield the members of an archive, bytes [start, size) of an open file, without its indexes.

    Costs a read for each member. Raises ElfError at a malformed member.
    """
    magic = os.pread(descriptor, len(MAGIC), start)
    if magic not in (MAGIC, THIN_MAGIC):
        raise ElfError("archive", 0, f"the magic is {shown(magic)}, expected !<arch> or !<thin>")
    thin = magic == THIN_MAGIC
    names = b""
    offset = start + len(MAGIC)
    while offset < size:
        header = os.pread(descriptor, HEADER, offset)
        digits = header[SIZE].strip()
        if header[MARK] != b"`\n" or not digits.isdigit():
            raise ElfError("archive", offset, f"invalid header of a member: {shown(header)}")
        length = int(digits)
        offset += HEADER
        name = header[NAME].rstrip(b" ")
        stored = not thin or name == NAMES or name in INDEXES
        if stored and length > size - offset:
            raise ElfError("archive", offset, f"a member of {length} bytes extends past the end of the archive")
        if name == NAMES:
            names = os.pread(descriptor, min(length, LARGEST_TABLE), offset)
        elif name not in INDEXES:
            content, left = offset, length
            if name.startswith(b"#1/") and name[3:].isdigit() and int(name[3:]) <= length:
                content, left = offset + int(name[3:]), length - int(name[3:])
                name = os.pread(descriptor, min(content - offset, LONGEST), offset).rstrip(b"\0")
            elif name.startswith(b"/") and name[1:].isdigit():
                name = names[int(name[1:]) : int(name[1:]) + LONGEST].partition(b"\n")[0].removesuffix(b"/")
            else:
                name = name.removesuffix(b"/")
            if name not in INDEXES:
                time = header[TIME].strip()
                yield Member(name, -1 if thin else content, left, int(time) if time.isdigit() else 0)
        if stored:
            offset += length + length % 2


def open_member(path: str, name: str) -> tuple[str, int]:
    """Return a path to a member's contents, and a descriptor that has to stay open while the path is used.

    The descriptor is that of a copy in memory, -1 for a file of a thin archive. Raises OSError, ElfError.
    """
    encoded = os.fsencode(name)
    with open_regular(path, ElfError) as (descriptor, size):
        for member in members(descriptor, size):
            if member.name == encoded:
                if member.offset < 0:
                    return os.path.join(os.path.dirname(path), name), -1
                return _copied(descriptor, member)
    raise FileNotFoundError(2, f"no member {name!r} in {path!r}")


def _copied(descriptor: int, member: Member) -> tuple[str, int]:
    copy = os.memfd_create(os.fsdecode(member.name[-100:]))
    try:
        done = 0
        while done < member.size:
            sent = os.sendfile(copy, descriptor, member.offset + done, member.size - done)
            if not sent:
                raise ElfError("archive", member.offset + done, "a member is cut off")
            done += sent
    except BaseException:
        os.close(copy)
        raise
    return f"/proc/self/fd/{copy}", copy
