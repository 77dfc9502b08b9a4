"""A range of a process's memory: its kind, and how to open its file.

The name of a range in maps tells its kind: a path, a path with " (deleted)", "/memfd:NAME (deleted)", a word in
brackets, or nothing. The path is valid in the process's own view, and may lead to another file here. So a file is only
accepted as the mapped one if its inode and device are those of the mapping.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from typing import NamedTuple

from whence._base import rooted
from whence._base.files import DELETED_MARK, must_be_regular, open_examined
from whence.procmap.kernels.constants import EXECUTE, READ, SHARED, WRITE


class Kind(enum.StrEnum):
    """The kind of backing of a range of memory."""

    FILE = "file"
    DELETED = "deleted"  # a file that was removed or replaced
    MEMFD = "memfd"  # a file without a name, used by loaders and JIT compilers
    VDSO = "vdso"
    ANONYMOUS = "anonymous"  # no file; if executable, most likely code of a JIT compiler
    STACK = "stack"
    SPECIAL = "special"  # the kernel's own: [vsyscall], [vvar], [uprobes] ...

    @property
    def has_file(self) -> bool:
        return self in (Kind.FILE, Kind.DELETED, Kind.MEMFD)


# Names in brackets; any other one is SPECIAL.
_BRACKETS = {"[vdso]": Kind.VDSO, "[stack]": Kind.STACK, "[heap]": Kind.ANONYMOUS}
# Shared memory that the kernel backs with its own files, which are never linked code.
_SHARED_MEMORY = ("/dev/zero", "/SYSV", "/anon_hugepage", "/drm mm object", "/i915")
_NO_FILES = ("/memfd:", "/dev/")
_FILE = Kind.FILE


def kind_of(name: str) -> tuple[Kind, str, bool]:
    """Return (kind, path, deleted) of a range by its name in maps.

    >>> kind_of("/usr/lib/libc.so.6 (deleted)")
    (<Kind.DELETED: 'deleted'>, '/usr/lib/libc.so.6', True)
    >>> kind_of("[vdso]")
    (<Kind.VDSO: 'vdso'>, '[vdso]', False)
    """
    if not name:
        return Kind.ANONYMOUS, "", False
    if name[0] == "/" and name[-1] != ")" and not name.startswith(_NO_FILES):  # the common case
        return _FILE, name, False
    if name[0] == "[":
        kind = _BRACKETS.get(name)
        if kind is None:
            kind = Kind.SPECIAL
            if name.startswith(("[anon:", "[anon_shmem:")):
                kind = Kind.ANONYMOUS
            elif name.startswith("[stack:"):  # of each thread, before Linux 4.5
                kind = Kind.STACK
        return kind, name, False
    deleted = name.endswith(DELETED_MARK)
    path = name[: -len(DELETED_MARK)] if deleted else name
    if name.startswith("/memfd:"):
        return Kind.MEMFD, path, deleted
    if deleted:
        return Kind.ANONYMOUS if path.startswith(_SHARED_MEMORY) else Kind.DELETED, path, True
    if name[0] == "/":  # a device is not opened, which may have side effects
        if name.startswith("/dev/") and not name.startswith("/dev/shm/"):
            return Kind.SPECIAL, name, False
        return Kind.FILE, name, False
    # "(unreachable)/path" is a file outside the process's root, "anon_inode:[...]" is not a file
    return Kind.FILE if name.startswith("(unreachable)") else Kind.SPECIAL, path, False


class Mapping(NamedTuple):
    """A range [start, limit) of runtime addresses.

    Attributes:
        path: the path of the file in the process's view, or the kernel's name of the range.
        start: the first runtime address.
        limit: the runtime address after the last one.
        offset: the offset in the file of the byte at `start`.
        build_id: lowercase hex, "" if unknown.
        kind: what backs the range.
        permissions: bits READ, WRITE, EXECUTE, SHARED.
        device: the device of the file, as in st_dev.
        inode: the inode of the file.
        deleted: True if the file has no name any more.
        process: the directory of the process ("/proc/123"), "" in a snapshot.
        linked: True if the links in the process's map_files can be read.

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
        """The link in map_files to the mapped file, independent of its name; "" if not available."""
        if not (self.linked and self.process and self.inode):
            return ""
        return f"{self.process}/map_files/{self.start:x}-{self.limit:x}"

    @property
    def is_exec(self) -> bool:
        return bool(self.permissions & EXECUTE)

    @property
    def end(self) -> int:
        """The runtime address after the last one, like `limit`."""
        return self.limit

    @property
    def size(self) -> int:
        return self.limit - self.start

    @property
    def extent(self) -> tuple[int, int]:
        """The bytes of the file that are mapped: offset of the first, and offset after the last."""
        return self.offset, self.offset + self.limit - self.start

    @property
    def shown_permissions(self) -> str:
        """The four letters of the maps file, for instance ``r-xp``."""
        bits = self.permissions
        letters = zip("rwx", (READ, WRITE, EXECUTE), strict=True)
        return "".join(c if bits & bit else "-" for c, bit in letters) + ("s" if bits & SHARED else "p")

    def file_offset_of(self, runtime: int) -> int:
        """Return the offset in the file of a runtime address of this range."""
        return runtime - self.start + self.offset

    def candidates(self, prefer_name: bool = False) -> Iterator[tuple[str, bool]]:
        """Yield (path, must check the inode) for paths that may lead to the mapped file, best first.

        The link in map_files always leads to it; with `prefer_name` it follows the file's names.
        """
        if not self.kind.has_file:
            return
        link = self.map_files
        if link and not prefer_name:
            yield link, False
        path = self.path.removeprefix("(unreachable)")
        foreign = bool(self.process) and rooted.is_foreign(self.process)
        if self.kind is Kind.DELETED:
            path += DELETED_MARK  # a file may really have this name
        if self.kind is not Kind.MEMFD:
            if not foreign:  # else the path may lead to an unrelated file
                yield path, True
            if self.process:
                yield rooted.name_through(self.process, path), True
        if link and prefer_name:
            yield link, False
        if self.process:
            yield f"{self.process}/exe", True  # readable by the owner, unlike map_files

    def is_file(self, status: os.stat_result) -> bool:
        """Return True if a file with this status is the mapped file.

        For btrfs and overlayfs, stat(2) and maps show different devices, both anonymous (major 0); then the inode
        decides.
        """
        if status.st_ino != self.inode:
            return False
        return status.st_dev == self.device or os.major(status.st_dev) == 0 or os.major(self.device) == 0

    def _must_be_file(self, status: os.stat_result) -> None:
        """Raise OSError if a status is not that of the mapped file."""
        must_be_regular(status)
        if not self.is_file(status):
            raise FileNotFoundError(2, "another file has this name now")

    def open(self) -> int:
        """Return a descriptor of the mapped file, never of another file with its name. The caller closes it.

        Raises:
            FileNotFoundError: the file can't be reached, or was replaced.
            PermissionError: access was denied.
        """
        return self.open_with_name()[1]

    def openable_path(self, prefer_name: bool = False) -> str:
        """Return the first path that opens the mapped file (see `candidates`), "" if all fail.

        The path may lead to another file by the time the caller opens it.
        """
        try:
            path, descriptor = self.open_with_name(prefer_name)
        except OSError:
            return ""
        os.close(descriptor)
        return path

    def open_with_name(self, prefer_name: bool = False) -> tuple[str, int]:
        """Return the first candidate that is the mapped file, and an open descriptor. Raises like `open`."""
        denied: OSError | None = None
        for path, checked in self.candidates(prefer_name):
            try:
                return path, open_examined(path, self._must_be_file if checked else must_be_regular)
            except PermissionError as error:
                denied = denied or error
            except (OSError, ValueError):
                continue
        raise denied or FileNotFoundError(2, "the mapped file is gone or replaced", self.path)
