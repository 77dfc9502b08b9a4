"""One range of a process's memory, what kind it is, and how to open the file behind it.

The name the kernel gives a range says its kind: a path, a path with " (deleted)", "/memfd:NAME (deleted)", a word in
brackets, or nothing. The path is the process's own view: it may name another file, or none, where we stand. So a file
is taken for the mapped one only if its inode and device are the mapping's.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from typing import NamedTuple

from whence._base import rooted
from whence._base.files import DELETED_MARK, must_be_regular, open_looked_at
from whence.procmap.kernels.constants import EXECUTE, READ, SHARED, WRITE


class Kind(enum.StrEnum):
    """What backs a range of memory."""

    FILE = "file"
    DELETED = "deleted"  # a file without a name any more: removed, or replaced by a new one
    MEMFD = "memfd"  # a file that never had a name: loaders and JIT compilers use them
    VDSO = "vdso"
    ANONYMOUS = "anonymous"  # no file: where executable, most likely code from a JIT compiler
    STACK = "stack"
    SPECIAL = "special"  # the kernel's own: [vsyscall], [vvar], [uprobes] ...

    @property
    def has_file(self) -> bool:
        return self in (Kind.FILE, Kind.DELETED, Kind.MEMFD)


# Names in brackets; any other one is SPECIAL.
_BRACKETS = {"[vdso]": Kind.VDSO, "[stack]": Kind.STACK, "[heap]": Kind.ANONYMOUS}
# Shared memory that the kernel backs with files of its own: no one can have linked code into it.
_SHARED_MEMORY = ("/dev/zero", "/SYSV", "/anon_hugepage", "/drm mm object", "/i915")
_NO_FILES = ("/memfd:", "/dev/")
_FILE = Kind.FILE


def kind_of(name: str) -> tuple[Kind, str, bool]:
    """(kind, path, deleted) of a range named so by the kernel.

    >>> kind_of("/usr/lib/libc.so.6 (deleted)")
    (<Kind.DELETED: 'deleted'>, '/usr/lib/libc.so.6', True)
    >>> kind_of("[vdso]")
    (<Kind.VDSO: 'vdso'>, '[vdso]', False)
    """
    if not name:
        return Kind.ANONYMOUS, "", False
    if name[0] == "/" and name[-1] != ")" and not name.startswith(_NO_FILES):  # nearly all
        return _FILE, name, False
    if name[0] == "[":
        kind = _BRACKETS.get(name)
        if kind is None:
            kind = Kind.SPECIAL
            if name.startswith(("[anon:", "[anon_shmem:")):
                kind = Kind.ANONYMOUS
            elif name.startswith("[stack:"):  # kernels before 4.5 named each thread's
                kind = Kind.STACK
        return kind, name, False
    deleted = name.endswith(DELETED_MARK)
    path = name[: -len(DELETED_MARK)] if deleted else name
    if name.startswith("/memfd:"):
        return Kind.MEMFD, path, deleted
    if deleted:
        return Kind.ANONYMOUS if path.startswith(_SHARED_MEMORY) else Kind.DELETED, path, True
    if name[0] == "/":  # devices are memory of something else, and opening one may do things
        if name.startswith("/dev/") and not name.startswith("/dev/shm/"):
            return Kind.SPECIAL, name, False
        return Kind.FILE, name, False
    # "(unreachable)/path": a file outside the process's root, still a file; "anon_inode:[...]" is the kernel's own
    return Kind.FILE if name.startswith("(unreachable)") else Kind.SPECIAL, path, False


class Mapping(NamedTuple):
    """A range [start, limit) of runtime addresses, backed from `offset` on by the file `path`.

    `process` is the directory of the process ("/proc/123", "" in a snapshot); `linked` whether the links in its
    map_files can be read. `device` compares with st_dev.

    >>> Mapping("/opt/app", 0x401000, 0x403000, 0x1000, "ab12")
    <Mapping 0x401000-0x403000 r-xp 0x1000 /opt/app>
    """

    path: str = ""
    start: int = 0
    limit: int = 0
    offset: int = 0
    build_id: str = ""
    kind: Kind = Kind.FILE
    permissions: int = READ | EXECUTE
    device: int = 0
    inode: int = 0
    deleted: bool = False
    process: str = ""
    linked: bool = False

    def __repr__(self) -> str:
        shown = f"{self.start:#x}-{self.limit:#x} {self.shown_permissions} {self.offset:#x} {self.path}".rstrip()
        return f"<{type(self).__name__} {shown}>"

    @property
    def map_files(self) -> str:
        """The link to the very file that is mapped, whatever it is called now; "" where it can't be had."""
        if not (self.linked and self.process and self.inode):
            return ""
        return f"{self.process}/map_files/{self.start:x}-{self.limit:x}"

    @property
    def is_exec(self) -> bool:
        return bool(self.permissions & EXECUTE)

    @property
    def end(self) -> int:
        """The first address behind the range: `limit` (the Go package's name), as all ranges of this package call
        it."""
        return self.limit

    @property
    def size(self) -> int:
        return self.limit - self.start

    @property
    def extent(self) -> tuple[int, int]:
        """What it shows of the file: the first byte and the one behind the last (see `elf.segments.Translation`)."""
        return self.offset, self.offset + self.limit - self.start

    @property
    def shown_permissions(self) -> str:
        """The four letters of the maps file, for instance ``r-xp``."""
        bits = self.permissions
        letters = zip("rwx", (READ, WRITE, EXECUTE), strict=True)
        return "".join(c if bits & bit else "-" for c, bit in letters) + ("s" if bits & SHARED else "p")

    def file_offset_of(self, runtime: int) -> int:
        """The byte of the file behind a runtime address of this range."""
        return runtime - self.start + self.offset

    def candidates(self, prefer_name: bool = False) -> Iterator[tuple[str, bool]]:
        """Paths that may lead to the mapped file, best first, and whether the inode has to be checked.

        The link in map_files always leads there; with `prefer_name` it comes after the names a person would use.
        """
        if not self.kind.has_file:
            return
        link = self.map_files
        if link and not prefer_name:
            yield link, False
        path = self.path.removeprefix("(unreachable)")
        foreign = bool(self.process) and rooted.is_foreign(self.process)
        if self.kind is Kind.DELETED:
            path += DELETED_MARK  # a living file may be called so
        if self.kind is not Kind.MEMFD:
            if not foreign:  # beside the name that it has for us there may be files of ours
                yield path, True
            if self.process:
                yield rooted.name_through(self.process, path), True
        if link and prefer_name:
            yield link, False
        if self.process:
            yield f"{self.process}/exe", True  # readable to the owner where map_files is not

    def is_file(self, status: os.stat_result) -> bool:
        """Whether a file with this status is the mapped one.

        btrfs and overlayfs show stat(2) another device than they show in maps; both are then anonymous (major 0), and
        the inode decides.
        """
        if status.st_ino != self.inode:
            return False
        return status.st_dev == self.device or os.major(status.st_dev) == 0 or os.major(self.device) == 0

    def _must_be_file(self, status: os.stat_result) -> None:
        """Raise OSError when a status is not the mapped file's: what has its name now may be a device."""
        must_be_regular(status)
        if not self.is_file(status):
            raise FileNotFoundError(2, "another file has its name now")

    def open(self) -> int:
        """A descriptor of the mapped file, never of another one with its name. The caller closes it.

        Raises FileNotFoundError when the file can't be reached (or was replaced), PermissionError when it may not be.
        """
        return self.open_with_name()[1]

    def openable_path(self, prefer_name: bool = False) -> str:
        """The first path that opens the mapped file (see `candidates`), "" when none does.

        What the path names may change between this look and the caller's own open.
        """
        try:
            path, descriptor = self.open_with_name(prefer_name)
        except OSError:
            return ""
        os.close(descriptor)
        return path

    def open_with_name(self, prefer_name: bool = False) -> tuple[str, int]:
        """The first candidate that is the mapped file, with an open descriptor of it. Raises as `open` does."""
        denied: OSError | None = None
        for path, checked in self.candidates(prefer_name):
            try:
                return path, open_looked_at(path, self._must_be_file if checked else must_be_regular)
            except PermissionError as error:
                denied = denied or error
            except (OSError, ValueError):
                continue
        raise denied or FileNotFoundError(2, "the mapped file is gone or replaced", self.path)
